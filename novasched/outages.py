# SPDX-License-Identifier: Apache-2.0
"""Outages of services that decisions need: requests wait for their end.

A waiting request queries nothing. One thread probes each unavailable service. Once the
service answers, the waiting requests go on in the order in which they came, more at a
time while all goes well.
"""

from __future__ import annotations

import bisect
import logging
import math
import operator
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oslo_config import cfg

from novasched import errors
from novasched.ports import Caller
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.IntOpt(
            'outage_patience',
            default=30,
            min=0,
            help="""
Seconds that a request waits for an unavailable service.

Placement, keystone, the network service and the databases are restarted in every cloud.
If a request would fail because one of them does not answer, it waits until the service
answers. When its turn comes, it is decided from the start. If the service is still
unavailable after that time, the request fails as it would without this option. A
request never waits for longer than its caller, nor for a service that has been
unavailable for ten times as long. 0: nothing is waited for, as in nova.
""",
        )
    ]
}

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 1.0
"""The pauses between two probes of a service: the first, and the longest."""
TURN_S = 1.0
"""How long a request has its turn at most: one that takes longer holds up no others. A
request that waits looks so often whether it may go on, and whether its caller is
there."""
ANSWER_TAKES_S = 3.0
"""How long before the caller gives up a request waits no more."""
LEAST_WAITS, LEAST_WAIT_S = 2, 11.0
"""A request waits at least so long, so often, even if its attempt took long to fail.

A probe that hangs has ended by then. The second wait is for a service that fails again.
"""
MOST_TIMES = 10
"""How often a request waits for one service while others are served: then it is the
request itself that fails."""
MOST_ALONE = 3
"""As MOST_TIMES, if no other request has waited since, and so many were served.

For a query of placement, probes that it answered at once count as others. If one of
several servers is unavailable, other requests fail, too. Fewer than one such request in
a hundred is taken for a request that fails by itself.
"""
LONGEST_REST_S = 2.0
"""Longest rest of a request that fails again though its service seems to be back.

One of several servers may still be unavailable, or it takes no writes yet.
"""
MOST_AT_ONCE = 8
"""Most waiting requests that go on at once: the longest wait must be answered first."""
LONGEST_OUTAGE = 10
"""Requests do not wait for a service that has been unavailable for longer, in times the
patience."""
LOG_AGAIN_S = 60.0
"""How often the log has the beginning and the end of outages of one service."""

PLACEMENT = 'placement'
NETWORK = 'the network service'
API_DATABASE = 'the API database'

Probe = Callable[[], bool]
"""Asks a service; returns whether it answers."""


def cell(name: str) -> str:
    """Return the name of the database of a cell, as a service."""
    return f'{_CELL}{name}'


def cell_of(service: str) -> str | None:
    """Return the name of the cell whose database a service is, if it is one."""
    return service.removeprefix(_CELL) if service.startswith(_CELL) else None


_CELL = 'the database of cell '


class Outage(NamedTuple):
    """One outage: how long it has lasted, and how many requests wait or timed out."""

    service: str
    problem: str
    since_s: float
    waiting: int
    in_vain: int  # requests that timed out; named as in the report of a worker

    def __str__(self) -> str:
        return (
            f'{self.service} has been unavailable for {self.since_s:.0f} s, '
            f'{self.waiting} requests wait, {self.in_vain} timed out: {self.problem}'
        )


class Turn(threading.Event):
    """The turn of a request that came at ``came_s`` to use a service that was
    unavailable; it is over at ``ends_s`` at the latest."""

    def __init__(self, outage: _ServiceOutage, came_s: float) -> None:
        super().__init__()
        self.outage = outage
        self.came_s = came_s
        self.ends_s = math.inf


@dataclass(eq=False)
class _ServiceOutage:
    """A service that is or was unavailable, and the requests that wait or go on."""

    service: str
    problem: str = ''
    since_s: float = 0.0
    is_back: bool = True
    is_confirmed: bool = False  # a probe has failed, too
    # by arrival; each is set when it goes on
    queue: list[Turn] = field(default_factory=list)
    running: list[Turn] = field(default_factory=list)  # of the requests that go on now
    waited: int = 0
    timed_out: int = 0
    limit: int = 1  # most of these
    logged_s: float = float('-inf')
    level: int = logging.WARNING

    def admit(self, now_s: float) -> None:
        """Let those go on whose turn it is.

        A turn that has lasted too long ends, but is no sign that all goes well: the
        limit grows only by attempts that have succeeded.
        """
        self.running = [turn for turn in self.running if turn.ends_s > now_s]
        while self.is_back and self.queue and len(self.running) < self.limit:
            turn = self.queue.pop(0)
            turn.ends_s = now_s + TURN_S
            self.running.append(turn)
            turn.set()


