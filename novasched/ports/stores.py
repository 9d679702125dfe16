# SPDX-License-Identifier: Apache-2.0
"""Databases: their rows, and the stores that read and write them."""

from __future__ import annotations

import contextlib
import datetime
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from novasched.objects.instance import KnownInstance
from novasched.providers.contents import Contents
from novasched.providers.generation_cache import GenerationCache
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.flavor_sizes import FlavorSizes

CELL0_UUID = '00000000-0000-0000-0000-000000000000'


class Cell(NamedTuple):
    """A row of cell_mappings, with the templates in its URLs filled in."""

    uuid: str
    name: str | None
    transport_url: str | None
    database_connection: str | None
    disabled: bool


class ComputeNodeRow(NamedTuple):
    """The columns of compute_nodes that scheduling reads. ``mark`` is made of the id
    and the time of the last change, ``checksum`` of all columns: another one says that
    the row was written."""

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
    checksum: int = 0


@functools.lru_cache(maxsize=8192)
def shared(text: str) -> str:
    """Return one object for all texts that are equal, as long as they keep coming."""
    return text


class NodeNews(NamedTuple):
    """What changed of the compute nodes of a cell since a moment."""

    live: int  # number of live ones
    total: int  # sum of their marks
    # of rows written since by id, 0 if deleted; None if too many
    checksums: dict[int, int] | None


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
    """Services of a cell that must not be used or are new, and ids of deleted ones."""

    live: list[ServiceRow]
    deleted: list[int]


class CellNews(NamedTuple):
    """What is new in a cell, its compute nodes and its services at the same moment."""

    nodes: NodeNews
    services: ServiceNews


class InstanceRow(KnownInstance):
    """Where a live instance runs: the service host, not the node."""

    __slots__ = ()


class ImageRow(NamedTuple):
    """Where a live instance runs, and the properties that it keeps of its image."""

    uuid: str
    host: str
    properties: Mapping[str, str]


class AggregatesMark(NamedTuple):
    """The state of the tables of aggregates, to see a change.

    A write may leave it unchanged: in the second of the ``newest`` stamp, or if a clock
    lags.
    """

    # rows, highest id and newest stamps of each table
    counts: tuple[tuple[object, ...], ...]
    newest: datetime.datetime | None  # None without stamps


class ApiStore(Protocol):
    """The API database."""

    def cells(self) -> list[Cell]:
        """Return all cells, cell0 and disabled ones included, by id."""

    def host_cell(self, host: str) -> str | None:
        """Return the uuid of the cell that a compute host is mapped to."""

    def group_members(self, group_uuid: str) -> list[str]:
        """Return the members of a server group, the newest first."""

    def aggregates(self) -> list[Aggregate]:
        """Return all aggregates with their hosts and metadata, by id."""

    def aggregates_mark(self) -> AggregatesMark:
        """Return a value that changes when an aggregate does."""

    def public_flavors(self) -> FlavorSizes:
        """Return the sizes of the public flavors that are not disabled, the largest
        first, MOST_SIZES at most. ``share`` is the number of flavors of a size."""


