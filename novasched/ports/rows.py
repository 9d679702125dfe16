# SPDX-License-Identifier: Apache-2.0
"""The rows of the databases that scheduling reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import NamedTuple

CELL0_UUID = '00000000-0000-0000-0000-000000000000'


class Cell(NamedTuple):
    """A row of cell_mappings, with the templates in its URLs filled in."""

    uuid: str
    name: str | None
    transport_url: str | None
    database_connection: str | None
    disabled: bool


class ComputeNodeRow(NamedTuple):
    """The columns of compute_nodes that scheduling reads; see the database.

    ``mark`` is a number that the database makes of the id and the time of the last
    change: another one says that the row was written.
    """

    id: int
    uuid: str | None
    host: str | None
    hypervisor_hostname: str | None
    service_id: int | None
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    local_gb: int
    local_gb_used: int
    free_ram_mb: int | None
    free_disk_gb: int | None
    disk_available_least: int | None
    running_vms: int | None
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    disk_allocation_ratio: float | None
    stats: str | None
    metrics: str | None
    pci_stats: str | None
    numa_topology: str | None
    cpu_info: str | None
    supported_instances: str | None
    deleted: int
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    deleted_at: datetime.datetime | None
    mark: int = 0


class NodeNews(NamedTuple):
    """The live compute nodes of a cell summed up, and which of all rows are new.

    ``live`` and ``total`` are how many are live and the sum of their marks; ``ids``
    those created, updated or deleted since a moment, None: too many to list.
    """

    live: int
    total: int
    ids: list[int] | None


class ServiceRow(NamedTuple):
    """The columns of a services row; times are UTC without a zone."""

    id: int
    uuid: str | None
    host: str
    binary: str
    topic: str | None
    report_count: int
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    last_seen_up: datetime.datetime | None
    version: int
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None


class ServiceNews(NamedTuple):
    """What is not as usual with the services of a cell.

    ``live`` are rows that must not be used or are new, ``deleted`` the ids of rows
    that are gone.
    """

    live: list[ServiceRow]
    deleted: list[int]


class InstanceRow(NamedTuple):
    """Where a live instance runs: the service host, not the node."""

    uuid: str
    host: str
    instance_type_id: int | None = None


class ImageRow(NamedTuple):
    """Where a live instance runs, and the properties that it keeps of its image."""

    uuid: str
    host: str
    properties: Mapping[str, str]
