# SPDX-License-Identifier: Apache-2.0
"""The decision of a record for one of its servers: stages, weights, outcomes of hosts.

The counts of the stages add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from novasched import errors
from novasched.decisions.body import (
    DiagnosisReason,
    HostDecision,
    RecordedClaim,
    RecordedServer,
    WholeDecision,
)
from novasched.decisions.record import SCHEDULED, DecisionRecord
from novasched.runtime.typed_json import renamed_field
from novasched.scheduler.outline_parts import StepOutline
from novasched.scheduler.reasons import (
    FIRST_STEP,
    NOT_A_CANDIDATE,
    NOT_NAMED,
    PASSED,
    Blocker,
    Code,
)

PLACEMENT = 'placement'
KNOWN_HOSTS = 'known hosts'
EARLIER_SERVERS = 'earlier servers'
NAMED_HOSTS = 'named hosts'
PASSED_ALL = 'passed'
WAS_NOT_NAMED = 'not named'


@dataclass(frozen=True)
class StageReason:
    """Why a stage took hosts, how many of them, and one of them."""

    code: str
    what: str = ''  # resource class, trait or aggregates by name
    text: str = ''  # the words for the example
    count: int = 0
    example: str = ''

    @property
    def name(self) -> str:
        return f'{self.code} {self.what}'.rstrip()


@dataclass(frozen=True)
class Stage:
    """What looked at the hosts. The counts of the reasons add up to ``taken``."""

    name: str
    before: int = renamed_field('in')
    after: int = renamed_field('out')
    reasons: Sequence[StageReason] = ()

    @property
    def taken(self) -> int:
        return self.before - self.after


@dataclass(frozen=True)
class Weight:
    """What a weigher gave a host."""

    raw: float | None
    normalised: float | None
    multiplier: float | None
    adds: float | None


@dataclass(frozen=True)
class ScoredHost:
    host: str
    total: float | None
    weights: Mapping[str, Weight]


@dataclass(frozen=True)
class Margin:
    """The lead of the picked host over the best of the others, in all and by weigher.

    A lead is negative if the other has more, and None if it is no number. ``decisive``
    has the host that would have won without a weigher.
    """

    over: str
    by: float | None
    weighers: Mapping[str, float | None]
    decisive: Mapping[str, str]


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of one host, or None if the record does not say.

    The reasons belong to the stage that took the host. Unless ``is_exact``, it is not
    kept which of them is the host's.
    """

    host: str
    outcome: str | None = None
    reasons: Sequence[StageReason] = ()
    is_exact: bool = False
    rank: int | None = None  # of the best
    passed: int = 0  # how many hosts passed
    claims: Sequence[RecordedClaim] = ()
    servers: Sequence[str | None] = ()
    is_alternate: bool = False


