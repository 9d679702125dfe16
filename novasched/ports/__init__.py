# SPDX-License-Identifier: Apache-2.0
"""Protocols that manager, drivers and cluster view call, and that adapters satisfy.

Every call is bounded by a timeout of the adapter; a database that cannot be asked
raises errors.StoreFailed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.placement import (
    ALL_HOSTS,
    FORGET_AFTER_S,
    MAY_ARRIVE,
    STANDS,
    UNDO_WITHIN_S,
    Candidate,
    Candidates,
    CandidateVerifier,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    KnownRoots,
    Placement,
    QueryFailed,
    UndoLeft,
    UndoOutcome,
    UndoUnanswered,
)
from novasched.ports.stores import (
    CELL0_UUID,
    AggregatesMark,
    ApiStore,
    Cell,
    CellNews,
    CellStore,
    CellStores,
    ComputeNodeRow,
    Heartbeats,
    ImageRow,
    InstanceRow,
    NodeNews,
    ProviderStore,
    ServiceNews,
    ServiceRow,
    ServiceStore,
    shared,
)
from novasched.releases import Release
from novasched.resources.requirements import NetworkOrSubnet, Port


class Network(Protocol):
    """The network service; it raises errors.NetworkFailed or a kind of it."""

    def answers(self) -> bool:
        """Return whether it answers now."""

    def port(self, context: RequestContext, port_id: str) -> Port:
        """Return a port; raises errors.PortNotFound if the user does not see it."""

    def segments(
        self, context: RequestContext, place: NetworkOrSubnet
    ) -> frozenset[str]:
        """Return the ids of the segments of a subnet, or of all of a network.

        A subnet has none if the service does not know of segments.
        """


class Notifier(Protocol):
    """Says that a request starts and ends being scheduled."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None:
        """Send scheduler.select_destinations.<phase>; ``start`` or ``end``."""

    def of_release(self, release: Release) -> Notifier:
        """Return one that says it as a release of nova does."""


class Requests(Protocol):
    """Observer of requests on their way through this process."""

    def arrived(self, waited_s: float) -> None:
        """A message has come to a thread after waiting so long."""

    def queued(self, message: int, waited_s: float) -> None:
        """A message, known by a number, waits for a thread, and has waited so long."""

    def taken(self, message: int) -> None:
        """A message waits no more."""

    def attempt(self) -> contextlib.AbstractContextManager[Any, bool | None]:
        """Return a context manager for one request for destinations."""

    def placed(self, servers: int) -> None:
        """A request has found hosts for so many servers."""

    def finished(self) -> int:
        """Return how many requests for destinations were answered."""

    def under_way(self) -> list[float]:
        """Return for how many seconds each request has been under way."""


@dataclass(eq=False, repr=False)
class CallerGone(errors.RequestError):
    """The caller no longer waits for the answer: its claims must not stay.

    ``logged``: the log has a line on this caller already, for all of its requests.
    """

    why: str
    logged: bool = False

    def __str__(self) -> str:
        return f'No caller waits for this request any more: {self.why}'


class Caller:
    """The RPC caller of one request. Of this base, none waits: the answer counts as
    delivered."""

    def check(self) -> None:
        """Raise CallerGone when the caller no longer waits for the answer.

        Returns soon where it waits, and where that is unknown; also where the
        caller may be reconnecting, as its answer can wait for it.
        """

    def patience_left_s(self) -> float | None:
        """Return for how long from now the caller certainly still waits, if known. It
        does so even if this process dies now and sends no further sign of life."""
        return None

    def answer_left_s(self) -> float:
        """Return how long from now the caller waits if it gets signs of life.

        Infinite if it waits for ever, or this is not known.
        """
        return 0.0

    def resting(self) -> contextlib.AbstractContextManager[None]:
        """Return a context manager for work that only waits: another request may be
        served meanwhile."""
        return contextlib.nullcontext()

    def when_answered(self, done: Callable[[], None]) -> None:
        """Have ``done`` called when the answer has been handed over."""
        done()

    def if_undeliverable(self, undo: Callable[[], None]) -> None:
        """Have ``undo`` called in the place of ``done`` when the answer certainly
        reached no reader. It may run in another thread, and minutes later: until then
        the answer waits for a caller that reconnects."""


NO_CALLER = Caller()


@dataclass(frozen=True)
class Intent:
    """A claim that is about to be made."""

    request_id: str | None
    consumer_uuid: str
    project_id: str | None
    allocations: Mapping[str, Mapping[str, int]]
    """Amounts by resource class by provider."""
    before: Mapping[str, Any] | None = None
    """What the consumer holds: the body that restores it."""
    generation: int | None = None  # the consumer's before the claim, if it has one
    undo_within_s: float | None = None
    """For so long the caller surely waits and makes no second claim, if known."""
    made_within_s: float | None = None
    """How long the claim can have been made; None until its request has ended."""


class Entry(Protocol):
    """One intent in the journal. It is open until its outcome is recorded."""

    def settle(self) -> None:
        """Nothing is to be undone: it was refused, undone, answered, or given up."""

    def answering(self) -> None:
        """From now on the caller may know of the claim: it must not be undone."""

    def leave(self) -> None:
        """The outcome is unknown: recovery that finds it open may undo it."""

    def undo_later(self, made_s_ago: float) -> None:
        """The request has ended without it, and could not undo it: recovery does, also
        while this process lives. The claim was made so long ago at least, or not."""


class Journal(Protocol):
    """Journal of claims, by which claims of a killed process can be undone.

    What cannot be written down keeps no claim from being made.
    """

    def intend(self, intents: Sequence[Intent]) -> Sequence[Entry]:
        """Write down claims before they are made; an entry for each, in order."""
