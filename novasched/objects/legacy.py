# SPDX-License-Identifier: Apache-2.0
"""Requests made of the dicts that they were before RequestSpec.

Version 4.0 of the interface, old plugins and old notifications use them.
``request_spec`` has the image, the flavor and properties of the instance;
``filter_properties`` has everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from novasched import errors
from novasched.objects.base import NAME, NovaObject, parse
from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.filter_properties import AS_THEY_ARE, HOST_LISTS
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance import Instance
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import (
    Destination,
    RequestSpec,
    SchedulerLimits,
    SchedulerRetries,
)
from novasched.parsing import parse_json

Kind = TypeVar('Kind', bound=NovaObject)


def from_legacy(
    request_spec: Mapping[str, Any] | None, filter_properties: Mapping[str, Any] | None
) -> RequestSpec:
    """Return the request that the two dicts describe.

    Objects in them may be objects or primitives. What they do not say stays
    unset or takes its default. Raises errors.InvalidRequest for a value that
    does not fit and what base.parse() raises.
    """
    asked = _parsed(_mapping('request_spec', request_spec))
    wanted = _parsed(_mapping('filter_properties', filter_properties))
    spec = RequestSpec()
    spec.assign(
        num_instances=asked.get('num_instances', 1),
        image=_image(asked.get('image')),
        **_from_instance(asked.get('instance_properties')),
        **_from_flavor(asked.get('instance_type')),
    )
    spec.assign(
        **{name: wanted.get(name) for name in HOST_LISTS},
        requested_destination=_object(Destination, wanted.get('requested_destination')),
        retry=_retry(wanted.get('retry')),
        limits=_limits(wanted.get('limits', {})),
        instance_group=_group(wanted),
        scheduler_hints=_hints(wanted.get('scheduler_hints', {})),
    )
    spec.obj_set_defaults()
    spec.obj_reset_changes()
    return spec


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.InvalidRequest(f'{name} is a {type(value).__name__}, not a dict')
    return value


def _parsed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: parse(value) if isinstance(value, dict) and NAME in value else value
        for name, value in values.items()
    }


def _object(kind: type[Kind], value: Any) -> Kind | None:
    """Return an object that came as itself, as a primitive or as JSON text."""
    if value == '':
        return None
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError as error:
            raise errors.InvalidRequest(f'{kind.obj_name()}: {error}') from error
    if isinstance(value, dict):
        value = parse(value)
    if value is None or isinstance(value, kind):
        return value
    raise errors.InvalidRequest(
        f'an object {kind.obj_name()} is required, not a {type(value).__name__}'
    )


def _image(image: Any) -> ImageMeta | None:
    if isinstance(image, ImageMeta):
        return image
    return ImageMeta.from_dict(image) if isinstance(image, Mapping) else None


def _from_instance(properties: Any) -> dict[str, Any]:
    """Return the fields that the properties of the instance give.

    Where there are properties, the ones that are missing are None.
    """
    if properties is None:
        return {}
    if isinstance(properties, Instance):
        instance = properties
        properties = {
            name: getattr(instance, name)
            for name in (*AS_THEY_ARE, 'uuid')
            if name in instance or name in instance.unreadable
        }
    given = _mapping('instance_properties', properties)
    values = {name: given.get(name) for name in AS_THEY_ARE}
    values['numa_topology'] = _object(InstanceNUMATopology, values['numa_topology'])
    values['pci_requests'] = _object(InstancePCIRequests, values['pci_requests'])
    if given.get('uuid') is not None:
        values['instance_uuid'] = given['uuid']
    return values


def _from_flavor(flavor: Any) -> dict[str, Flavor]:
    if isinstance(flavor, Flavor):
        return {'flavor': flavor}
    given = _mapping('instance_type', flavor)
    if not given:
        return {}
    known = {name: given[name] for name in given if name in Flavor.fields}
    return {'flavor': Flavor.made_of(**known)}


def _retry(retry: Any) -> SchedulerRetries | None:
    if not retry:
        return None
    if isinstance(retry, SchedulerRetries):
        return retry
    given = _mapping('retry', retry)
    if 'hosts' not in given:
        return SchedulerRetries()
    hosts = [_tried(pair) for pair in given['hosts'] or ()]
    values: dict[str, Any] = {'hosts': ComputeNodeList.made_of(objects=hosts)}
    if 'num_attempts' in given:
        values['num_attempts'] = given['num_attempts']
    return SchedulerRetries.made_of(**values)


def _tried(pair: Any) -> ComputeNode:
    try:
        host, node = pair
    except (TypeError, ValueError) as error:
        raise errors.InvalidRequest(f'retry: {pair!r} is no host and node') from error
    return ComputeNode.made_of(host=host, hypervisor_hostname=node)


def _limits(limits: Any) -> SchedulerLimits | None:
    if limits is None or isinstance(limits, SchedulerLimits):
        return limits
    given = _mapping('limits', limits)
    return SchedulerLimits.made_of(
        **{name: given.get(name) for name in ('vcpu', 'disk_gb', 'memory_mb')},
        numa_topology=_object(NUMATopologyLimits, given.get('numa_topology')),
    )


def _group(wanted: Mapping[str, Any]) -> InstanceGroup | None:
    if wanted.get('instance_group') is not None:
        return _object(InstanceGroup, wanted['instance_group'])
    if wanted.get('group_updated') is not True:
        return None
    policies = list(wanted.get('group_policies') or ())
    uuid = wanted.get('group_uuid')
    return InstanceGroup.made_of(
        policy=policies[0] if policies else None,
        hosts=list(wanted.get('group_hosts') or ()),
        members=list(wanted.get('group_members') or ()),
        **({'uuid': uuid} if uuid else {}),
    )


def _hints(hints: Any) -> dict[str, list[Any]] | None:
    if hints is None:
        return None
    given = _mapping('scheduler_hints', hints)
    return {
        name: value if isinstance(value, list) else [value]
        for name, value in given.items()
        if value is not None
    }
