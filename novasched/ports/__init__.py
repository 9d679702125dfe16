# SPDX-License-Identifier: Apache-2.0
"""Protocols that manager, drivers and cluster view call, and that adapters satisfy.

``db`` and ``placement`` implement these protocols for real servers; tests and
the lab may bring their own. Every call is bounded by a timeout of the
adapter; a database that cannot be asked raises errors.StoreFailed.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.caller import Caller, CallerGone
from novasched.ports.journal import Entry, Intent, Journal
from novasched.ports.placement import (
    Candidate,
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    UndoUnanswered,
)
from novasched.ports.stores import (
    CELL0_UUID,
    AggregatesMark,
    ApiStore,
    Cell,
    CellStore,
    CellStores,
    ComputeNodeRow,
    Heartbeats,
    ImageRow,
    InstanceRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
    ServiceStore,
    shared,
)
from novasched.resources.requirements import NetworkOrSubnet, Port


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


class Requests(Protocol):
    """Observer of requests on their way through this process."""

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
