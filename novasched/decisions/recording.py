# SPDX-License-Identifier: Apache-2.0
"""Recording one request while it is served: references, and a few times."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Self

from novasched import errors
from novasched.decisions.body import RecordedDiagnosis
from novasched.decisions.comparison import ServerComparison
from novasched.decisions.record import DecisionRecord, new_id
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates, ClaimRequest, QueryFailed
from novasched.ports.decisions import NO_ROUNDS, Answer, DecisionRecorder
from novasched.providers.by_root import CandidatesByRoot
from novasched.resources import Query, Requirements
from novasched.runtime.clock import Clock
from novasched.scheduler.hosts import Rows
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.outline import Outline
from novasched.scheduler.reasons import Blocker
from novasched.scheduler.trace import Decision

MOST_CLAIMS = 20
MOST_NOTES = 20
UNDO_IS = {'undo': 'claim'}
"""Records count undos as part of the stage of claims."""
CANDIDATE = 16
"""A candidate takes as much memory as the columns of so many hosts, if it is made."""


@dataclass(frozen=True)
class Asked:
    """A query and what was answered."""

    query: Query
    answer: Candidates | QueryFailed


@dataclass(frozen=True)
class ClaimOutcome:
    """The outcome of claims that were made together, and how long it took."""

    wanted: Sequence[ClaimRequest]
    outcome: Outcome
    text: str
    took_s: float


@dataclass
class InstanceDecision:
    """The decision on one instance, and the host that was picked.

    ``decision`` is None where it is not kept whole: its tables are let go.
    """

    index: int
    attempt: int
    decision: Decision | None
    offered: Rows
    host: str | None = None
    cells: Sequence[int] = ()


class RequestObserver:
    """Base of what learns of requests while they are recorded; does nothing itself."""

    def staged(
        self, recorder: RequestRecorder, stage: str, since_s: float, took_s: float
    ) -> None:
        """A stage has ended; ``since_s`` is when it began, by the recorder's clock."""

    def prefiltered(self, took_s: Mapping[str, float]) -> None:
        """Each prefilter took so many seconds."""

    def decided(
        self,
        recorder: RequestRecorder,
        decision: Decision,
        stages_s: Mapping[str, float],
    ) -> None:
        """A decision was made; ``stages_s`` has its stages: filter and score."""

    def recorded(
        self, recorder: RequestRecorder, record: DecisionRecord, took_s: float
    ) -> None:
        """A record was made, which took so long; its body may have less than the
        recorder. Called in the thread that makes records."""

    def close(self) -> None:
        """No more records are made."""


Explain = Callable[['RequestRecorder', errors.NoValidHost], errors.NoValidHost]
"""Returns the error with the text that the caller may read."""