class CellStore(Protocol):
    """The database of one cell."""

    def together(self) -> contextlib.AbstractContextManager[CellStore]:
        """Return a context manager for a store that keeps one connection open.

        Each answer shows what was committed before the query.
        """

    def compute_nodes(self) -> list[ComputeNodeRow]:
        """Return all live compute nodes, by id."""

    def news(
        self,
        since: datetime.datetime,
        wide: datetime.datetime,
        known_id: int,
        oldest: datetime.datetime,
        newest: datetime.datetime,
    ) -> CellNews:
        """Sum up the live compute nodes, and list what was written ``since``.

        Also finds compute services in one of three states:

        - disabled, forced down, or with a heartbeat, else creation, that is not between
          ``oldest`` and ``newest``;
        - created from ``since`` on, or from the earlier ``wide`` on above ``known_id``;
        - deleted from ``wide`` on.
        """

    def compute_node_checksums(self, since: datetime.datetime) -> dict[int, int]:
        """Return the checksums of the live compute nodes created or updated at or after
        ``since``, by id."""

    def compute_node_marks(self) -> dict[int, int]:
        """Return the marks of the live compute nodes, by id."""

    def compute_nodes_of(self, ids: Sequence[int]) -> list[ComputeNodeRow]:
        """Return the rows with these ids, by id, deleted ones included."""

    def compute_checksums_now(
        self, ids: Sequence[int]
    ) -> dict[int, tuple[int, ServiceRow | None]]:
        """Return the checksums of the live compute nodes with these ids, each with the
        live nova-compute service of its host, by one small statement."""

    def compute_services(self) -> list[ServiceRow]:
        """Return all live nova-compute services, disabled ones included."""

    def compute_services_of(self, hosts: Sequence[str]) -> list[ServiceRow]:
        """Return the live nova-compute services on these hosts."""

    def minimum_compute_version(self) -> int:
        """Return the lowest version of the live, not forced-down computes; 0: none."""

    def utcnow(self) -> datetime.datetime:
        """Return the time of day of the server, UTC without a zone."""

    def computes_seen_after(self, moment: datetime.datetime) -> list[ServiceRow]:
        """Return the live nova-compute services with a later ``last_seen_up``."""

    def instances_on(self, hosts: Sequence[str]) -> list[InstanceRow]:
        """Return the instances with deleted = 0 on any of the hosts."""

    def images_on(self, hosts: Sequence[str]) -> list[ImageRow]:
        """Return the instances on the hosts that keep image properties."""

    def source_hosts(self, uuid: str) -> list[str]:
        """Return the host of an instance, or its last host while it is shelved; empty
        if there is none."""


class CellStores(Protocol):
    """Opens the databases of cells; keeps them open while they are used."""

    def open(self, cell: Cell) -> CellStore:
        """Return the store of a cell; the same object until it is forgotten."""

    def forget(self, uuids: Iterable[str] | None = None) -> None:
        """Close the connections of these cells, or of all."""


class Heartbeats(Protocol):
    """Heartbeats of services that are kept elsewhere than in their rows."""

    def dated(self, rows: Iterable[ServiceRow]) -> list[ServiceRow]:
        """Return the rows, ``last_seen_up`` the newest heartbeat known of each."""


class ServiceStore(Protocol):
    """The services rows of this program, in its own main database."""

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        """Return this host's row, inserted or brought to ``version``, and whether it
        was inserted. Raises errors.ServiceTooOld."""

    def beat(self, service_id: int, report_count: int) -> bool:
        """Write a heartbeat; False if the row is gone."""


class ProviderStore(Protocol):
    """What placement knows of resource providers.

    ``reads_fast``: a request may wait until it has been read. What was read last was
    ``behind_s`` seconds old when the read began: it may be what another process read.
    """

    reads_fast: bool
    behind_s: float

    def read(self, hints: CloudHints = NO_HINTS) -> Contents:
        """Return all there is."""

    def read_since(
        self,
        before: Contents,
        include_unversioned: bool,
        recheck: Collection[int] = (),
        hints: CloudHints = NO_HINTS,
    ) -> Contents:
        """Return all there is now; ``before`` itself, if nothing has changed.

        What was freed, and aggregates that an old client set, change no generation:
        they are found if ``include_unversioned``. Providers that are
        ``recheck``, by id, are read again whatever their generation is.
        """

    def read_tree(self, uuid: str) -> Contents:
        """Return all there is of the tree that a provider is in; nothing, if there is
        no such provider."""

    def trees(
        self,
        known: Contents,
        roots: Collection[int],
        with_aggregates: bool = True,
        terms: str | None = None,
        generations: GenerationCache | None = None,
    ) -> Contents | None:
        """Return the current contents of the trees of some roots, by id.

        Usage is not read, nor amounts that a claim verifies; aggregates are if they
        matter. Returns None if nothing differs from ``known`` and ``generations``, or
        each root is a provider that meets the ``terms`` of Query.terms_of_one. Threads
        may share it.
        """

    def holders(self, consumers: Collection[str]) -> dict[str, set[str]] | None:
        """Return the providers, by uuid, that each consumer takes from now.

        Returns None if this store does not read them. Threads may share it.
        """

    def usages(self, mine: Mapping[str, str]) -> Mapping[str, dict[str, int]] | None:
        """Return the current usages, amounts by class by provider, by one query.

        Returns None if this store does not read them, or if a consumer that ``mine``
        names does not show at its provider. Threads may share it.
        """

    def change_token(self) -> object | None:
        """Return a value that stays equal until a write; None if unknown."""

    def close(self) -> None:
        """End a read soon; there will be none after it."""
