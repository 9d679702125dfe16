# SPDX-License-Identifier: Apache-2.0
"""The summary of a request: a record keeps nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from novasched.decisions import request_summary
from novasched.decisions.request_summary import RequestSummary
from novasched.objects.base import NovaObject
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
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


def summary(request: RequestSpec) -> RequestSummary:
    """Make the summary of a request; every text is cut at LONGEST."""
    target = target_of(request)
    return RequestSummary(
        flavor=_flavor(request.if_set('flavor')),
        image=_image(request.if_set('image')),
        zone=zone_of(request),
        group=_group(request.if_set('instance_group')),
        forced=_texts([*_each(request, 'force_hosts'), *_each(request, 'force_nodes')]),
        ignored=_texts(_each(request, 'ignore_hosts')),
        named=None
        if target is None
        else request_summary.NamedHost(target.host, target.node),
        hints=_hints(request.if_set('scheduler_hints') or {}),
        pci_requests=_count(request.if_set('pci_requests'), 'requests'),
        ports=sum(
            bool(each.if_set('port_id'))
            for each in _each(request, 'requested_networks')
        ),
        requested_resources=_count(request, 'requested_resources'),
        numa_nodes=_count(request.if_set('numa_topology'), 'cells'),
        is_move=request.is_move,
        is_rebuild=request.is_rebuild,
    )


def flavor_name(request: RequestSpec) -> str:
    flavor = request.if_set('flavor')
    return '' if flavor is None else cut(flavor.if_set('name') or '')


def zone_of(request: RequestSpec) -> str:
    return cut(request.if_set('availability_zone') or '')


def cut(text: object) -> str:
    """Return a value as text of a bounded length."""
    return str(text)[:LONGEST]


def _texts(values: Iterable[object]) -> list[str]:
    return [cut(value) for value in list(values)[:MOST_KEYS]]


def _pairs(values: Mapping[str, Any]) -> dict[str, str]:
    return {cut(name): cut(values[name]) for name in sorted(values)[:MOST_KEYS]}


def _each(holder: NovaObject, name: str) -> Iterable[Any]:
    """Return the values of a field that is a list, if it is set."""
    found: Iterable[Any] = holder.if_set(name) or ()
    return found


def _count(holder: NovaObject | None, name: str) -> int:
    return 0 if holder is None else len(holder.if_set(name) or ())


def _flavor(flavor: Flavor | None) -> request_summary.FlavorSummary | None:
    if flavor is None:
        return None
    return request_summary.FlavorSummary(
        name=cut(flavor.if_set('name') or ''),
        **{name: flavor.if_set(name) or 0 for name in request_summary.FLAVOR_SIZES},
        extra_specs=_pairs(flavor.if_set('extra_specs') or {}),
    )


def _image(image: ImageMeta | None) -> request_summary.ImageSummary | None:
    if image is None:
        return None
    properties = image.if_set('properties')
    found = {} if properties is None else properties.set_fields()
    known = {
        name: value for name, value in found.items()
        if value is not None and name.startswith(IMAGE_PROPERTIES)
    }  # fmt: skip
    return request_summary.ImageSummary(image.if_set('id'), _pairs(known))


def _group(group: InstanceGroup | None) -> request_summary.GroupSummary | None:
    if group is None:
        return None
    policy = group.if_set('policy')
    return request_summary.GroupSummary(
        group.if_set('uuid'),
        _texts([policy] if policy else _each(group, 'policies')),
        _count(group, 'members'),
    )


def _hints(hints: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hints by name, nova's own included, such as _nova_check_type."""
    return {
        cut(name): _texts(hints[name]) if name in HINTS else None
        for name in sorted(hints)[:MOST_KEYS]
    }
