# SPDX-License-Identifier: Apache-2.0
"""The networks that a request asks for."""

from __future__ import annotations

from typing import Any

from netaddr import IPAddress  # type: ignore[import-untyped]

from novasched.objects import fields
from novasched.objects.base import NovaObject, NovaObjectList, NovaObjectRegistry


@NovaObjectRegistry.register
class NetworkMetadata(NovaObject):
    """The physical networks, and whether any network is tunnelled."""

    VERSION = '1.0'

    physnets: set[str] = fields.string_set()
    tunneled: bool = fields.boolean()


@NovaObjectRegistry.register
class NetworkRequest(NovaObject):
    """A network or a port that the instance is to be attached to."""

    VERSION = '1.3'

    network_id: str | None = fields.string(nullable=True)
    address: IPAddress | None = fields.ip(nullable=True)
    port_id: str | None = fields.uuid(nullable=True)
    pci_request_id: str | None = fields.uuid(nullable=True)
    tag: str | None = fields.string(nullable=True)
    arq_uuid: str | None = fields.uuid(nullable=True)
    device_profile: str | None = fields.string(nullable=True)

    def _unset(self, name: str) -> None:
        """Every unset field reads as None."""

    @property
    def auto_allocate(self) -> bool:
        return self.network_id == 'auto'

    @property
    def no_allocate(self) -> bool:
        return self.network_id == 'none'

    def to_tuple(self) -> tuple[Any, ...]:
        """Return network, address, port, PCI request, ARQ and device profile."""
        address = None if self.address is None else str(self.address)
        ids = self.pci_request_id, self.arq_uuid, self.device_profile
        return self.network_id, address, self.port_id, *ids


@NovaObjectRegistry.register
class NetworkRequestList(NovaObjectList[NetworkRequest]):
    VERSION = '1.1'

    objects: list[NetworkRequest] = fields.objects_of('NetworkRequest')

    @property
    def auto_allocate(self) -> bool:
        return len(self) == 1 and self[0].auto_allocate

    @property
    def no_allocate(self) -> bool:
        return len(self) == 1 and self[0].no_allocate

    @property
    def is_single_unspecified(self) -> bool:
        """One network is asked for, and nothing is said of it."""
        return len(self) == 1 and not any(self[0].to_tuple()[:3])

    def as_tuples(self) -> list[tuple[Any, ...]]:
        return [request.to_tuple() for request in self]
