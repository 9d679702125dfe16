# SPDX-License-Identifier: Apache-2.0
"""What the manager, the drivers and the cluster view call; adapters satisfy it.

``db`` and ``placement`` implement these protocols for real servers; tests and
the shims may bring their own. Every call is bounded by a timeout of the
adapter; a database that cannot be asked raises errors.StoreFailed.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.aggregates import AggregatesMark
from novasched.ports.caller import Caller, CallerGone
from novasched.ports.journal import Entry, Intent, Journal
from novasched.ports.placement import (
    Candidate,
    Candidates,
    Claimed,
    QueryFailed,
    Refused,
    UndoUnanswered,
    Unknown,
    Wanted,
)
from novasched.ports.rows import (
    CELL0_UUID,
    Cell,
    ComputeNodeRow,
    ImageRow,
    InstanceRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.resources.requirements import NetworkOrSubnet, Port
from novasched.scheduler.aggregates import Aggregate

__all__ = [
    'CELL0_UUID',
    'AggregatesMark',
    'ApiStore',
    'Caller',
    'CallerGone',
    'Candidate',
    'Candidates',
    'Cell',
    'CellStore',
    'CellStores',
    'Claimed',
    'Clock',
    'ComputeNodeRow',
    'Entry',
    'ImageRow',
    'InstanceRow',
    'Intent',
    'Journal',
    'Network',
    'NodeNews',
    'Notifier',
    'Placement',
    'QueryFailed',
    'Refused',
    'ServiceNews',
    'ServiceRow',
    'ServiceStore',
    'UndoUnanswered',
    'Unknown',
    'Wanted',
]


class ApiStore(Protocol):
    """The API database."""

    def cells(self) -> list[Cell]:
        """Return all cells, cell0 and disabled ones included, by id."""

    def host_cell(self, host: str) -> str | None:
        """Return the uuid of the cell that a compute host is mapped to."""

    def aggregates(self) -> list[Aggregate]:
        """Return all aggregates with their hosts and metadata, by id."""

    def aggregates_mark(self) -> AggregatesMark:
        """Return what changes when an aggregate does."""


class CellStore(Protocol):
    """The database of one cell."""

    def together(self) -> contextlib.AbstractContextManager[CellStore]:
        """Return what is entered for a store that asks by one connection.

        An answer shows what was committed before ``together`` was entered, or later.
        """

    def compute_nodes(self) -> list[ComputeNodeRow]:
        """Return all live compute nodes, by id."""

    def compute_node_news(self, since: datetime.datetime) -> NodeNews:
        """Sum up the live compute nodes, and list the rows created, updated or
        deleted at or after ``since``."""

    def compute_node_marks(self, since: datetime.datetime | None) -> dict[int, int]:
        """Return the marks of the live compute nodes created or updated at or after
        ``since``, by id; None: of all."""

    def compute_nodes_of(self, ids: Sequence[int]) -> list[ComputeNodeRow]:
        """Return the rows with these ids, by id.

        Deleted rows are included, with ``deleted`` not 0.
        """

    def compute_services(self) -> list[ServiceRow]:
        """Return all live nova-compute services, disabled ones included."""

    def compute_services_of(self, hosts: Sequence[str]) -> list[ServiceRow]:
        """Return the live nova-compute services on these hosts."""

    def service_news(
        self,
        since: datetime.datetime,
        wide: datetime.datetime,
        known_id: int,
        oldest: datetime.datetime,
        newest: datetime.datetime,
    ) -> ServiceNews:
        """Return the nova-compute services that must not be used, came or went.

        The first are disabled or forced down, or their last heartbeat
        (``last_seen_up``, else ``created_at``) is not between the last two times;
        the others were created at or after ``since``, or at or after the earlier
        ``wide`` with an id above ``known_id``, or deleted at or after ``wide``.
        """

    def minimum_compute_version(self) -> int:
        """Return the lowest version of the live, not forced-down computes; 0: none."""

    def utcnow(self) -> datetime.datetime:
        """Return the time of day of the server, UTC without a zone."""

    def computes_seen_after(self, moment: datetime.datetime) -> list[ServiceRow]:
        """Return the live nova-compute services with a later ``last_seen_up``."""

    def instances_on(self, hosts: Sequence[str]) -> list[InstanceRow]:
        """Return the instances with deleted = 0 on any of the hosts."""

    def images_on(self, hosts: Sequence[str]) -> list[ImageRow]:
        """Return those of the instances on the hosts that keep image properties."""


class CellStores(Protocol):
    """Opens the databases of cells; keeps them open while they are used."""

    def open(self, cell: Cell) -> CellStore:
        """Return the store of a cell; the same object until it is forgotten."""

    def forget(self, uuids: Iterable[str] | None = None) -> None:
        """Close the connections of these cells, or of all."""


class ServiceStore(Protocol):
    """The services rows of this program, in its own main database."""

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        """Return this host's row, inserted or brought to ``version``, and
        whether it was inserted. Raises errors.ServiceTooOld."""

    def beat(self, service_id: int, report_count: int) -> bool:
        """Write a heartbeat; False if the row is gone."""


# --- placement -------------------------------------------------------------


class Placement(Protocol):
    """The placement service."""

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        """Ask GET /allocation_candidates; ``query`` is the encoded query string."""

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | None:
        """Return the uuids of a provider's aggregates; None: placement did not say."""

    def claim(
        self,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
    ) -> Claimed | Refused | Unknown:
        """Claim a candidate for a consumer.

        ``adds``: it may hold something already, which stays, as that of a move does.
        Raises errors.AllocationUpdateFailed when it holds something otherwise, and
        when another process changes the consumer meanwhile.
        """

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[Wanted],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | Unknown] | Refused:
        """Claim a candidate for each of several consumers: for all or for none.

        Consumers that hold something already are a reason to refuse.
        """

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | Unknown],
        within_s: float,
    ) -> Mapping[str, str]:
        """Bring the consumers of one request back to what they held before.

        Returns those that may still hold more, and why. What another process wrote
        since stays as it is. Returns soon after ``within_s``.
        """


class Network(Protocol):
    """The network service; it raises errors.NetworkFailed or a kind of it."""

    def port(self, context: RequestContext, port_id: str) -> Port:
        """Return a port as the user sees it."""

    def segments(
        self, context: RequestContext, place: NetworkOrSubnet
    ) -> frozenset[str]:
        """Return the ids of the segments of a subnet, or of all of a network."""


class Notifier(Protocol):
    """Says that a request starts and ends being scheduled."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None:
        """Send scheduler.select_destinations.<phase>; ``start`` or ``end``."""


class Clock(Protocol):
    """Time; tests bring their own."""

    def utcnow(self) -> datetime.datetime:
        """Return the time of day, UTC without a zone."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""


class Requests(Protocol):
    """Is told of requests on their way through this process."""

    def arrived(self, waited_s: float) -> None:
        """Take in that a message has come to a thread after waiting so long."""

    def queued(self, message: int, waited_s: float) -> None:
        """Take in that a message waits for a thread, and has waited so long; it is
        known by a number."""

    def taken(self, message: int) -> None:
        """Take in that a message waits no more."""

    def attempt(self) -> contextlib.AbstractContextManager[Any, bool | None]:
        """Return what is entered around one request for destinations."""

    def placed(self, servers: int) -> None:
        """Take in that a request has found hosts for so many servers."""

    def finished(self) -> int:
        """Return how many requests for destinations were answered."""

    def under_way(self) -> list[float]:
        """Return for how many seconds each request has been under way."""
