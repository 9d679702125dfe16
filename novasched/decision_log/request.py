# SPDX-License-Identifier: Apache-2.0
"""The fields of a request that a record keeps; it keeps nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from novasched.objects.request_spec import RequestSpec
from novasched.resources.request import target_of

MOST_KEYS = 64
LONGEST = 256
IMAGE_PROPERTIES = ('hw_', 'os_', 'img_', 'trait')
"""Beginnings of names of the properties of an image that are kept."""
HINTS = (
    'group',
    'same_host',
    'different_host',
    'query',
    'build_near_host_ip',
    'cidr',
)
"""Hints whose values are kept; of others only the name is."""


def summary(request: RequestSpec) -> dict[str, Any]:
    """Make the record of a request; every text is cut at LONGEST."""
    flavor = request.if_set('flavor')
    group = request.if_set('instance_group')
    pci = request.if_set('pci_requests')
    numa = request.if_set('numa_topology')
    target = target_of(request)
    return {
        'flavor': {
            'name': cut(flavor.if_set('name') or ''),
            **{
                name: flavor.if_set(name) or 0
                for name in ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap')
            },
            'extra_specs': _pairs(flavor.if_set('extra_specs') or {}),
        }
        if flavor is not None
        else None,
        'image': _image(request),
        'zone': cut(request.if_set('availability_zone') or ''),
        'group': {
            'uuid': group.if_set('uuid'),
            'policies': _texts(
                [group.if_set('policy')] if group.if_set('policy') else
                group.if_set('policies') or ()
            ),
            'members': len(group.if_set('members') or ()),
        }
        if group is not None
        else None,
        'forced': _texts(
            [*(request.if_set('force_hosts') or ()),
             *(request.if_set('force_nodes') or ())]
        ),
        'ignored': _texts(request.if_set('ignore_hosts') or ()),
        'named': None
        if target is None
        else {'host': target.host, 'node': target.node},
        'hints': _hints(request.if_set('scheduler_hints') or {}),
        'pci_requests': len(pci.requests) if pci and pci.if_set('requests') else 0,
        'ports': sum(
            1 for each in request.if_set('requested_networks') or ()
            if each.if_set('port_id')
        ),
        'requested_resources': len(request.if_set('requested_resources') or ()),
        'numa_nodes': len(numa.cells) if numa else 0,
        'is_move': request.is_move,
        'is_rebuild': request.is_rebuild,
    }  # fmt: skip


def cut(text: object) -> str:
    """Return a value as text of a bounded length."""
    return str(text)[:LONGEST]


def _texts(values: Iterable[object]) -> list[str]:
    return [cut(value) for value in list(values)[:MOST_KEYS]]


def _pairs(values: Mapping[str, Any]) -> dict[str, str]:
    return {cut(name): cut(values[name]) for name in sorted(values)[:MOST_KEYS]}


def _image(request: RequestSpec) -> dict[str, Any] | None:
    image = request.if_set('image')
    if image is None:
        return None
    properties = image.if_set('properties')
    found = {} if properties is None else properties.set_fields()
    known = {
        name: value for name, value in found.items()
        if value is not None and name.startswith(IMAGE_PROPERTIES)
    }  # fmt: skip
    return {'id': image.if_set('id'), 'properties': _pairs(known)}


def _hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints by name, nova's own included, such as _nova_check_type."""
    return {
        cut(name): _texts(hints[name]) if name in HINTS else None
        for name in sorted(hints)[:MOST_KEYS]
    }