@dataclass
class RequestRecorder(DecisionRecorder):
    """One request as it is recorded.

    It begins when it is made, ``at`` seconds since 1970.
    """

    clock: Clock
    rng: InitVar[random.Random]
    context: RequestContext
    request: RequestSpec
    instance_uuids: Sequence[str] | None
    when_ended: Callable[[RequestRecorder], None]
    explain: Explain = lambda recorder, error: error
    """Returns the error with what the caller may read."""
    observer: RequestObserver = field(default_factory=RequestObserver)
    started_s: float = 0.0
    took_s: float = 0.0
    stages_s: dict[str, float] = field(default_factory=dict)  # seconds by name
    notes: list[str] = field(default_factory=list)
    queries: list[Asked] = field(default_factory=list)
    blocker: Blocker | None = None
    plugin: str = ''
    turns: list[InstanceDecision] = field(default_factory=list)
    """In the order in which they were taken."""
    claims: list[ClaimOutcome] = field(default_factory=list)
    claims_total: int = 0
    rounds: Mapping[Outcome, int] = field(default_factory=dict)  # decided again for
    answer: Answer | None = None
    error: Exception | None = None
    failing: bool = False  # the request is about to fail, and has not ended
    outlines: dict[int, Outline] = field(default_factory=dict)
    """By id() of a turn; like ``diagnosis``, made when first needed."""
    diagnosis: RecordedDiagnosis | None = None
    compared: Sequence[ServerComparison] = ()  # with what nova chose, in a shadow
    is_kept_whole: bool = False
    observed: Any = None  # what the observer remembers of the request

    def __post_init__(self, rng: random.Random) -> None:
        self.at = self.clock.time()
        self.id = new_id(self.at, rng.getrandbits(24))
        self.started_s = self.clock.monotonic()
        self._stage: list[tuple[str, float]] = []
        self._last_s = 0.0
        self._has_ended = False

    def stage(self, name: str) -> Self:
        """Begin a stage; what is returned ends it."""
        self._stage.append((name, self.clock.monotonic()))
        return self

    def __enter__(self) -> None:
        """Do nothing: the stage has begun."""

    def __exit__(self, *problem: object) -> None:
        name, since = self._stage.pop()
        self._last_s = self.clock.monotonic() - since
        self.observer.staged(self, name, since, self._last_s)
        if not self._has_ended:
            self._add_to_stage(UNDO_IS.get(name, name), self._last_s)

    def _add_to_stage(self, name: str, took_s: float) -> None:
        self.stages_s[name] = self.stages_s.get(name, 0.0) + took_s

    def prefiltered(self, request: RequestSpec, added: Requirements) -> None:
        self.notes += [*added.warnings, *added.failures][: MOST_NOTES - len(self.notes)]
        self.observer.prefiltered(added.took_s)

    def asked(self, query: Query, answer: Candidates | QueryFailed) -> None:
        self.queries.append(Asked(query, answer))
        self.notes += [*query.warnings, *query.notes][: MOST_NOTES - len(self.notes)]

    def blocked(self, blocker: Blocker, plugin: str = '') -> None:
        self.blocker, self.plugin = blocker, plugin

    def decided(self, decision: Decision, index: int | None = None) -> None:
        weighers = {each.name for each in decision.weighed.scored}
        stages_s: dict[str, float] = {}
        for name, took_s in decision.took_s.items():
            stage = 'score' if name in weighers else 'filter'
            stages_s[stage] = stages_s.get(stage, 0.0) + took_s
        self.observer.decided(self, decision, stages_s)
        if index is not None:
            for stage, took_s in stages_s.items():
                self._add_to_stage(stage, took_s)
            self._keep(decision, index)

    def _keep(self, decision: Decision, index: int) -> None:
        offered = decision.hosts.rows
        last = self.turns[-1] if self.turns else None
        if last is not None and last.attempt == decision.attempt:
            offered = last.offered
            if last.index == index:  # another request was faster: decided once more
                self.turns.pop()
            elif last.index and last.decision and len(last.decision.ranked):
                last.decision = None
        self.turns.append(InstanceDecision(index, decision.attempt, decision, offered))

    def picked(self, host: str, cells: Sequence[int]) -> None:
        if self.turns:
            self.turns[-1].host, self.turns[-1].cells = host, cells

    def claimed(
        self, wanted: Sequence[ClaimRequest], outcome: Outcome, text: str
    ) -> None:
        self.claims_total += 1
        if len(self.claims) < MOST_CLAIMS:
            self.claims.append(ClaimOutcome(wanted, outcome, text, self._last_s))

    def waited(
        self, unavailable: Mapping[str, str], seconds: float, *, again: bool
    ) -> None:
        for service, problem in unavailable.items():
            end = '' if again else ', in vain'
            self.notes.append(f'Waited {seconds:.1f} s for {service}{end}: {problem}')
        del self.notes[:-MOST_NOTES]
        if again:
            self.blocker, self.plugin = None, ''
            self.turns, self.outlines, self.diagnosis = [], {}, None
            self.queries = []  # their candidates take memory

    @property
    def size(self) -> int:
        """The hosts that are held; a candidate counts as CANDIDATE of them, and if it
        is not made as one."""
        size = sum(
            len(turn.offered) for turn in self.turns if turn.decision is not None
        )
        for answer in (each.answer for each in self.queries):
            if isinstance(answer, Candidates):
                is_made = not isinstance(answer.requests, CandidatesByRoot)
                size += len(answer.requests) * (CANDIDATE if is_made else 1)
        return size

    @property
    def ended_s(self) -> float:
        """The time of the monotonic clock at which the request ended."""
        return self.started_s + self.took_s

    def explained(self, error: errors.NoValidHost) -> errors.NoValidHost:
        return self.explain(self, error)

    def ended(
        self,
        answer: Answer | None,
        error: Exception | None,
        rounds: Mapping[Outcome, int] = NO_ROUNDS,
    ) -> None:
        self.took_s = self.clock.monotonic() - self.started_s
        self.answer, self.error, self.rounds = answer, error, rounds
        self._has_ended = True
        self.when_ended(self)
