# SPDX-License-Identifier: Apache-2.0
"""Host aggregates as nova-api casts them."""

from __future__ import annotations

from typing import ClassVar

from novasched.objects import fields
from novasched.objects.base import (
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)


@NovaObjectRegistry.register
class Aggregate(NovaPersistentObject):
    """A named set of compute service hosts with metadata."""

    VERSION = '1.3'
    SINCE: ClassVar = {'uuid': '1.2'}

    id: int = fields.integer()
    uuid: str = fields.uuid()
    name: str = fields.string()
    hosts: list[str] | None = fields.strings(nullable=True)
    metadata: dict[str, str] | None = fields.string_dict(nullable=True)

    @property
    def availability_zone(self) -> str | None:
        return (self.metadata or {}).get('availability_zone')


@NovaObjectRegistry.register
class AggregateList(NovaObjectList[Aggregate]):
    VERSION = '1.3'

    objects: list[Aggregate] = fields.objects_of('Aggregate')
