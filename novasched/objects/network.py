# SPDX-License-Identifier: Apache-2.0
"""The networks that a request asks for."""

from __future__ import annotations

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


@NovaObjectRegistry.register
class NetworkRequestList(NovaObjectList[NetworkRequest]):
    VERSION = '1.1'

    objects: list[NetworkRequest] = fields.objects_of('NetworkRequest')