class Outages:
    """The outages that one scheduler knows of; threads may share it."""

    def __init__(
        self,
        patience_s: float = 0.0,
        # None if it is not waited for
        probe_of: Callable[[str], Probe | None] = lambda service: None,
        # how many wait for a service now
        on_waiting: Callable[[str, int], None] = lambda service, requests: None,
        # how long one has, and whether it timed out
        on_waited: Callable[[str, float, bool], None] = lambda service, s, timed_out: (
            None
        ),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.patience_s = patience_s
        self.probe_of = probe_of
        self._on_waiting, self._on_waited = on_waiting, on_waited
        self._clock = clock
        self._lock = threading.Lock()
        self._services: dict[str, _ServiceOutage] = {}
        self._closed = threading.Event()
        self.successor: Any = None
        self.served = self.waits = 0  # requests without an outage, and waits

    def close(self, successor: Any = None) -> None:
        """Let nobody wait any more; ``successor`` serves those who do, if there is
        one."""
        self.successor = successor
        self._closed.set()
        with self._lock:
            for outage in self._services.values():
                for turn in outage.queue:
                    turn.set()

    def rest(self, seconds: float, until: threading.Event | None = None) -> bool:
        """Return after so long, or when the event is set: as a default when nobody
        waits any more. Returns whether it is set."""
        return (until or self._closed).wait(seconds)

    def is_unavailable(self, service: str) -> bool:
        """Whether a service for which requests wait, or waited, is unavailable."""
        outage = self._services.get(service)
        return outage is not None and not outage.is_back

    def waited_for(self, service: str) -> str:
        """Return why a service is unavailable that requests wait for, else ''.

        It is '' also before a probe has failed: the cause may be a single request.
        """
        outage = self._services.get(service)
        if outage is None or not outage.is_confirmed or self._closed.is_set():
            return ''
        return outage.problem if self._is_waited_for(outage) else ''

    def _is_waited_for(self, outage: _ServiceOutage) -> bool:
        lasts_s = self._clock.monotonic() - outage.since_s
        return not outage.is_back and lasts_s <= LONGEST_OUTAGE * self.patience_s

    def now(self) -> list[Outage]:
        now_s = self._clock.monotonic()
        with self._lock:
            return [
                Outage(
                    each.service,
                    each.problem,
                    now_s - each.since_s,
                    len(each.queue),
                    each.timed_out,
                )
                for each in self._services.values()
                if not each.is_back
            ]

    def wait(
        self,
        service: str,
        problem: str,
        came_s: float,
        left_s: Callable[[bool], float],
    ) -> Turn | None:
        """Wait until a service answers and a request that came at ``came_s`` goes on.

        Returns its turn, for which done() must be called, or None if the time is over.
        ``left_s``, given whether the service is back, returns how long it may still
        wait. What it raises ends the wait.
        """
        began_s, is_wanted = self._clock.monotonic(), False
        with self._lock:
            outage = self._known(service, problem)
            if outage is None:
                return None
            turn = Turn(outage, came_s)
            outage.waited += 1
            self.waits += 1
            bisect.insort(outage.queue, turn, key=operator.attrgetter('came_s'))
            self._on_waiting(service, len(outage.queue))
            outage.admit(began_s)
        try:
            while not turn.is_set() and (wait_s := left_s(outage.is_back)) > 0:
                self.rest(min(wait_s, TURN_S), until=turn)
                with self._lock:
                    outage.admit(self._clock.monotonic())
            is_wanted = True
        finally:
            with self._lock:
                has_no_turn = turn in outage.queue
                if has_no_turn:
                    outage.queue.remove(turn)
                    if is_wanted:
                        outage.timed_out += 1
                self._on_waiting(service, len(outage.queue))
            took_s = self._clock.monotonic() - began_s
            self._on_waited(service, took_s, has_no_turn and is_wanted)
            if not (has_no_turn or is_wanted):
                self.done(turn, False)
        return None if has_no_turn else turn

    def done(self, turn: Turn, is_well: bool) -> None:
        """A request that has waited for a service has ended, or needs it again."""
        outage = turn.outage
        with self._lock:
            turn.ends_s = -math.inf
            if (
                is_well
            ):  # else it begins to wait, or those that wait see that it is over
                outage.limit = min(outage.limit + 1, MOST_AT_ONCE)
                outage.admit(self._clock.monotonic())

    def _known(self, service: str, problem: str) -> _ServiceOutage | None:
        """Return an outage, begun if it is new, or None if it is not waited for."""
        probe = self.probe_of(service)
        if probe is None or self._closed.is_set():
            return None
        now_s, outage = self._clock.monotonic(), self._services.get(service)
        if outage is None:
            outage = self._services[service] = _ServiceOutage(service)
        if not outage.is_back:
            return outage if self._is_waited_for(outage) else None
        probing = threading.Thread(
            target=self._probe_until_back,
            args=(outage, probe),
            name='outage',
            daemon=True,
        )
        try:
            probing.start()
        except RuntimeError:  # no thread can be started: no probe would end the wait
            return None
        outage.problem, outage.since_s = problem, now_s
        outage.is_back, outage.is_confirmed, outage.limit = False, False, 1
        outage.waited = outage.timed_out = 0
        is_new = now_s - outage.logged_s > LOG_AGAIN_S
        outage.level = logging.WARNING if is_new else logging.DEBUG
        outage.logged_s = now_s if is_new else outage.logged_s
        LOG.log(
            outage.level,
            'Requests wait for %s, which is unavailable: %s',
            service,
            problem,
        )
        return outage

    def _probe_until_back(self, outage: _ServiceOutage, probe: Probe) -> None:
        pause_s = FIRST_PAUSE_S
        while not self.rest(pause_s) and not _answers(probe):
            outage.is_confirmed = True
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self._closed.is_set():
            return
        with self._lock:
            outage.is_back = True
            outage.admit(self._clock.monotonic())
            figures = (
                self._clock.monotonic() - outage.since_s,
                outage.waited,
                outage.timed_out,
            )
        LOG.log(
            outage.level,
            '%s is available again after %.1f s: %d requests waited, %d timed out',
            f'{outage.service[:1].upper()}{outage.service[1:]}',
            *figures,
        )


def _answers(probe: Probe) -> bool:
    """Return whether a service answers; one that raises does not."""
    try:
        return probe()
    except errors.NovaschedError as problem:
        LOG.debug('A service is still unavailable: %s', problem)
    except Exception:  # the requests that wait must not depend on it
        LOG.exception('The probe of a service failed')
    return False


class OutagePatience:
    """How long one request waits for services, until its ``caller`` gives up at most.

    Without a caller it does not wait. It came at ``came_s``, by default now.
    """

    def __init__(
        self,
        outages: Outages,
        caller: Caller,
        clock: Clock,
        came_s: float | None = None,
    ) -> None:
        left_s = caller_s = 0.0
        if outages.patience_s:
            caller_s = caller.answer_left_s() - ANSWER_TAKES_S
            left_s = min(outages.patience_s, caller_s)
        now_s = clock.monotonic()
        self.came_s = now_s if came_s is None else came_s
        self._clock = clock
        self._outages = outages
        self._caller = caller
        self._until_s, self._ends_s = now_s + left_s, now_s + caller_s
        self._turns: list[Turn] = []
        self._times: Counter[str] = Counter()
        self._served = self._waits = self._waits_before = self._probes = 0
        self.is_over = left_s <= 0

    @property
    def has_turn(self) -> bool:
        """Whether the request goes on now after a service has come back."""
        return bool(self._turns)

    def left_s(self, is_back: bool = False) -> float:
        """Return for how long the request may wait from now: the patience counts until
        a service ``is_back``. Raises CallerGone."""
        self._caller.check()
        ends_s = self._ends_s if is_back else self._until_s
        return ends_s - self._clock.monotonic()

    def attempted(self, unavailable: Collection[str]) -> None:
        """An attempt has ended, which these services did not answer: it is the turn of
        others."""
        turns, self._turns = self._turns, []
        for turn in turns:
            self._outages.done(turn, turn.outage.service not in unavailable)

    def wait(self, unavailable: Mapping[str, str], is_query: bool = False) -> bool:
        """Wait until all these services answer; return False if one does not in time.

        ``is_query`` says that a query of placement failed. Raises CallerGone.
        """
        self.attempted(unavailable)
        if self.is_over or not unavailable:
            return False
        if not self._waits:
            self._served = self._outages.served
            self._waits_before = self._outages.waits
        if self._waits < LEAST_WAITS:
            soon_s = self._clock.monotonic() + LEAST_WAIT_S
            self._until_s = max(self._until_s, min(soon_s, self._ends_s))
        self._waits += 1
        self._times.update(unavailable.keys())
        again = max(self._times.values()) - 1
        if self._fails_by_itself(unavailable, again, is_query):
            self.is_over = True
            return False
        with self._caller.resting():
            if again:
                self._outages.rest(min(FIRST_PAUSE_S * 2**again, LONGEST_REST_S))
            for service, problem in unavailable.items():
                self.attempted(unavailable)  # it is the turn at the last one alone
                turn = self._outages.wait(service, problem, self.came_s, self.left_s)
                if turn is None:
                    self.is_over = True
                    return False
                self._turns.append(turn)
                if not turn.outage.is_confirmed:
                    self._probes += 1
                self._waits_before += 1  # but for its own
        return True

    def _fails_by_itself(
        self, unavailable: Collection[str], again: int, is_query: bool
    ) -> bool:
        """Whether placement answers all but this request, which has failed ``again``
        so often; of other services, whether any request was served meanwhile."""
        others = self._outages.served - self._served
        is_alone = self._outages.waits == self._waits_before
        if is_alone and {*unavailable} == {PLACEMENT}:
            answered = others + self._probes if is_query else others
            return min(again, answered) >= MOST_ALONE
        return again >= MOST_TIMES and others > 0
