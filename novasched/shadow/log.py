# SPDX-License-Identifier: Apache-2.0
"""The decision log of a shadow: a record waits until it is known what nova chose."""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from novasched.db.servers import ServerRow
from novasched.decisions.comparison import KnownBy, NovaChoice
from novasched.decisions.recording import RequestRecorder
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.decisions import DecisionLog, DecisionRecorder
from novasched.runtime.clock import Clock
from novasched.shadow.choices import ChoiceFinder, Holders, claimed, rebuilt, settled
from novasched.shadow.comparison import Taken, compare
from novasched.shadow.early import EarlyClaims
from novasched.shadow.keeping import KeepsWhole
from novasched.shadow.phases import Phases

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
LOOKS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds after a request at which placement is asked what its servers hold."""
WITHIN_S = 60.0
"""What nova chose is unknown if it is not found out within that."""
MOST_WAITING = 512
MOST_HELD = 1_000_000
"""How many requests may wait, and how many hosts their decisions may hold; of more, the
oldest are recorded at once."""
AROUND_S = 5.0
"""Choices of nova's for other requests count for so long before and after ours."""
MOST_TAKEN = 4096


@dataclass
class _ComparedRequest:
    """A request that was decided, and what is known of nova's choices for it."""

    recorder: RequestRecorder
    record: Callable[[RequestRecorder], None]
    before: Holders
    is_late: bool
    is_sure: bool  # of what was held before
    choices: dict[str, NovaChoice] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    looks: int = 0  # at placement
    was_answered: bool = False

    @property
    def unsettled(self) -> list[str]:
        return [uuid for uuid in self.before if uuid not in self.settled]


