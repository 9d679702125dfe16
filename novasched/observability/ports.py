# SPDX-License-Identifier: Apache-2.0
"""Placement and the databases, measured; what they answer is news of their health."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.observability import catalogue
from novasched.observability.catalogue import MetricRecorder
from novasched.observability.health import FAIL, Health
from novasched.observability.requests import StageTimer
from novasched.ports import (
    AggregatesMark,
    ApiStore,
    Candidate,
    Candidates,
    Cell,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    Placement,
    QueryFailed,
    ServiceRow,
    ServiceStore,
)
from novasched.scheduler.aggregates import Aggregate


class InstrumentedPlacement:
    """Placement, counted; what it answers says how it is. Satisfies ports.Placement."""

    def __init__(
        self,
        inner: Placement,
        recorder: MetricRecorder,
        stages: StageTimer,
        health: Health,
    ) -> None:
        self._inner = inner
        self._recorder = recorder
        self._stages = stages
        self._health = health

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        with self._stages('Query'):
            answer = self._inner.candidates(context, query)
        if isinstance(answer, QueryFailed):
            self._recorder.count(catalogue.QUERIES, 'failed')
            self._judge(answer.status, answer.text)
            return answer
        self._health.good('placement')
        found = len(answer.requests)
        self._recorder.count(catalogue.QUERIES, 'found' if found else 'none')
        self._recorder.observe(catalogue.CANDIDATES, found)
        return answer

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | None:
        return self._inner.aggregates(context, provider_uuid)

    def _judge(self, status: int, text: str) -> None:
        """What placement answers with its own mouth, it is there to say."""
        if 0 < status < 500 and status not in (401, 403):
            self._health.good('placement')
        else:
            self._health.bad('placement', f'HTTP {status}: {text}' if status else text)

    def claim(
        self,
        context: RequestContext,
        consumer_uuid: str,
        candidate: Candidate,
        version: str,
        project_id: str | None,
        user_id: str | None,
        adds: bool = False,
    ) -> Claimed | ClaimRefused | ClaimUnknown:
        with self._claiming():
            outcome = self._inner.claim(
                context, consumer_uuid, candidate, version, project_id, user_id, adds
            )
        self._count(outcome)
        return outcome

    def claim_all(
        self,
        context: RequestContext,
        wanted: Sequence[ClaimRequest],
        version: str,
        project_id: str | None,
        user_id: str | None,
    ) -> Sequence[Claimed | ClaimUnknown] | ClaimRefused:
        with self._claiming():
            answer = self._inner.claim_all(
                context, wanted, version, project_id, user_id
            )
        for outcome in [answer] if isinstance(answer, ClaimRefused) else answer:
            self._count(outcome)
        return answer

    @contextlib.contextmanager
    def _claiming(self) -> Iterator[None]:
        try:
            with self._stages('Claim'):
                yield
        except errors.NovaschedError:
            self._recorder.count(catalogue.CLAIMS, 'error')
            raise

    def _count(self, outcome: Claimed | ClaimRefused | ClaimUnknown) -> None:
        self._recorder.count(catalogue.CLAIMS, self._result(outcome))

    def _result(self, outcome: Claimed | ClaimRefused | ClaimUnknown) -> str:
        match outcome:
            case Claimed():
                self._health.good('placement')
                return 'claimed'
            case ClaimUnknown():
                self._health.bad('placement', outcome.text)
                return 'unknown'
        self._judge(outcome.status, outcome.text)
        return 'conflict' if outcome.status == 409 else 'refused'

    def undo(
        self,
        context: RequestContext,
        claims: Sequence[Claimed | ClaimUnknown],
        within_s: float,
    ) -> Mapping[str, str]:
        with self._stages('Undo'):
            return self._inner.undo(context, claims, within_s)


@contextlib.contextmanager
def heard(health: Health, name: str) -> Iterator[None]:
    """Take what is done within as news of a component."""
    try:
        yield
    except errors.StoreFailed as problem:
        health.bad(name, str(problem))
        raise
    health.good(name)


class InstrumentedApiStore:
    """The API database. Satisfies ports.ApiStore."""

    def __init__(self, inner: ApiStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def cells(self) -> list[Cell]:
        with heard(self._health, 'api_db'):
            return self._inner.cells()

    def host_cell(self, host: str) -> str | None:
        with heard(self._health, 'api_db'):
            return self._inner.host_cell(host)

    def aggregates(self) -> list[Aggregate]:
        with heard(self._health, 'api_db'):
            return self._inner.aggregates()

    def aggregates_mark(self) -> AggregatesMark:
        with heard(self._health, 'api_db'):
            return self._inner.aggregates_mark()


class InstrumentedServiceStore:
    """The services rows: the heartbeats of this program. Satisfies
    ports.ServiceStore."""

    def __init__(self, inner: ServiceStore, health: Health) -> None:
        self._inner = inner
        self._health = health

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self._inner.register(host, binary, topic, version)
        self._health.service_id = row.uuid
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        with heard(self._health, 'heartbeat'):
            found = self._inner.beat(service_id, report_count)
        if not found:
            self._health.bad('heartbeat', 'the services row is gone', FAIL)
        return found
