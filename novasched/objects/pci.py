# SPDX-License-Identifier: Apache-2.0
"""PCI devices: what is asked for and what a host has."""

from __future__ import annotations

from typing import Any, ClassVar

from novasched.objects import fields
from novasched.objects.base import NovaObject, NovaObjectList, NovaObjectRegistry

NUMA_POLICIES = ('required', 'legacy', 'preferred', 'socket')


@NovaObjectRegistry.register
class InstancePCIRequest(NovaObject):
    """A number of devices that match one of the alternatives in ``spec``.

    ``alias_name`` is None for a request that comes from a port.
    """

    VERSION = '1.4'

    count: int = fields.integer()
    spec: list[dict[str, str | None]] = fields.nullable_string_dicts()
    alias_name: str | None = fields.string(nullable=True)
    is_new: bool = fields.boolean(default=False)
    request_id: str | None = fields.uuid(nullable=True)
    requester_id: str | None = fields.string(nullable=True)
    numa_policy: str | None = fields.enum(*NUMA_POLICIES, nullable=True)

    def _unset(self, name: str) -> Any:
        """Every unset field reads as None, but for ``is_new``."""
        return False if name == 'is_new' else None


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
