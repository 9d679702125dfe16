# SPDX-License-Identifier: Apache-2.0
"""The decision log of a shadow: a record waits until it is known what nova chose."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from novasched import shadow
from novasched.decisions.comparison import Comparison, NovaChoice, Verdict
from novasched.decisions.recording import RequestRecorder
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.decisions import DecisionLog, DecisionRecorder
from novasched.runtime.clock import Clock
from novasched.shadow.choices import ChoiceFinder, Holders
from novasched.shadow.comparison import Taken, compare

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
WITHIN_S = 60.0
"""What nova chose is unknown if it is not found out within that."""
MOST_WAITING = 512
MOST_HELD = 1_000_000
"""How many requests may wait, and how many hosts their decisions may hold; of more, the
oldest are recorded at once."""
AROUND_S = 5.0
"""Choices of nova's for other requests count for so long before and after ours."""
MOST_TAKEN = 4096


EXPLAINED = (Verdict.EQUAL, Verdict.ALIKE, Verdict.UNKNOWN)
"""Verdicts without a difference that could be made again."""


def is_kept_whole(keep: str, compared: Sequence[Comparison]) -> bool:
    """Return whether a request is kept whole, by ``[novasched] shadow_keep``."""
    differs = any(each.verdict not in EXPLAINED for each in compared)
    return keep == shadow.ALL or (keep == shadow.DIFFERING and differs)


@dataclass
class _Waiting:
    """A request that was decided, and what is known of nova's choices for it."""

    recorder: RequestRecorder
    record: Callable[[RequestRecorder], None]
    before: Holders
    late: bool
    choices: dict[str, NovaChoice] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.choices) >= len(self.before)


class ShadowLog(DecisionLog):
    """A log whose records wait; ``inner`` makes and writes them."""

    def __init__(
        self,
        inner: DecisionLog,
        finder: ChoiceFinder,
        clock: Clock,
        keep: str = shadow.NONE,
    ) -> None:
        self._inner = inner
        self._keep = keep
        self._finder = finder
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._taken: deque[Taken] = deque(maxlen=MOST_TAKEN)

    def recorder(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
    ) -> DecisionRecorder:
        uuids = list(instance_uuids or ())
        held = self._finder.held(context, uuids) if uuids else {}
        recorder = self._inner.recorder(context, request, instance_uuids)
        if isinstance(recorder, RequestRecorder) and held:
            late = not request.is_move and any(held.values())
            before = dict.fromkeys(held, frozenset[str]()) if late else held
            record = recorder.when_ended
            recorder.when_ended = lambda ended: self._wait(
                _Waiting(ended, record, before, late)
            )
        return recorder

    def _wait(self, waiting: _Waiting) -> None:
        with self._lock:
            self._waiting.append(waiting)
            overdue = []
            while self._is_full():
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
        for waiting in list(self._waiting):
            recorder, now_s = waiting.recorder, self._clock.monotonic()
            left = {u: h for u, h in waiting.before.items() if u not in waiting.choices}
            seen_s = now_s - recorder.started_s
            found = self._finder.choices(recorder.context, left, seen_s)
            waiting.choices.update(found)
            self._taken.extend(
                Taken(each.host, recorder.at, recorder.context.request_id or '')
                for each in found.values()
                if each.host is not None
            )
            if waiting.is_complete or seen_s > WITHIN_S:
                self._settle(waiting)

    def _settle(self, waiting: _Waiting) -> None:
        with self._lock:
            try:
                self._waiting.remove(waiting)
            except ValueError:
                return  # it was recorded as too many waited
        self._record(waiting)

    def _record(self, waiting: _Waiting) -> None:
        recorder = waiting.recorder
        mine, at_s = recorder.context.request_id or '', recorder.at
        others = [
            each
            for each in self._taken
            if each.request_id != mine and abs(each.at_s - at_s) <= AROUND_S
        ]
        recorder.compared = compare(recorder, waiting.choices, others, waiting.late)
        recorder.is_kept_whole = is_kept_whole(self._keep, recorder.compared)
        waiting.record(recorder)

    def close(self) -> None:
        """Record what waits, with what is known by now."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        for each in waiting:
            self._record(each)
        self._inner.close()
