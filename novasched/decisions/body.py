# SPDX-License-Identifier: Apache-2.0
"""The body of a record: what is kept of a request beside its head.

Its fields, in this order, are the map that is stored and travels:
docs/reference/decisions.md has every one. A field that is added has a default, so that
older records are read; fields of later releases are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from novasched.decisions.comparison import ServerComparison
from novasched.decisions.request_summary import RequestSummary
from novasched.runtime.typed_json import of_json, omitted_field, renamed_field
from novasched.scheduler.outline_parts import StepOutline, WeigherOutline

VERSION = 1


@dataclass(frozen=True)
class RecordedServer:
    """A server of the request; of the host alone is known where only a head is kept."""

    uuid: str | None = None
    host: str | None = None
    node: str | None = None
    cell: str | None = None
    alternates: Sequence[str] = ()


@dataclass(frozen=True)
class RecordedQuery:
    """A query to placement, and its answer: ``text`` is the one of an error."""

    query: str = ''
    pcpu_fallback: bool = False
    limit: int | None = None
    status: int = 200
    text: str | None = omitted_field()
    candidates: int = 0
    cut: bool | None = omitted_field()
    further: bool | None = omitted_field()
    fallback: str | None = omitted_field()  # why the copy of placement did not answer
    copied: bool | None = omitted_field()  # the copy of placement answered


@dataclass(frozen=True)
class RecordedView:
    """The cells that gave no hosts, and the age of the data of all, by name."""

    left_out: Sequence[str] = ()
    ages_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedClaim:
    host: str | None = None  # None: a claim for several servers
    servers: int = 1
    outcome: str = ''
    text: str = ''
    ms: float | None = 0.0


@dataclass(frozen=True)
class RecordedError:
    """The error that the caller got, by its class."""

    kind: str = renamed_field('class')
    text: str = ''


@dataclass(frozen=True)
class DiagnosisReason:
    """A condition that struck hosts, of those that placement did not offer."""

    code: str
    what: str = ''  # resource class, trait, or uuids of aggregates
    named: str = ''  # names of the aggregates
    hosts: int = 0
    only: int = 0  # hosts for which it is the only obstacle
    wanted: int | None = None
    largest: float | None = None
    example: str = ''

    @property
    def name(self) -> str:
        """The class, trait or aggregates, by name."""
        return self.named or self.what

    @property
    def is_too_much(self) -> bool:
        """Whether more is wanted than any of the hosts gives."""
        wanted, largest = self.wanted, self.largest
        return wanted is not None and largest is not None and largest < wanted


@dataclass(frozen=True)
class RecordedDiagnosis:
    """Why placement held hosts back."""

    age_s: float = 0.0
    source: str = ''
    hosts: int = 0
    offered: int = 0
    reasons: Sequence[DiagnosisReason] = ()


@dataclass(frozen=True)
class HostDecision:
    """A decision for one server, of which the host alone is kept."""

    index: int | None = None
    attempt: int | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class WholeDecision(HostDecision):
    """A decision with its outline."""

    seed: int | None = None
    cut: bool = False
    further: bool = False
    host_list: str = ''  # the hash of the names of all hosts
    hosts: int = 0
    candidates: int = 0
    left: int = 0
    steps: Sequence[StepOutline]
    outcomes: bytes = b''
    top: Sequence[str] = ()
    totals: Sequence[float] = ()
    weighers: Sequence[WeigherOutline] = ()
    no_effect: Sequence[str] = ()
    decisive: Mapping[str, str] = field(default_factory=dict)
    numa: Sequence[Any] | None = None


@dataclass(frozen=True)
class RecordBody:
    v: int = VERSION
    servers: Sequence[RecordedServer] = ()
    request: RequestSummary | None = None
    asked: Sequence[RecordedQuery] = ()
    notes: Sequence[str] = ()
    view: RecordedView = field(default_factory=RecordedView)
    profile: str = ''  # the hash of the operator's choices
    claims: Sequence[RecordedClaim] = ()
    claims_total: int = 0
    rounds: Mapping[str, int] = field(default_factory=dict)
    stages_ms: Mapping[str, float] = field(default_factory=dict)
    error: RecordedError | None = None
    placement: RecordedDiagnosis | None = None
    shadow: Sequence[ServerComparison] | None = omitted_field()
    decisions: Sequence[WholeDecision | HostDecision] = ()

    @property
    def is_of_head(self) -> bool:
        """Whether the servers, compared or not, are all that there is: only the head
        is kept."""
        return self == RecordBody(servers=self.servers, shadow=self.shadow)

    @property
    def whole_decisions(self) -> list[WholeDecision]:
        return [made for made in self.decisions if isinstance(made, WholeDecision)]

    @property
    def last_query(self) -> RecordedQuery | None:
        return self.asked[-1] if self.asked else None


def body_of(stored: Any) -> RecordBody:
    """Return a body of the map that is stored. Raises ValueError."""
    try:
        return of_json(RecordBody, stored)
    except (TypeError, AttributeError, LookupError) as problem:
        raise ValueError(f'not a record: {problem}') from problem
