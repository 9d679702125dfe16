# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision, with the fields of its JSON.

docs/reference/record.schema.json describes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from novasched.decisions.body import (
    VERSION,
    HostDecision,
    RecordedClaim,
    RecordedDiagnosis,
    RecordedError,
    RecordedQuery,
    RecordedServer,
    WholeDecision,
)
from novasched.decisions.comparison import ServerComparison
from novasched.decisions.decided import (
    HostOutcome,
    Margin,
    ScoredHost,
    ServerDecision,
    Stage,
    number,
)
from novasched.decisions.record import (
    DIAGNOSED_WITHIN_S,
    SCHEDULED,
    WAITING,
    DecisionRecord,
    Head,
)
from novasched.decisions.request_summary import RequestSummary
from novasched.inspection.questions import unchecked
from novasched.runtime.times import time_of
from novasched.runtime.typed_json import omitted_field
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.reasons import Blocker

WHOLE, HEAD = 'whole', 'head'
"""What is kept of a record."""


@dataclass(frozen=True)
class Explanation:
    """The request of a record, and the decision for one server."""

    v: int = VERSION
    id: str = ''
    at: str = ''
    result: str = ''
    blocker: str = ''
    plugin: str = ''
    code: str = ''
    request_id: str = ''
    global_request_id: str = ''
    project_id: str = ''
    user_id: str = ''
    flavor: str = ''
    zone: str = ''
    known: int = 0
    candidates: int | None = None
    servers_total: int = 1
    took_ms: float = 0.0
    worker: str = ''
    diagnosis: str = ''
    kept: str = WHOLE
    request: RequestSummary | None = None
    asked: Sequence[RecordedQuery] = ()
    notes: Sequence[str] = ()
    index: int | None = None
    attempt: int | None = None
    seed: str | None = None  # as text: it has 64 bits, and numbers of JSON often 53
    cut: bool = False
    further: bool = False
    picked: str | None = None
    stages: Sequence[Stage] = ()
    top: Sequence[ScoredHost] = ()
    no_effect: Sequence[str] = ()
    margin: Margin | None = None
    numa: Sequence[Any] | None = None
    servers: Sequence[RecordedServer] = ()
    claims: Sequence[RecordedClaim] = ()
    claims_total: int = 0
    rounds: Mapping[str, int] = field(default_factory=dict)
    stages_ms: Mapping[str, float | None] = field(default_factory=dict)
    cells_left_out: Sequence[str] = ()
    cell_ages_s: Mapping[str, float | None] = field(default_factory=dict)
    placement: RecordedDiagnosis | None = None
    shadow: Sequence[ServerComparison] | None = omitted_field()
    error: RecordedError | None = None
    policy: Mapping[str, Any] | None = None
    hosts: Mapping[str, str] | None = None
    decisions: Sequence[HostDecision] = ()
    server_name: str | None = None
    of_host: HostOutcome | None = None
    now: Mapping[str, Any] | None = None  # the verdict of a host now, with its text
    unanswered: Sequence[str] = ()

    @property
    def is_scheduled(self) -> bool:
        return self.result == SCHEDULED

    @property
    def scheduler(self) -> str:
        """The host of the worker."""
        return self.worker.rpartition(':')[0] or self.worker

    @property
    def cause(self) -> str:
        """The blocker, one of Blocker where this release knows it."""
        return self.blocker or Blocker.ERROR

    @property
    def last_query(self) -> RecordedQuery:
        return self.asked[-1] if self.asked else RecordedQuery()

    @property
    def is_cut(self) -> bool:
        """Whether a limit cut the candidates."""
        return self.cut or bool(self.last_query.cut)

    @cached_property
    def last_taking(self) -> Stage | None:
        """The stage that took the last hosts."""
        return next((s for s in reversed(self.stages) if s.taken > 0), None)

    @property
    def server(self) -> RecordedServer | None:
        """The server that it is about."""
        index = self.index or 0
        return self.servers[index] if index < len(self.servers) else None

    @property
    def decisive(self) -> Mapping[str, str]:
        """The host that would have won without a weigher, by the name of each that
        decided it."""
        margin = self.margin
        is_ahead = margin is not None and bool(margin.by) and (margin.by or 0) > 0
        return margin.decisive if margin is not None and is_ahead else {}

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The outcome of hosts that passed: selected, alternate, or how a claim for
        them ended."""
        alternates = self.server.alternates if self.server is not None else ()
        found = dict.fromkeys(alternates, 'alternate')
        for claim in self.claims:
            if claim.outcome != Outcome.CLAIMED and claim.host is not None:
                found[claim.host] = claim.outcome
        if self.picked:
            found[self.picked] = 'selected'
        return found


def explanation(
    record: DecisionRecord,
    index: int | None = None,
    long: bool = False,
    now_s: float | None = None,
) -> Explanation:
    """Explain the decision for a server, by its index in the request.

    None means the server that ended it, or the first. ``long`` adds every host and its
    outcome. ``now_s`` is in seconds since 1970; None means the time of the decision.
    Raises errors.OptionError for an unknown server.
    """
    head, body = record.head, record.body
    decided = ServerDecision(record, index)
    made = decided.made or HostDecision()
    details = made if isinstance(made, WholeDecision) else WholeDecision(steps=())
    enabled = unchecked.EnabledChecks.of_record(record.profile)
    demands = unchecked.unchecked_demands(enabled, body.request or RequestSummary())
    return Explanation(
        id=head.id,
        at=time_of(head.at),
        result=head.result,
        blocker=head.blocker,
        plugin=head.plugin,
        code=head.code,
        request_id=head.request_id,
        global_request_id=head.global_request_id,
        project_id=head.project_id,
        user_id=head.user_id,
        flavor=head.flavor,
        zone=head.zone,
        known=head.hosts,
        candidates=None if head.candidates < 0 else head.candidates,
        servers_total=head.servers,
        took_ms=round(head.took_us / 1000, 3),
        worker=head.worker,
        diagnosis=_diagnosis(head, now_s),
        kept=HEAD if body.request is None else WHOLE,
        request=body.request,
        asked=body.asked,
        notes=[*body.notes, *unchecked.sentences(enabled, demands)],
        index=made.index,
        attempt=made.attempt,
        seed=None if details.seed is None else str(details.seed),
        cut=details.cut,
        further=details.further,
        picked=made.host,
        stages=decided.stages,
        top=decided.top,
        no_effect=details.no_effect,
        margin=decided.margin,
        numa=details.numa,
        servers=body.servers,
        claims=[replace(claim, ms=number(claim.ms)) for claim in body.claims],
        claims_total=body.claims_total,
        rounds=body.rounds,
        stages_ms=_numbers(body.stages_ms),
        cells_left_out=body.view.left_out,
        cell_ages_s=_numbers(body.view.ages_s),
        placement=body.placement,
        shadow=body.shadow,
        error=body.error,
        policy=record.profile,
        hosts=decided.outcomes if long else None,
        decisions=[HostDecision(d.index, d.attempt, d.host) for d in body.decisions],
    )


def _diagnosis(head: Head, now_s: float | None) -> str:
    """Return how far a placement diagnosis is; '': there is none, and none is made any
    more."""
    age_s = 0.0 if now_s is None else now_s - head.at / 1e6
    is_late = head.diagnosis == WAITING and age_s >= DIAGNOSED_WITHIN_S
    return '' if is_late else head.diagnosis


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: number(value) for name, value in values.items()}
