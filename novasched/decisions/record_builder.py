# SPDX-License-Identifier: Apache-2.0
"""Distil a recorded request to its record. Pure, but for the plugins asked."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from novasched import errors
from novasched.decisions.body import (
    HostDecision,
    RecordBody,
    RecordedClaim,
    RecordedDiagnosis,
    RecordedError,
    RecordedQuery,
    RecordedServer,
    RecordedView,
    WholeDecision,
)
from novasched.decisions.bounds import truncated
from novasched.decisions.record import (
    ERROR,
    MADE,
    SCHEDULED,
    UNSCHEDULABLE,
    WAITING,
    DecisionRecord,
    Head,
)
from novasched.decisions.recording import InstanceDecision, RequestRecorder
from novasched.decisions.request import flavor_name, summary, zone_of
from novasched.decisions.slow_filters import Questions
from novasched.http import error_words
from novasched.ports import CallerGone, Candidates, QueryFailed
from novasched.resources import Query
from novasched.runtime.log_once import LogOnce
from novasched.runtime.typed_json import of_json
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.outline import (
    Ask,
    Outline,
    host_names,
    summarize,
    why,
)
from novasched.scheduler.outline_parts import StepOutline
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Blocker, Code
from novasched.scheduler.trace import Decision
from novasched.scheduler.weighers import Weigher

LOG = logging.getLogger(__name__)

MOST_SERVERS = 1000
MOST_QUERIES = 4
LONGEST_QUERY = 8192
LONGEST_TEXT = 500
LONGEST_CLAIM_TEXT = 200

Diagnose = Callable[[Query], Mapping[str, Any] | None]
"""Returns why placement has no candidates for a query; None if not known now."""


@dataclass(frozen=True)
class HostList:
    """The names of all hosts of a snapshot, and the hash that stands for them."""

    hash: str
    names: Sequence[str]


class HostLists:
    """Names of the hosts of snapshots; made once for each column of hosts."""

    def __init__(self) -> None:
        self._hosts: Any = None
        self._last = HostList('', ())

    def of(self, hosts: HostTable) -> HostList:
        column = hosts.snapshot.column('host')
        if column is not self._hosts:
            names = host_names(column, hosts.snapshot.column('nodename'))
            digest = hashlib.blake2b('\0'.join(names).encode(), digest_size=8)
            self._hosts, self._last = column, HostList(digest.hexdigest(), names)
        return self._last


@dataclass(frozen=True)
class Conclusion:
    """The result of a request; see Head."""

    result: str
    blocker: Blocker | None = None
    plugin: str = ''
    code: str = ''


def profile_summary(profile: Profile, conf: Any = None) -> dict[str, Any]:
    """Return the profile of the scheduler, as records keep it."""
    options = dict(conf.novasched) if conf is not None else {}
    return {
        'driver': conf.scheduler.driver if conf is not None else '',
        'filters': [each.name for each in profile.filters],
        'weighers': {each.name: _multiplier(each) for each in profile.shown_weighers},
        'options': {name: str(options[name]) for name in sorted(options)},
        'version': importlib.metadata.version('novasched'),
    }


def _multiplier(weigher: Weigher) -> float | None:
    """Return a multiplier as a plain number, if it is one."""
    try:
        return float(weigher.multiplier)
    except (TypeError, ValueError):
        return None


class RecordBuilder:
    """Makes records of recorded requests, in any thread.

    ``kept_profile`` is the profile as records keep it, ``worker`` is host:pid.
    ``known`` returns how many hosts there are, ``left_out`` the names of unavailable
    cells, ``ages_s`` how old the view of each part of the cloud is.
    """

    def __init__(
        self,
        profile: Profile,
        kept_profile: Mapping[str, Any] | None = None,
        worker: str = '',
        known: Callable[[], int] = lambda: 0,
        left_out: Callable[[], Sequence[str]] = lambda: (),
        ages_s: Callable[[], Mapping[str, float]] = dict,
        diagnose: Diagnose | None = None,
        waits_for_diagnosis: bool = False,
        ask: Ask = why,
    ) -> None:
        self._profile = profile
        self._kept_profile = kept_profile = kept_profile or profile_summary(profile)
        digest = hashlib.blake2b(repr(kept_profile).encode(), digest_size=8)
        self._profile_hash = digest.hexdigest()
        self._worker = worker
        self._known = known
        self._left_out = left_out
        self._ages_s = ages_s
        self._diagnose = diagnose
        self._waits_for_diagnosis = waits_for_diagnosis
        self._questions = Questions(ask)
        self._host_lists = HostLists()
        self._logged = LogOnce()

    def outcome(self, recorder: RequestRecorder) -> DecisionRecord:
        """Return the head and the servers alone, compared; no filter is asked."""
        head = self._head(recorder, verdict(recorder), '')
        compared = list(recorder.compared) or None
        body = RecordBody(servers=_servers(recorder), shadow=compared)
        return DecisionRecord(head, body)

    def record(self, recorder: RequestRecorder) -> DecisionRecord:
        """Return the whole record."""
        outlines = self.outlines(recorder)
        found, diagnosis = verdict(recorder, outlines), self.diagnosis(recorder)
        waits = found.blocker == Blocker.NO_CANDIDATES and self._waits_for_diagnosis
        state = MADE if diagnosis else WAITING if waits else ''
        lists: dict[str, Sequence[str]] = {}
        decisions: list[HostDecision] = []
        for turn in recorder.turns[-MOST_SERVERS:]:
            made = outlines.get(id(turn))
            if made is None or turn.decision is None:
                decisions.append(HostDecision(turn.index, turn.attempt, turn.host))
                continue
            hosts = self._host_lists.of(turn.decision.hosts)
            lists[hosts.hash] = hosts.names
            decisions.append(_whole(turn, turn.decision, made, hosts.hash))
        queries = recorder.queries[-MOST_QUERIES:]
        ages_s = dict(self._ages_s())
        body = RecordBody(
            servers=_servers(recorder),
            request=summary(recorder.request),
            asked=[_asked(each.query, each.answer) for each in queries],
            notes=[note[:LONGEST_CLAIM_TEXT] for note in recorder.notes],
            view=RecordedView(self.cells_left_out(recorder), ages_s),
            profile=self._profile_hash,
            claims=_claims(recorder),
            claims_total=recorder.claims_total,
            rounds={str(why): times for why, times in recorder.rounds.items()},
            stages_ms={n: s * 1000 for n, s in recorder.stages_s.items()},
            error=_error(recorder.error),
            placement=diagnosis,
            shadow=list(recorder.compared) or None,
            decisions=decisions,
        )
        head = self._head(recorder, found, state)
        profiles = {self._profile_hash: self._kept_profile}
        return DecisionRecord(head, truncated(body), lists, profiles)

    def outlines(self, recorder: RequestRecorder) -> dict[int, Outline]:
        """Return the outlines of the decisions that are kept, by id() of their turn.

        They are made once. For a server after the first, a decision counts only the
        hosts that were left then. If none were left, it is repeated over all hosts.
        """
        ask = self._questions.of_record(recorder.clock)
        for turn in recorder.turns:
            if turn.decision is not None and id(turn) not in recorder.outlines:
                decision = turn.decision
                if turn.index and not len(decision.ranked):
                    turn.decision = decision = self._over_all(decision, turn)
                recorder.outlines[id(turn)] = summarize(decision, ask)
        return recorder.outlines

    def _over_all(self, decision: Decision, turn: InstanceDecision) -> Decision:
        """Return a decision over all the hosts of its request, if it is as empty."""
        if len(decision.hosts) >= len(turn.offered):
            return decision
        hosts = HostTable(decision.hosts.snapshot, turn.offered)
        profile = replace(self._profile, weighers=())
        try:
            again = decide(
                profile, hosts, decision.request, random.Random(decision.seed)
            )
        except errors.NovaschedError:
            return decision
        if len(again.ranked) > len(decision.ranked):
            return decision
        return replace(
            again,
            seed=decision.seed,
            attempt=decision.attempt,
            cut=decision.cut,
            further=decision.further,
            cells_left_out=decision.cells_left_out,
        )

    def diagnosis(self, recorder: RequestRecorder) -> RecordedDiagnosis | None:
        """Say why placement held hosts back, where a failed request asked it.

        What offers hosts where placement had none is out of date.
        """
        if recorder.diagnosis is None and recorder.queries:
            last = recorder.queries[-1]
            failed = isinstance(recorder.error, errors.NoValidHost) or recorder.failing
            if failed and isinstance(last.answer, Candidates):
                found = self._diagnosed(last.query)
                if found and (last.answer.requests or not found.offered):
                    recorder.diagnosis = found
        return recorder.diagnosis

    def _diagnosed(self, query: Query) -> RecordedDiagnosis | None:
        """Return a diagnosis; a defect of one costs no more than that."""
        if self._diagnose is None:
            return None
        try:
            found = self._diagnose(query)
        except Exception:
            if self._logged.begins('diagnosis'):
                LOG.exception('Records have no diagnosis of placement')
            return None
        self._logged.ends('diagnosis')
        return None if found is None else of_json(RecordedDiagnosis, found)

    def cells_left_out(self, recorder: RequestRecorder) -> list[str]:
        """Return the names of the cells that gave no hosts."""
        for turn in reversed(recorder.turns):
            if turn.decision is not None:
                return list(turn.decision.cells_left_out)
        return list(self._left_out())

    def _head(
        self, recorder: RequestRecorder, found: Conclusion, diagnosis: str
    ) -> Head:
        request, context = recorder.request, recorder.context
        decided = next((t.decision for t in recorder.turns if t.decision), None)
        return Head(
            id=recorder.id,
            at=int(recorder.at * 1e6),
            request_id=context.request_id or '',
            global_request_id=context.global_request_id or '',
            project_id=request.if_set('project_id') or context.project_id or '',
            user_id=request.if_set('user_id') or context.user_id or '',
            flavor=flavor_name(request),
            zone=zone_of(request),
            result=found.result,
            blocker=str(found.blocker or ''),
            plugin=found.plugin,
            code=found.code,
            hosts=len(decided.hosts.snapshot) if decided else self._known(),
            candidates=_offered(recorder, decided),
            servers=len(recorder.instance_uuids or ()) or request.num_instances,
            took_us=int(recorder.took_s * 1e6),
            worker=self._worker,
            diagnosis=diagnosis,
        )


def _offered(recorder: RequestRecorder, decided: Decision | None) -> int:
    """Return how many candidates placement offered; -1 if it was not asked."""
    if decided is not None:
        return len(recorder.turns[0].offered)
    if not recorder.queries:
        return -1
    answer = recorder.queries[-1].answer
    return len(answer.requests) if isinstance(answer, Candidates) else 0


def verdict(
    recorder: RequestRecorder, outlines: Mapping[int, Outline] | None = None
) -> Conclusion:
    """Say how a request ended, and what ended it; the code needs outlines."""
    error = recorder.error
    match error:
        case None if not recorder.failing:
            return Conclusion(SCHEDULED)
        case None | errors.NoValidHost():
            return _unschedulable(recorder, outlines or {})
        case CallerGone():
            return Conclusion(ERROR, Blocker.CALLER_GONE)
        case errors.ExtensionFailed():
            return Conclusion(ERROR, Blocker.PLUGIN, error.extension)
        case errors.StoreFailed():
            return Conclusion(ERROR, Blocker.STORE)
        case errors.AllocationUpdateFailed():
            return Conclusion(ERROR, Blocker.CLAIMS)
    return Conclusion(ERROR, Blocker.ERROR)


def _unschedulable(
    recorder: RequestRecorder, outlines: Mapping[int, Outline]
) -> Conclusion:
    if recorder.blocker:
        return Conclusion(UNSCHEDULABLE, recorder.blocker, recorder.plugin)
    last = next((turn for turn in reversed(recorder.turns) if turn.decision), None)
    if last is None or last.decision is None:  # a driver of others
        return Conclusion(UNSCHEDULABLE, Blocker.PLUGIN)
    decision = last.decision
    if not len(decision.hosts):
        code = str(Code.CELL_LEFT_OUT) if decision.cells_left_out else ''
        return Conclusion(UNSCHEDULABLE, Blocker.UNKNOWN_HOSTS, code=code)
    if len(decision.ranked):
        return Conclusion(UNSCHEDULABLE, Blocker.CLAIMS)
    emptied = [s for s in decision.steps if len(s.before) and not len(s.after)]
    if not emptied:
        return Conclusion(UNSCHEDULABLE, Blocker.NAMED_HOST)
    made = outlines.get(id(last))
    step = made.blocking if made is not None else None
    code = step.reasons[0].code if step is not None and step.reasons else ''
    return Conclusion(UNSCHEDULABLE, Blocker.FILTERS, emptied[0].name, code)


def _servers(recorder: RequestRecorder) -> list[RecordedServer]:
    uuids = list(recorder.instance_uuids or ())[:MOST_SERVERS]
    if recorder.answer is None:
        return [RecordedServer(uuid) for uuid in uuids]
    named: Sequence[str | None] = uuids or [None] * len(recorder.answer)
    return [
        RecordedServer(
            uuid,
            selections[0].if_set('service_host'),
            selections[0].if_set('nodename'),
            selections[0].if_set('cell_uuid'),
            [each.if_set('service_host') for each in selections[1:]],
        )
        for uuid, selections in zip(named, recorder.answer[:MOST_SERVERS], strict=False)
    ]


def _asked(query: Query, answer: Candidates | QueryFailed) -> RecordedQuery:
    text = query.encode()
    asked = RecordedQuery(
        query=text if len(text) <= LONGEST_QUERY else '',
        pcpu_fallback=query.fallback is not None,
        limit=query.limit,
    )
    if isinstance(answer, QueryFailed):
        words = error_words(answer.text)[:LONGEST_TEXT]
        return replace(asked, status=answer.status, text=words)
    return replace(
        asked,
        candidates=len(answer.requests),
        cut=answer.cut,
        further=answer.further,
        fallback=answer.fallback,
        copied=answer.copy is not None,
    )


def _claims(recorder: RequestRecorder) -> list[RecordedClaim]:
    """Return the outcomes of claims; the claim of one server has its host."""
    single = [each.wanted[0] for each in recorder.claims if len(each.wanted) == 1]
    hosts = _hosts_of(
        {p for one in single for p in one.candidate['allocations']}, recorder
    )
    found = []
    for claim in recorder.claims:
        host = None
        if len(claim.wanted) == 1:
            providers = claim.wanted[0].candidate['allocations']
            host = next((hosts[uuid] for uuid in providers if uuid in hosts), None)
        found.append(
            RecordedClaim(
                host,
                len(claim.wanted),
                str(claim.outcome),
                claim.text[:LONGEST_CLAIM_TEXT],
                claim.took_s * 1000,
            )
        )
    return found


def _hosts_of(providers: set[str], recorder: RequestRecorder) -> dict[str, str]:
    """Return the hosts whose nodes are among some providers, by uuid of the node."""
    found = {
        selection.if_set('compute_node_uuid'): selection.if_set('service_host')
        for selections in recorder.answer or ()
        for selection in selections
    }
    if providers <= found.keys():
        return found
    attempts = {id(turn.offered): turn for turn in recorder.turns if turn.decision}
    for turn in attempts.values():
        assert turn.decision is not None
        offered = HostTable(turn.decision.hosts.snapshot, turn.offered)
        found |= {
            uuid: name
            for uuid, name in zip(
                offered.uuid.tolist(), offered.host.tolist(), strict=True
            )
            if uuid in providers
        }
    return found


def _error(error: Exception | None) -> RecordedError | None:
    """Return the error without the words of others: they may tell of the request what
    a record must not."""
    if error is None:
        return None
    text = str(error)
    if isinstance(error, errors.ExtensionFailed):
        text = f'{error.extension} failed: {type(error.problem).__name__}'
    elif isinstance(error, errors.InvalidRequest) or not isinstance(
        error, errors.NovaschedError
    ):
        text = ''
    return RecordedError(type(error).__name__, text[:LONGEST_TEXT])


def _whole(
    turn: InstanceDecision, decision: Decision, made: Outline, host_list: str
) -> WholeDecision:
    return WholeDecision(
        index=turn.index,
        attempt=turn.attempt,
        seed=decision.seed,
        cut=decision.cut,
        further=decision.further,
        host_list=host_list,
        hosts=made.hosts,
        candidates=made.candidates,
        left=made.left,
        steps=[_shortened(step) for step in made.steps],
        outcomes=made.outcomes,
        top=made.top,
        totals=made.totals,
        weighers=made.weighers,
        no_effect=made.no_effect,
        decisive=dict(made.decisive),
        numa=list(turn.cells) or None,
        host=turn.host,
    )


def _shortened(step: StepOutline) -> StepOutline:
    """Return a step whose reasons have a bounded length."""
    if all(len(reason.text) <= LONGEST_CLAIM_TEXT for reason in step.reasons):
        return step
    reasons = [r._replace(text=r.text[:LONGEST_CLAIM_TEXT]) for r in step.reasons]
    return replace(step, reasons=reasons)