@dataclass(frozen=True)
class ServerDecision:
    """The decision for the server of an index.

    Without an index, it is the server that ended the request, or the first. Raises
    errors.OptionError for an unknown server.
    """

    record: DecisionRecord
    given_index: int | None = None

    @cached_property
    def made(self) -> HostDecision | None:
        """The last decision that gave the server its host, or the last one; of those
        kept."""
        index, total = self.given_index, self.record.head.servers
        if index is not None and not 0 <= index < total:
            problem = f'the request is for {total} server{"s" * (total != 1)}'
            remedy = f'Give 0 to {total - 1}' if total > 1 else 'Leave it out'
            raise errors.OptionError('--index', problem, remedy)
        body = self.record.body
        if index is None and self.record.head.result != SCHEDULED:
            ended = [made for made in body.decisions if made.host is None]
            return (ended or body.decisions or (None,))[-1]
        index = index or 0
        of_server = [made for made in body.decisions if made.index == index]
        host = body.servers[index].host if index < len(body.servers) else None
        given = [made for made in of_server if host and made.host == host]
        return (given or of_server or (None,))[-1]

    @cached_property
    def whole(self) -> WholeDecision | None:
        """The decision, if it says how its server ended.

        It does not if it is kept by its host alone. Nor does it if it found no host,
        and placement, asked once more, had no candidates left.
        """
        if not isinstance(self.made, WholeDecision):
            return None
        asked_again = self.record.head.blocker == Blocker.NO_CANDIDATES
        return None if asked_again and self.made.host is None else self.made

    @cached_property
    def _first(self) -> WholeDecision | None:
        """The decision for the first server, if this one is for a later one."""
        index = self.whole.index if self.whole is not None else None
        made = self.record.body.whole_decisions if index else ()
        return next((each for each in made if each.index == 0), None)

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages in order; those before the filters only if they took hosts."""
        head, body, decision = self.record.head, self.record.body, self.whole
        if decision is None:
            if head.blocker != Blocker.NO_CANDIDATES:
                return []
            return [self._placement(head.hosts, 0)]
        table, steps = decision.candidates, decision.steps
        left = steps[0].before if steps else decision.left
        stages = []
        if not body.asked:
            lost = StageReason(Code.NOT_NAMED, text='placement was not asked')
            stages.append(_stage(NAMED_HOSTS, decision.hosts, table, lost))
        else:
            before = max(table, self._first.candidates) if self._first else table
            offered = max(self._offered(), before)
            known = decision.hosts
            lost = StageReason(
                Code.UNKNOWN_HOST, text='no compute node or service of it is known'
            )
            if unavailable := body.view.left_out:
                text = f'{", ".join(unavailable)} did not answer'
                lost = StageReason(Code.CELL_LEFT_OUT, text=text)
            else:
                known += offered - before
            earlier = StageReason(
                Code.NOT_ASKED,
                text='rejected for an earlier server of the request: see --index',
            )
            stages = [
                self._placement(known, offered),
                _stage(KNOWN_HOSTS, offered, before, lost),
                _stage(EARLIER_SERVERS, before, table, earlier),
            ]
        lost = StageReason(Code.NOT_NAMED, text='the request names other hosts')
        stages.append(_stage(NAMED_HOSTS, table, left, lost))
        kept = [stage for stage in stages if stage.taken or stage.name == PLACEMENT]
        return kept + [_of_step(step) for step in steps]

    def _offered(self) -> int:
        """Return how many hosts placement offered, known or not."""
        if self.record.head.blocker != Blocker.UNKNOWN_HOSTS:
            return self.record.head.candidates
        return self.record.body.asked[-1].candidates

    def _placement(self, known: int, offered: int) -> Stage:
        """Return the stage of placement, with what the diagnosis says of it.

        Hosts that only placement knows count as hosts.
        """
        diagnosis = self.record.body.placement
        text = 'placement gives no reasons'
        if diagnosis is not None:
            text = 'offered when placement was read for the diagnosis'
        reasons = [_of_diagnosis(r) for r in (diagnosis.reasons if diagnosis else ())]
        judged = sum(reason.count for reason in reasons)
        rest = StageReason(Code.NOT_ASKED, text=text)
        return _stage(PLACEMENT, max(known, offered + judged), offered, rest, reasons)

    @cached_property
    def outcomes(self) -> dict[str, str] | None:
        """The outcome of each host: the name of the stage that took it, PASSED_ALL or
        WAS_NOT_NAMED; None if the record does not say."""
        codes, whole = self._codes(self.whole), self.whole
        if whole is None or codes is None:
            return None
        before = self._codes(self._first) or {}
        took = PLACEMENT if self.record.body.asked else WAS_NOT_NAMED
        names = {PASSED: PASSED_ALL, NOT_NAMED: WAS_NOT_NAMED, NOT_A_CANDIDATE: took}
        last = len(whole.steps) - 1

        def outcome(host: str, code: int) -> str:
            if code not in names:
                return whole.steps[min(code - FIRST_STEP, last)].name
            was_offered = before.get(host, NOT_A_CANDIDATE) != NOT_A_CANDIDATE
            return (
                EARLIER_SERVERS
                if code == NOT_A_CANDIDATE and was_offered
                else names[code]
            )

        return {host: outcome(host, code) for host, code in codes.items()}

    def _codes(self, decision: WholeDecision | None) -> dict[str, int] | None:
        if decision is None:
            return None
        names = self.record.host_lists.get(decision.host_list)
        if names is None:
            return None
        return dict(zip(names, decision.outcomes, strict=True))

    @cached_property
    def top(self) -> list[ScoredHost]:
        """The best hosts, each with its total and what each weigher gave."""
        made = self.whole
        if made is None:
            return []
        return [
            ScoredHost(
                host,
                number(made.totals[place]),
                {
                    weigher.name: _weight(
                        weigher.raw[place],
                        weigher.normalised[place],
                        weigher.multipliers[place],
                    )
                    for weigher in made.weighers
                },
            )
            for place, host in enumerate(made.top)
        ]

    @cached_property
    def margin(self) -> Margin | None:
        """The lead of the picked host; None if it is not known, or the only one."""
        top = {scored.host: scored for scored in self.top}
        made = self.whole
        picked = top.pop(made.host or '', None) if made is not None else None
        second = next(iter(top.values()), None)
        if made is None or picked is None or second is None:
            return None
        return Margin(
            second.host,
            _difference(picked.total, second.total),
            {
                name: _difference(weight.adds, second.weights[name].adds)
                for name, weight in picked.weights.items()
            },
            dict(made.decisive or {}),
        )

    def of_host(self, host: str) -> HostOutcome:
        """Return the outcome of one host. Raises errors.OptionError for a host that was
        not known."""
        record, body = self.record, self.record.body
        outcomes = self.outcomes
        lists = record.host_lists.values()
        known = {n for names in lists for n in names} if outcomes is None else outcomes
        if known and host not in known:
            meant = errors.closest(host, known)
            raise errors.OptionError(
                '--host',
                f'there was no host {host} when this was decided',
                f'Did you mean {meant}?' if meant else 'See all with --long',
            )
        outcome = (outcomes or {}).get(host)
        if outcomes is None and record.head.blocker == Blocker.NO_CANDIDATES:
            outcome = PLACEMENT
        reasons, is_exact = reasons_of(self.stages, outcome, host)
        ranks = {scored.host: rank for rank, scored in enumerate(self.top, 1)}
        return HostOutcome(
            host,
            outcome,
            reasons,
            is_exact,
            ranks.get(host),
            self.whole.left if self.whole is not None else 0,
            [claim for claim in body.claims if claim.host == host],
            [server.uuid for server in body.servers if server.host == host],
            any(host in server.alternates for server in body.servers),
        )


def index_of(servers: Sequence[RecordedServer], server: str) -> int | None:
    """Return the index of a server in its request, by the beginning of its uuid.

    None if there is only one server, or none begins so.
    """
    if len(servers) < 2 or not server:
        return None
    found = (n for n, s in enumerate(servers) if (s.uuid or '').startswith(server))
    return next(found, None)


def _of_diagnosis(reason: DiagnosisReason) -> StageReason:
    said = []
    wanted, largest = reason.wanted, reason.largest
    if wanted is not None and largest is not None:
        what = 'free' if reason.code == Code.EXHAUSTED else 'in one piece'
        most = f'at most {largest} {what}' if wanted > largest else 'not in these steps'
        said.append(f'{wanted} wanted, {most}')
    elif largest is not None:
        said.append(f'at most {largest} free')
    if 0 < reason.only < reason.hosts:
        said.append(f'the only obstacle for {reason.only}')
    text = ', '.join(said)
    return StageReason(reason.code, reason.name, text, reason.hosts, reason.example)


def _of_step(step: StepOutline) -> Stage:
    reasons = [
        StageReason(code, '', text, count, example)
        for code, text, count, example in step.reasons
    ]
    rest = StageReason(Code.NOT_ASKED)
    return _stage(step.name, step.before, step.after, rest, reasons)


def _stage(
    name: str,
    before: int,
    after: int,
    rest: StageReason,
    reasons: Sequence[StageReason] = (),
) -> Stage:
    """Return a stage; hosts without a reason get the reason ``rest``."""
    missing = before - after - sum(reason.count for reason in reasons)
    every = [*reasons, replace(rest, count=missing)] if missing > 0 else reasons
    return Stage(name, before, after, most_first(every))


def reasons_of(
    stages: Iterable[Stage], outcome: str | None, host: str
) -> tuple[list[StageReason], bool]:
    """Return the reasons of the stage that took a host, and whether they are its own.

    If there are several, only examples have one of their own. A reason of one host
    alone belongs to its example, and to no other host.
    """
    reasons = [r for stage in stages if stage.name == outcome for r in stage.reasons]
    own = [reason for reason in reasons if reason.example == host]
    others = [reason for reason in reasons if reason.count > 1 or not reason.example]
    found = own or others or reasons
    return found, bool(own) or len(found) == 1


def most_first(reasons: Iterable[StageReason]) -> list[StageReason]:
    return sorted(reasons, key=lambda reason: (-reason.count, reason.code))


def _weight(raw: float, normalised: float, multiplier: float) -> Weight:
    adds = normalised * multiplier
    return Weight(number(raw), number(normalised), number(multiplier), number(adds))


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else number(one - other)


def number(value: float | None) -> float | None:
    """Return a number with the digits that float32 has; None for one that is infinite
    or no number: JSON has no such."""
    if value is None or not math.isfinite(value):
        return None
    return float(f'{value:.7g}')
