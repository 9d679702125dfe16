# SPDX-License-Identifier: Apache-2.0
"""PCI devices: what is asked for and what a host has."""

from __future__ import annotations

from typing import ClassVar

from novasched.objects import fields
from novasched.objects.base import (
    NovaObject,
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)

NUMA_POLICIES = ('required', 'legacy', 'preferred', 'socket')


@NovaObjectRegistry.register
class InstancePCIRequest(NovaObject):
    """A number of devices that match one of the alternatives in ``spec``.

    ``alias_name`` is None for a request that comes from a port. Every unset
    field reads as None.
    """

    VERSION = '1.4'
    SINCE: ClassVar = {'request_id': '1.1', 'numa_policy': '1.2', 'requester_id': '1.3'}
    UNSET_DEFAULTS: ClassVar = dict.fromkeys(
        (
            'count',
            'spec',
            'alias_name',
            'is_new',
            'request_id',
            'requester_id',
            'numa_policy',
        ),
        lambda: None,
    )

    count: int = fields.integer()
    spec: list[dict[str, str | None]] = fields.nullable_string_dicts()
    alias_name: str | None = fields.string(nullable=True)
    is_new: bool = fields.boolean(default=False)
    request_id: str | None = fields.uuid(nullable=True)
    requester_id: str | None = fields.string(nullable=True)
    numa_policy: str | None = fields.enum(*NUMA_POLICIES, nullable=True)


@NovaObjectRegistry.register
class InstancePCIRequests(NovaObject):
    """All devices that an instance asks for."""

    VERSION = '1.1'

    instance_uuid: str = fields.uuid()
    requests: list[InstancePCIRequest] = fields.objects_of('InstancePCIRequest')


@NovaObjectRegistry.register
class PciDevicePool(NovaObject):
    """A number of like devices that are free on a host."""

    VERSION = '1.1'
    SINCE: ClassVar = {'numa_node': '1.1'}
    UNSET_DEFAULTS: ClassVar = {'numa_node': lambda: None, 'tags': dict}

    product_id: str = fields.string()
    vendor_id: str = fields.string()
    numa_node: int | None = fields.integer(nullable=True)
    tags: dict[str, str | None] = fields.nullable_string_dict()
    count: int = fields.integer()


@NovaObjectRegistry.register
class PciDevicePoolList(NovaObjectList[PciDevicePool]):
    VERSION = '1.1'

    objects: list[PciDevicePool] = fields.objects_of('PciDevicePool')


@NovaObjectRegistry.register
class PciDevice(NovaPersistentObject):
    """A device that an instance holds; it only passes through."""

    VERSION = '1.7'

    id: int = fields.integer()
    uuid: str = fields.uuid()
    compute_node_id: int | None = fields.integer(nullable=True)
    address: str = fields.string()
    vendor_id: str = fields.string()
    product_id: str = fields.string()
    dev_type: str = fields.enum('type-PCI', 'type-PF', 'type-VF', 'vdpa')
    status: str = fields.enum(
        'available',
        'claimed',
        'allocated',
        'removed',
        'deleted',
        'unavailable',
        'unclaimable',
    )
    dev_id: str | None = fields.string(nullable=True)
    label: str | None = fields.string(nullable=True)
    instance_uuid: str | None = fields.string(nullable=True)
    request_id: str | None = fields.string(nullable=True)
    extra_info: dict[str, str] = fields.string_dict(default={})
    numa_node: int | None = fields.integer(nullable=True)
    parent_addr: str | None = fields.string(nullable=True)


@NovaObjectRegistry.register
class PciDeviceList(NovaObjectList[PciDevice]):
    VERSION = '1.3'

    objects: list[PciDevice] = fields.objects_of('PciDevice')
