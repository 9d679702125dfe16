# SPDX-License-Identifier: Apache-2.0
"""Notification payloads of request specs and services.

``legacy_request_spec`` is the older form, a plain dict; the others are versioned
payloads, in the primitive form of an object. They are only ever sent, so each is
a table of fields over the object that it describes, and not an object itself.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from novasched.objects import base
from novasched.objects.base import NovaObject
from novasched.objects.filter_properties import request_spec_dict
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import Destination, RequestSpec, SchedulerRetries
from novasched.releases import NEWEST

Primitive = dict[str, Any]

_LEGACY_STAMP = '%Y-%m-%dT%H:%M:%S.%f'
_STAMP = '%Y-%m-%dT%H:%M:%SZ'


class Payload:
    """A kind of payload: ``fields`` that may be null, and those that may not.

    An unset field is null where it may be, and else left out.
    """

    def __init__(
        self, name: str, version: str, fields: str, required: str = ''
    ) -> None:
        self.name = name
        self.version = version
        self.fields = fields.split()
        self.required = required.split()

    def of(self, source: NovaObject, **given: Any) -> Primitive:
        """Return the payload; the fields are read from source if not given."""
        data: Primitive = dict.fromkeys(self.fields)
        for name in (*self.fields, *self.required):
            if name not in given and name in source:
                data[name] = source.fields[name].to_primitive(
                    source, name, getattr(source, name)
                )
        return self.primitive({**data, **given})

    def primitive(self, data: Primitive) -> Primitive:
        """Return the payload with these fields."""
        return {
            base.NAME: self.name,
            base.NAMESPACE: 'nova',
            base.VERSION: self.version,
            base.DATA: data,
        }


REQUEST_SPEC = Payload(
    'RequestSpecPayload',
    '1.1',
    'project_id user_id availability_zone flavor force_hosts force_nodes ignore_hosts '
    'instance_group image numa_topology pci_requests requested_destination retry '
    'scheduler_hints',
    'instance_uuid num_instances security_groups',
)
FLAVOR = Payload(
    'FlavorPayload',
    '1.4',
    'flavorid memory_mb vcpus root_gb ephemeral_gb rxtx_factor vcpu_weight extra_specs '
    'projects description',
    'name swap disabled is_public',
)
IMAGE_META = Payload(
    'ImageMetaPayload',
    '1.0',
    'id name status visibility protected checksum owner size virtual_size '
    'container_format disk_format created_at updated_at tags direct_url min_ram '
    'min_disk',
    'properties',
)
IMAGE_META_PROPS = Payload(
    'ImageMetaPropsPayload',
    NEWEST.image_props_payload,
    '',
    ' '.join(
        name
        for name in ImageMetaProps.fields
        if name != 'hw_ephemeral_encryption_secret_uuid'
    ),
)
NUMA_TOPOLOGY = Payload(
    'InstanceNUMATopologyPayload',
    '1.0',
    'emulator_threads_policy',
    'instance_uuid cells',
)
NUMA_CELL = Payload(
    'InstanceNUMACellPayload',
    '1.2',
    'cpuset_reserved pagesize cpu_topology cpu_pinning_raw cpu_policy '
    'cpu_thread_policy',
    'id cpuset pcpuset memory',
)
CPU_TOPOLOGY = Payload('VirtCPUTopologyPayload', '1.0', 'sockets cores threads')
PCI_REQUESTS = Payload(
    'InstancePCIRequestsPayload', '1.0', '', 'instance_uuid requests'
)
PCI_REQUEST = Payload(
    'InstancePCIRequestPayload',
    '1.1',
    'alias_name request_id numa_policy',
    'count spec',
)
DESTINATION = Payload('DestinationPayload', '1.0', 'aggregates', 'host node cell')
CELL_MAPPING = Payload('CellMappingPayload', '2.0', 'name', 'uuid disabled')
RETRIES = Payload('SchedulerRetriesPayload', '1.0', '', 'num_attempts hosts')
SERVER_GROUP = Payload(
    'ServerGroupPayload',
    '1.1',
    'name user_id project_id policies members hosts policy',
    'uuid rules',
)
SERVICE_STATUS = Payload(
    'ServiceStatusPayload',
    '1.1',
    'disabled_reason availability_zone last_seen_up',
    'host binary topic report_count disabled forced_down version uuid',
)


def request_spec(
    spec: RequestSpec, image_props: str = NEWEST.image_props_payload
) -> Primitive:
    """Return the RequestSpecPayload of a request, with the fields that the request has.

    ``image_props`` is the version of the ImageMetaPropsPayload in it.
    """
    instance = spec.if_set('instance_uuid')
    return REQUEST_SPEC.of(
        spec,
        flavor=_made(spec, 'flavor', FLAVOR.of),
        force_hosts=_first(spec, 'force_hosts'),
        force_nodes=_first(spec, 'force_nodes'),
        image=_made(spec, 'image', lambda it: _image(it, image_props)),
        instance_group=_made(spec, 'instance_group', _group),
        numa_topology=_made(spec, 'numa_topology', lambda it: _numa(it, instance)),
        pci_requests=_made(spec, 'pci_requests', lambda it: _pci(it, instance)),
        num_instances=spec.if_set('num_instances', 1),
        requested_destination=_made(spec, 'requested_destination', _destination),
        retry=_made(spec, 'retry', _retries),
        security_groups=[
            group.if_set('uuid') or group.if_set('name')
            for group in spec.if_set('security_groups') or ()
        ],
    )


def service_status(
    *, last_seen_up: datetime.datetime | None, **fields: Any
) -> Primitive:
    """Return the ServiceStatusPayload of a services row; times are UTC."""
    seen = None if last_seen_up is None else last_seen_up.strftime(_STAMP)
    return SERVICE_STATUS.primitive({**fields, 'last_seen_up': seen})


def legacy_request_spec(spec: RequestSpec) -> Primitive:
    """Return the unversioned form of a request, as JSON values.

    It never holds the request context, which nova's form repeats, token and all.
    """
    plain: Primitive = _plain(request_spec_dict(spec))
    return plain


def _image(image: ImageMeta, image_props: str) -> Primitive:
    properties = image.if_set('properties') or ImageMetaProps()
    found = IMAGE_META_PROPS.of(properties) | {base.VERSION: image_props}
    return IMAGE_META.of(image, properties=found)


def _numa(topology: InstanceNUMATopology, instance_uuid: str | None) -> Primitive:
    return NUMA_TOPOLOGY.of(
        topology,
        instance_uuid=topology.if_set('instance_uuid') or instance_uuid,
        cells=[_numa_cell(cell) for cell in topology.cells],
    )


def _numa_cell(cell: InstanceNUMACell) -> Primitive:
    return NUMA_CELL.of(cell, cpu_topology=_made(cell, 'cpu_topology', CPU_TOPOLOGY.of))


def _pci(requests: InstancePCIRequests, instance_uuid: str | None) -> Primitive:
    return PCI_REQUESTS.of(
        requests,
        instance_uuid=requests.if_set('instance_uuid') or instance_uuid,
        requests=[PCI_REQUEST.of(request) for request in requests.requests],
    )


def _destination(destination: Destination) -> Primitive:
    found = {
        'host': destination.if_set('host'),
        'node': destination.if_set('node'),
        'cell': _made(destination, 'cell', CELL_MAPPING.of),
    }
    said = {name: value for name, value in found.items() if value is not None}
    return DESTINATION.primitive(
        {**said, 'aggregates': destination.if_set('aggregates')}
    )


def _retries(retries: SchedulerRetries) -> Primitive:
    hosts = retries.if_set('hosts') or ()
    return RETRIES.of(retries, hosts=[node.hypervisor_hostname for node in hosts])


def _group(group: InstanceGroup) -> Primitive:
    policy = group.if_set('policy')
    rules = group.if_set('_rules') or {}
    return SERVER_GROUP.of(
        group,
        policies=group.if_set('policies') or (policy and [policy]),
        rules={name: str(value) for name, value in rules.items()},
    )


def _made(source: NovaObject, name: str, make: Callable[[Any], Primitive]) -> Any:
    value = source.if_set(name)
    return None if value is None else make(value)


def _first(spec: RequestSpec, name: str) -> str | None:
    values = spec.if_set(name)
    return str(values[0]) if values else None


def _plain(value: Any) -> Any:
    """Flatten to JSON values, objects to dicts of their set fields."""
    if isinstance(value, InstancePCIRequests | InstancePCIRequest):
        return _attributes(value)
    if isinstance(value, NovaObject):
        return {name: _plain(item) for name, item in value.set_fields().items()}
    if isinstance(value, datetime.datetime):
        return value.strftime(_LEGACY_STAMP)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _attributes(value: NovaObject) -> Primitive:
    """Flatten to the Python attributes, as nova does objects unlike a mapping."""
    return {
        '_changed_fields': sorted(value._changed_fields),
        '_context': None,
        'VERSION': value.VERSION,
        **{f'_obj_{name}': _plain(item) for name, item in value.set_fields().items()},
    }
