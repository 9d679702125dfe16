# SPDX-License-Identifier: Apache-2.0
"""Requests that are valid by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import Destination, RequestSpec

INSTANCE = 'c0000000-0000-4000-8000-000000000001'
"""The instance that a request is about, unless it says otherwise."""

_NONE_BY_DEFAULT = (
    'numa_topology',
    'pci_requests',
    'availability_zone',
    'ignore_hosts',
    'force_hosts',
    'force_nodes',
    'requested_destination',
    'retry',
    'limits',
    'instance_group',
)


def group(
    policy: str = 'anti-affinity',
    members: Iterable[str] = (),
    hosts: Iterable[str] = (),
    **rules: Any,
) -> InstanceGroup:
    """Return a server group with a policy and its rules."""
    made = InstanceGroup(
        uuid='60000000-0000-4000-8000-000000000001',
        policy=policy,
        policies=[policy],
        members=list(members),
        hosts=list(hosts),
        _rules={name: str(value) for name, value in rules.items()},
    )
    made.obj_reset_changes()
    return made


def destination(host: str, node: str | None = None) -> Destination:
    """Return a destination on a host."""
    made = Destination(host=host, node=node)
    made.obj_reset_changes()
    return made


def request(
    vcpus: int = 1,
    memory_mb: int = 512,
    root_gb: int = 1,
    ephemeral_gb: int = 0,
    swap: int = 0,
    extra_specs: Mapping[str, str] | None = None,
    image: Mapping[str, Any] | None = None,
    **values: Any,
) -> RequestSpec:
    """Return the request of one instance; ``swap`` is in MiB.

    ``image`` are the properties of its image; the other values are fields of
    the RequestSpec. Hints are lists of texts by name: ``scheduler_hints``.
    """
    flavor = Flavor(
        id=1,
        name='small',
        flavorid='1',
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=ephemeral_gb,
        swap=swap,
        extra_specs=extra_specs or {},
    )
    fields = {
        'image': None if image is None else ImageMeta.from_dict({'properties': image}),
        'flavor': flavor,
        'instance_uuid': INSTANCE,
        'project_id': 'project',
        'user_id': 'user',
        'num_instances': 1,
        **dict.fromkeys(_NONE_BY_DEFAULT),
        'scheduler_hints': {},
        **values,
    }
    made = RequestSpec(**fields)
    made.obj_reset_changes(recursive=True)
    return made
