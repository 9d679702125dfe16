# SPDX-License-Identifier: Apache-2.0
"""The attempts to serve a request: the outer one of the two loops that decide again.

It waits for services that are unavailable, and asks for candidates once more if those
of an answer were cut or stale. drivers/filter_scheduler.py has the inner loop.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from novasched import errors
from novasched.claiming.attempt import RequestAttempt
from novasched.claiming.claim_journal import ClaimJournal
from novasched.claiming.claims import Claims
from novasched.claiming.host_candidates import RemainingCapacity
from novasched.claiming.outage_retry import HandedToSuccessor, OutageRetry
from novasched.claiming.request import ScheduleRequest
from novasched.claiming.retries import RetryBudget, Scope
from novasched.cluster.aggregates import AggregateSync
from novasched.cluster.freshness import ViewFreshness
from novasched.cluster.view import ClusterView
from novasched.drivers import Driver, ScheduleResult
from novasched.manager.candidate_query import (
    LAGS,
    NO_HOST_LEFT,
    UNVERIFIED,
    CandidateSource,
    QueryPolicy,
)
from novasched.manager.prefilter_context import PrefilterContexts
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.outages import PLACEMENT, Outages
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.new_nodes import NewNodes
from novasched.ports import (
    Candidates,
    Journal,
    Network,
    Notifier,
    Placement,
    QueryFailed,
)
from novasched.resources import (
    Query,
    Requirements,
    build_query,
    not_found,
    prefilters,
    target_of,
)
from novasched.resources.request import with_aggregates
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.reasons import Blocker

LOG = logging.getLogger(__name__)

NO_CANDIDATES = Candidates((), '')
REFUSALS = (
    Outcome.CONFLICT,
    Outcome.REFUSED,
    Outcome.UNAVAILABLE,
    Outcome.UNREACHABLE,
)
"""Claims that placement has not taken."""
ASKED_AGAIN = {
    Outcome.STALE: 'No host left after filtering %d allocation candidates of the copy '
    'of placement; retrying once it is up to date.',
    Outcome.INCOMPLETE: 'No host left after filtering the first %d allocation '
    'candidates (limit reached); retrying without the limit.',
}
Answer = list[list[Selection]] | list[dict[str, Any]]
"""Per instance its selections, or the selected host as a dict."""
Selected = tuple[list[list[Selection]], Answer]
"""The selections, and the form of them that the caller wants."""


class RequestAttempts:
    """Serves requests by a driver, in as many attempts as it takes."""

    def __init__(
        self,
        driver: Driver,
        view: ClusterView,
        placement: Placement,
        notifier: Notifier,
        query_policy: QueryPolicy,
        network: Network,
        journal: Journal | None = None,
        clock: Clock = SYSTEM_CLOCK,
        copy: CopyKeeper | None = None,
        outages: Outages | None = None,
    ) -> None:
        self.driver = driver
        self.view = view
        self.copy = copy
        self._placement = placement
        self._notifier = notifier
        self._journal = journal
        self._clock = clock
        self._outages = outages = outages or Outages()
        self._query_policy = query_policy
        self._candidate_source = CandidateSource(
            placement,
            AggregateSync(view, placement),
            query_policy.on_answer,
            copy if query_policy.of_copy else None,
            lambda: outages.waited_for(PLACEMENT),
        )
        self._new_nodes = NewNodes(copy, view.node_uuids, clock)
        self._prefilter_contexts = PrefilterContexts(
            view, placement, network, query_policy.features
        )

    def select(
        self, request: ScheduleRequest, return_objects: bool
    ) -> Selected | HandedToSuccessor:
        """Place the instances. If a service is unavailable, wait for it as long as the
        caller waits."""
        waiting = OutageRetry(
            self._outages, request, self._placement, self.view, self._clock
        )
        return waiting.run(functools.partial(self._attempt, request, return_objects))

    def _attempt(
        self, request: ScheduleRequest, return_objects: bool, attempt: RequestAttempt
    ) -> Selected:
        clock, stage = self._clock, request.recorder.stage
        freshness = ViewFreshness(self.view, clock.monotonic(), stage, clock)
        request = replace(request, attempt=attempt, freshness=freshness)
        if self.driver.USES_ALLOCATION_CANDIDATES and not request.spec.is_rebuild:
            return self._selected(request, return_objects)
        freshness.refresh_if_stale()
        self._announce(request)
        return self._place(request, return_objects)

    def _selected(self, request: ScheduleRequest, return_objects: bool) -> Selected:
        """Place the instances, if need be on hosts that the first answer had not."""
        request, query = self._with_candidates(request)
        self._announce(request)
        while True:
            request.budget.renew(Scope.CANDIDATES)
            try:
                return self._place(self._with_claims(request), return_objects)
            except errors.NoValidHost:
                more = self._once_more(request, query)
                if more is None:
                    if request.attempt.failed_query is not None:
                        request.attempt.offers(request.attempt.failed_query)
                    raise
            request = replace(request, candidates=more, copy_lags=lambda: False)

    def _announce(self, request: ScheduleRequest) -> None:
        """Notify that the request starts, in its first attempt."""
        if request.attempt.was_announced:
            return
        request.attempt.was_announced = True
        with request.recorder.stage('notify'):
            self._notifier.select_destinations(request.context, request.spec, 'start')

    def _once_more(self, request: ScheduleRequest, query: Query) -> Candidates | None:
        """Return candidates for another decision, or None if it would not help.

        They are new ones, or the same if this request has not refreshed the cells yet.
        """
        budget, may_be_old = request.budget, not request.freshness.is_current
        happened = budget.within(Scope.CANDIDATES)
        if happened[Outcome.UNKNOWN] or budget.is_over(Outcome.GROUP_BROKEN):
            return None
        ends = happened[Outcome.UNVERIFIED] or happened[Outcome.UNREACHABLE]
        may_refresh = not (ends or budget.is_over(Outcome.UNAVAILABLE))
        why = self._why_others(request.candidates, budget)
        more = None if why is None else self._asked_again(request, query, why)
        may_refresh = may_refresh and may_be_old and more is None
        if may_refresh and request.freshness.refresh_if_stale():
            why, more = Outcome.STALE_HOSTS, request.candidates
            budget.spend(why)
        if why is not None and more is not None:
            budget.decide_again(why)
        return more

    def _place(self, request: ScheduleRequest, return_objects: bool) -> Selected:
        """Run the driver. Any later failure rolls the claims back."""
        with request.claiming():
            placed = self.driver.select_destinations(request)
            request.check_caller()
            with request.recorder.stage('notify'):
                self._notifier.select_destinations(
                    request.context, placed.request, 'end'
                )
            return placed.selections, _answer(placed, return_objects)

    def _see_hosts(self, request: ScheduleRequest) -> None:
        """Use known host state if the driver verifies its picks; otherwise refresh."""
        cell_uuid = request.spec.target_cell_uuid
        enabled = self.view.cells.enabled
        in_enabled = cell_uuid is None or any(c.uuid == cell_uuid for c in enabled())
        is_verified = self.driver.VERIFIES_HOSTS and request.names_instances
        if is_verified and in_enabled:
            request.freshness.use_cached()
        else:
            request.freshness.refresh_if_stale()

    def _with_candidates(
        self, request: ScheduleRequest
    ) -> tuple[ScheduleRequest, Query]:
        """Ask for candidates; return the query, and the request with the node that it
        names.

        The cells are looked at once, as late as can be.
        """
        attempt, recorder = request.attempt, request.recorder
        spec, query, nodes, added = self._query(request)
        if nodes == []:
            recorder.blocked(Blocker.NAMED_HOST)
            raise errors.NoValidHost(not_found(spec))
        answer: Candidates | QueryFailed | None = attempt.adopted
        if answer is None:
            is_patient = attempt.retries_rollback and not attempt.is_admitted
            with recorder.stage('query'):
                answer = self._candidate_source.ask(
                    request.context, query, is_patient=is_patient
                )
        recorder.asked(query, answer)
        attempt.offers(answer)
        if isinstance(answer, QueryFailed) or not answer.requests:
            failed = isinstance(answer, QueryFailed)
            recorder.blocked(
                Blocker.PLACEMENT_FAILED if failed else Blocker.NO_CANDIDATES
            )
            LOG.log(
                logging.DEBUG if attempt.is_waited_for else logging.INFO,
                'Got no allocation candidates from the Placement API. This could be '
                'due to insufficient resources or a temporary occurrence as compute '
                'nodes start up.',
            )
            raise errors.NoValidHost('')
        if nodes is None:
            self._see_hosts(request)
        spec, lags = with_aggregates(spec, added), self._new_nodes.are_missing
        return replace(request, spec=spec, candidates=answer, copy_lags=lags), query

    def _query(
        self, request: ScheduleRequest
    ) -> tuple[RequestSpec, Query, list[str] | None, Requirements]:
        """Return the query of a request, the nodes that it names, and what prefilters
        add; the request comes back with the node that it names."""
        added = self._prefilter(request)
        spec, nodes = self._named_nodes(request)
        query = build_query(
            spec,
            added,
            nodes,
            self._query_policy.limit,
            self._query_policy.falls_back,
            self._query_policy.features,
        )
        _log(logging.WARNING, query.warnings)
        _log(logging.INFO, query.notes)
        return spec, query, nodes, added

    def query(
        self, context: RequestContext, spec: RequestSpec
    ) -> tuple[RequestSpec, Query]:
        """Return a request as filters see it, and its query to placement, which is not
        asked. Raises errors.NoValidHost, and any other errors.RequestError."""
        request = ScheduleRequest(context, spec, freshness=ViewFreshness(self.view))
        spec, query, _, added = self._query(request)
        return with_aggregates(spec, added), query

    def _prefilter(self, request: ScheduleRequest) -> Requirements:
        """Run the prefilters; raises errors.NoValidHost where one refuses."""
        recorder, attempt = request.recorder, request.attempt
        inputs = self._prefilter_contexts.of(
            request.context, request.spec, attempt.note_unavailable
        )
        with recorder.stage('prefilter'):
            added = prefilters.run(
                self._query_policy.prefilters,
                request.spec,
                inputs,
                self._clock.monotonic,
            )
        recorder.prefiltered(request.spec, added)
        _log(logging.DEBUG, added.notes)
        _log(logging.WARNING, added.warnings)
        _log(logging.ERROR, added.failures)
        if added.refused is not None:
            recorder.blocked(Blocker.PREFILTER, added.refused_by)
            attempt.offered = NO_CANDIDATES
            raise errors.NoValidHost(f'Scheduling failed: {added.refused}')
        return added

    def _why_others(self, known: Candidates, budget: RetryBudget) -> Outcome | None:
        """Return why other candidates may do where these would not.

        None if it was not the filters that took all. Candidates for which requests
        compete may be gone by now.
        """
        happened = budget.within(Scope.CANDIDATES)
        for outcome in (Outcome.UNVERIFIED, Outcome.OVER_CAPACITY, Outcome.COPY_LAGS):
            if happened[outcome]:
                return None if budget.is_over(outcome) else outcome
        if known.further:
            return None
        if known.copy is not None:
            return Outcome.STALE
        is_refused = any(happened[outcome] for outcome in REFUSALS)
        may_have_more = known.cut and self._query_policy.looks_further
        return Outcome.INCOMPLETE if may_have_more and not is_refused else None

    def _asked_again(
        self, request: ScheduleRequest, query: Query, why: Outcome
    ) -> Candidates | None:
        """Ask for other candidates, of placement if its copy lags or cannot be
        verified; return None if there are no others."""
        known = request.candidates
        if why is Outcome.COPY_LAGS:
            LOG.info('Asking placement for hosts that its copy does not show yet.')
            return self._asked(request, query, why_not_copy=LAGS) or known
        if why in (Outcome.UNVERIFIED, Outcome.OVER_CAPACITY):
            is_bad = why is Outcome.UNVERIFIED or known.fallback == UNVERIFIED
            return self._asked(request, query, True, UNVERIFIED if is_bad else '')
        return self._asked_for_all(request, query, why)

    def _asked_for_all(
        self, request: ScheduleRequest, query: Query, why: Outcome
    ) -> Candidates | None:
        """Ask for all candidates if a limit or a stale copy may have hidden hosts;
        return None if there are no others."""
        known = request.candidates
        if not request.budget.spend(why):
            return None
        LOG.info(ASKED_AGAIN[why], len(known.requests))
        is_stale = why is Outcome.STALE
        if is_stale and self.copy and not self.copy.store.reads_fast:
            return self._asked(request, query, why_not_copy=NO_HOST_LEFT)
        is_chosen = known.fallback in (UNVERIFIED, LAGS, NO_HOST_LEFT)
        why_not_copy = known.fallback if is_chosen else ''
        answer = self._asked(request, query.without_limit(), is_stale, why_not_copy)
        if answer is None or not _has_others(answer, known):
            return None
        return replace(answer, further=True)

    def _asked(
        self,
        request: ScheduleRequest,
        query: Query,
        fresh: bool = False,
        why_not_copy: str = '',
    ) -> Candidates | None:
        """Ask for candidates, then refresh all cells; return None if the query fails.

        Raises errors.NoValidHost where there are none.
        """
        with request.recorder.stage('query'):
            answer = self._candidate_source.ask(
                request.context, query, fresh, why_not_copy
            )
        request.recorder.asked(query, answer)
        if isinstance(answer, QueryFailed):
            request.attempt.failed_query = answer
            return None
        request.attempt.offers(answer)
        if not answer.requests:
            request.recorder.blocked(Blocker.NO_CANDIDATES)
            raise errors.NoValidHost('')
        request.freshness.refresh()
        return answer

    def _with_claims(self, request: ScheduleRequest) -> ScheduleRequest:
        """Add what holds the claims together, if its instances are named."""
        if not request.names_instances:
            return request
        candidates = request.candidates
        claims = Claims(
            self._placement,
            request.context,
            candidates.version,
            RemainingCapacity(candidates.summaries),
            claim_journal=ClaimJournal(self._journal, request.caller),
            recorder=request.recorder,
            verifier=candidates.verifier,
            may_be_stale=not candidates.further,
            freshness=request.freshness,
            attempt=request.attempt,
        )
        return request.claimed_by(claims)

    def _named_nodes(
        self, request: ScheduleRequest
    ) -> tuple[RequestSpec, list[str] | None]:
        """Look up the host or node that the request names, if it names one.

        A single node found becomes the whole of the requested destination.
        """
        spec = request.spec
        target = target_of(spec)
        if target is None:
            return spec, None
        request.freshness.refresh_if_stale()
        nodes = self.view.nodes_named(target.host, target.node, spec.target_cell_uuid)
        destination = spec.requested_destination
        if len(nodes) == 1 and destination is not None:
            host, node, _ = nodes[0]
            named = destination.replaced(host=host, node=node)
            spec = spec.replaced(requested_destination=named)
        return spec, [uuid for _, _, uuid in nodes]


def _has_others(answer: Candidates, known: Candidates) -> bool:
    """Return whether there are others in an answer than in the one before."""
    if known.copy is None:
        return len(answer.requests) > len(known.requests)
    return known.cut or answer.copy is None or answer.copy != known.copy


def _answer(placed: ScheduleResult, return_objects: bool) -> Answer:
    if return_objects:
        return placed.selections
    return [selections[0].to_dict() for selections in placed.selections]


def _log(level: int, lines: Iterable[str]) -> None:
    for line in lines:
        LOG.log(level, line)