class ShadowLog(DecisionLog):
    """A log whose records wait; ``inner`` makes and writes them.

    ``early`` takes out what nova claimed already, if there is a copy of placement.
    ``most_candidates`` is how many placement gives nova. ``keeps_whole`` says whether
    a request is kept whole.
    """

    def __init__(
        self,
        inner: DecisionLog,
        finder: ChoiceFinder,
        phases: Phases,
        clock: Clock,
        early: EarlyClaims | None = None,
        most_candidates: int | None = None,
        keeps_whole: KeepsWhole = lambda compared: False,
    ) -> None:
        self._inner = inner
        self._finder = finder
        self._phases = phases
        self._clock = clock
        self._early = early
        self._most_candidates = most_candidates
        self._keeps_whole = keeps_whole
        self._lock = threading.Lock()
        self._waiting: deque[_ComparedRequest] = deque()
        self._is_closed = False
        self._taken: deque[Taken] = deque(maxlen=MOST_TAKEN)

    def saw(self, host: str, uuid: str, instance: Any | None) -> None:
        self._inner.saw(host, uuid, instance)

    def recorder(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
    ) -> DecisionRecorder:
        uuids = list(instance_uuids or ())
        self._supersede(uuids)
        held = self._held(context, uuids)
        before = dict.fromkeys(uuids, frozenset[str]()) if held is None else held
        early: list[str] = []
        if not request.is_rebuild:
            # Conductors name the host that a server leaves, if it holds that still.
            left = frozenset(request.if_set('ignore_hosts') or ())
            early = [uuid for uuid, hosts in before.items() if hosts - left]
            before = {uuid: hosts & left for uuid, hosts in before.items()}
        out = self._early.take_out(context, early) if self._early and early else []
        recorder = self._inner.recorder(context, request, instance_uuids)
        if isinstance(recorder, RequestRecorder) and uuids:
            waiting = _ComparedRequest(
                recorder,
                recorder.when_ended,
                before,
                is_late=len(out) < len(early),
                is_sure=held is not None,
            )
            recorder.when_ended = lambda ended: self._wait(waiting, out)
        return recorder

    def _held(self, context: RequestContext, uuids: Sequence[str]) -> Holders | None:
        """Return the hosts of which servers hold something; None if placement fails.

        Nova claims for several servers in their order: if the first holds nothing, none
        does.
        """
        held = self._finder.held(context, uuids[:1]) if uuids else {}
        if held is not None and len(uuids) > 1:
            if any(held.values()):
                return self._finder.held(context, uuids)
            held = {**dict.fromkeys(uuids, frozenset[str]()), **held}
        return held

    def _supersede(self, uuids: Sequence[str]) -> None:
        """Settle servers that are asked for once more: what is chosen from now on is
        for the new request."""
        asked = set(uuids)
        with self._lock:
            every = list(self._waiting)
        for waiting in every:
            for uuid in asked.intersection(waiting.unsettled):
                waiting.settled.add(uuid)
                if (known := waiting.choices.get(uuid)) and known.host:
                    waiting.choices[uuid] = replace(known, refused=[known.host])

    def _wait(self, waiting: _ComparedRequest, out: Sequence[str]) -> None:
        if self._early and out:
            self._early.put_back(out)
        with self._lock:
            self._waiting.append(waiting)
            overdue = []
            while self._waiting and (self._is_closed or self._is_full()):
                overdue.append(self._waiting.popleft())
        for each in overdue:
            self._record(each)

    def _is_full(self) -> bool:
        held = sum(each.recorder.size for each in self._waiting)
        return len(self._waiting) > MOST_WAITING or (
            held > MOST_HELD and len(self._waiting) > 1
        )

    def look(self) -> None:
        """Find out what nova chose; record the requests of which that is known, and
        those that have waited for too long."""
        with self._lock:
            every = list(self._waiting)
        rows = self._finder.rows([u for each in every for u in each.unsettled])
        for waiting in every:
            seen_s = self._clock.monotonic() - waiting.recorder.started_s
            try:
                self._look_at(waiting, rows, seen_s)
            except Exception:  # a defect costs no other request
                LOG.exception('It is not known what nova chose')
            if not waiting.unsettled or seen_s > WITHIN_S:
                self._settle(waiting)

    def _look_at(
        self, waiting: _ComparedRequest, rows: dict[str, ServerRow], seen_s: float
    ) -> None:
        recorder, request = waiting.recorder, waiting.recorder.request
        for uuid, hosts in self._now(waiting, seen_s).items():
            waiting.choices[uuid] = hosts
            self._learn(recorder, hosts)
            if request.is_move:
                waiting.settled.add(uuid)
        for uuid in waiting.unsettled:
            row, known = rows.get(uuid), waiting.choices.get(uuid)
            fault = functools.partial(self._finder.fault, uuid, recorder.at)
            if request.is_rebuild:
                found = rebuilt(row, fault, seen_s)
            elif not request.is_move:
                found = settled(row, known, waiting.before[uuid], seen_s)
            elif seen_s > WITHIN_S and row is not None and waiting.was_answered:
                found = NovaChoice(None, KnownBy.UNCLAIMED, seen_s)
            else:
                found = None
            if found is not None:
                if found.known_by == KnownBy.FAILED:
                    found = replace(found, fault=fault())
                waiting.choices[uuid] = found
                waiting.settled.add(uuid)
                if known is None:
                    self._learn(recorder, found)

    def _now(self, waiting: _ComparedRequest, seen_s: float) -> dict[str, NovaChoice]:
        """Return choices that placement shows, if it is time to ask it."""
        recorder = waiting.recorder
        unknown = [u for u in waiting.unsettled if u not in waiting.choices]
        if recorder.request.is_rebuild or not unknown:
            return {}
        if recorder.request.is_move and not waiting.is_sure:
            return {}  # what it holds may be what it held
        if waiting.looks >= len(LOOKS_S) or seen_s < LOOKS_S[waiting.looks]:
            return {}
        waiting.looks += 1
        now = self._finder.held(recorder.context, unknown)
        waiting.was_answered |= now is not None
        return claimed(now or {}, waiting.before, waiting.choices, seen_s)

    def _learn(self, recorder: RequestRecorder, choice: NovaChoice) -> None:
        """Take note of a choice, which may explain what others differ in."""
        if choice.host is not None:
            request_id = recorder.context.request_id or ''
            self._taken.append(Taken(choice.host, recorder.at, request_id))

    def _settle(self, waiting: _ComparedRequest) -> None:
        with self._lock:
            try:
                self._waiting.remove(waiting)
            except ValueError:
                return  # it was recorded as too many waited
        self._record(waiting)

    def _record(self, waiting: _ComparedRequest) -> None:
        recorder = waiting.recorder
        mine, at_s = recorder.context.request_id or '', recorder.at
        others = [
            each
            for each in list(self._taken)
            if each.request_id != mine and abs(each.at_s - at_s) <= AROUND_S
        ]
        took_s = self._phases.took_s(mine)
        choices = {
            uuid: replace(choice, took_s=took_s)
            for uuid, choice in dict(waiting.choices).items()
        }
        recorder.compared = compare(
            recorder, choices, others, waiting.is_late, self._most_candidates
        )
        recorder.is_kept_whole = self._keeps_whole(recorder.compared)
        waiting.record(recorder)

    def close(self) -> None:
        """Record what waits, with what is known by now."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = list(self._waiting), deque()
        for each in waiting:
            self._record(each)
        self._inner.close()
