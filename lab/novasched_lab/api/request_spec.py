# SPDX-License-Identifier: Apache-2.0
"""Request spec and instance object of a new server.

Nova: objects/request_spec.py, from_components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance import Instance
from novasched.objects.instance_extra import InstanceInfoCache
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.network import NetworkRequestList
from novasched.objects.request_spec import Destination, RequestSpec
from novasched.objects.security_group import SecurityGroupList
from novasched_lab.api.numa_constraints import topology_of
from novasched_lab.api.pci_aliases import PciAliases

NO_ALIASES = PciAliases()
NO_NETWORKS = '[]'
"""The networks of a new instance, as nova caches them; its computes read no null."""


def request_spec(
    uuid: str,
    flavor: Flavor,
    image: Mapping[str, Any] | None,
    *,
    project_id: str | None,
    user_id: str | None,
    num_instances: int = 1,
    availability_zone: str | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
    group: InstanceGroup | None = None,
    aliases: PciAliases = NO_ALIASES,
) -> RequestSpec:
    """Return the request to place an instance; every field is set.

    ``image`` has an id and properties, None: it boots from a volume. A zone may be
    ``zone:host`` or ``zone:host:node``, which forces it there. Raises
    errors.InvalidDemand.
    """
    zone, host, node = _place(availability_zone)
    made = RequestSpec(
        flavor=flavor,
        image=ImageMeta.from_dict(dict(image or {})),
        is_bfv=image is None,
        instance_uuid=uuid,
        project_id=project_id,
        user_id=user_id,
        num_instances=num_instances,
        availability_zone=zone,
        force_hosts=[host] if host else None,
        force_nodes=[node] if node else None,
        ignore_hosts=None,
        requested_destination=None,
        retry=None,
        limits=None,
        instance_group=group,
        scheduler_hints={name: list(values) for name, values in (hints or {}).items()},
        security_groups=SecurityGroupList(objects=[]),
        requested_networks=NetworkRequestList(objects=[]),
        numa_topology=None,
        pci_requests=None,
    )
    made.assign(
        numa_topology=topology_of(made),
        pci_requests=aliases.requests_of(made),
        requested_resources=[],
    )
    made.obj_reset_changes(recursive=True)
    return made


def _place(text: str | None) -> tuple[str | None, str, str]:
    """Return the zone, the host and the node; the latter empty where not given."""
    zone, _, rest = (text or '').partition(':')
    host, _, node = rest.partition(':')
    return zone or None, host, node


def destined(request: RequestSpec, host: str, node: str | None = None) -> RequestSpec:
    """Return a request that must end on a host, after its filters have agreed."""
    to = Destination(host=host, node=node)
    to.obj_reset_changes()
    return request.replaced(requested_destination=to)


def instance_of(request: RequestSpec, name: str, number: int = 0) -> Instance:
    """Return the new instance that a request is for, as the API first has it.

    Host and node are left unset, as nova's API leaves them: a conductor of nova refuses
    an instance whose node is None.
    """
    flavor, image = request.flavor, request.image
    properties = image.properties if image and 'properties' in image else None
    found = {} if properties is None else properties.obj_to_primitive()
    named = found.get('nova_object.data', {})
    made = Instance(
        uuid=request.instance_uuid,
        project_id=request.project_id,
        user_id=request.user_id,
        display_name=name,
        hostname=name,
        launch_index=number,
        image_ref=image.id if image and 'id' in image else '',
        vm_state='building',
        task_state='scheduling',
        power_state=0,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        instance_type_id=flavor.id if 'id' in flavor else None,
        availability_zone=request.availability_zone,
        flavor=flavor,
        numa_topology=request.numa_topology,
        pci_requests=request.pci_requests,
        system_metadata={
            f'image_{key}': str(value)
            for key, value in named.items()
            if isinstance(value, str | int | float)
        },
        info_cache=InstanceInfoCache(
            instance_uuid=request.instance_uuid, network_info=NO_NETWORKS
        ),
        hidden=False,
        locked=False,
    )
    made.obj_reset_changes(recursive=True)
    return made
