# SPDX-License-Identifier: Apache-2.0
"""Services: the programs of a nova deployment."""

from __future__ import annotations

import datetime
from typing import ClassVar

from novasched.objects import fields
from novasched.objects.base import (
    NovaObjectList,
    NovaObjectRegistry,
    NovaPersistentObject,
)
from novasched.objects.compute_node import ComputeNode


@NovaObjectRegistry.register
class Service(NovaPersistentObject):
    """A service on a host."""

    VERSION = '1.22'
    SINCE: ClassVar = {
        'compute_node': '1.1',
        'last_seen_up': '1.13',
        'forced_down': '1.14',
        'version': '1.16',
        'uuid': '1.21',
    }

    id: int = fields.integer(read_only=True)
    uuid: str = fields.uuid()
    host: str | None = fields.string(nullable=True)
    binary: str | None = fields.string(nullable=True)
    topic: str | None = fields.string(nullable=True)
    report_count: int = fields.integer()
    disabled: bool = fields.boolean()
    disabled_reason: str | None = fields.string(nullable=True)
    availability_zone: str | None = fields.string(nullable=True)
    compute_node: ComputeNode = fields.object_of('ComputeNode')
    last_seen_up: datetime.datetime | None = fields.timestamp(nullable=True)
    forced_down: bool = fields.boolean()
    version: int = fields.integer()


@NovaObjectRegistry.register
class ServiceList(NovaObjectList[Service]):
    VERSION = '1.19'

    objects: list[Service] = fields.objects_of('Service')
