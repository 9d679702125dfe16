# SPDX-License-Identifier: Apache-2.0
"""The attempts to serve a request: the outer one of the two loops that decide again.

It waits for services that are unavailable, and asks for candidates once more if those
of an answer were cut or stale. drivers/filter_scheduler.py has the inner loop.
"""

from __future__ import annotations

import contextlib
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
from novasched.runtime.clock import Clock
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
        journal: Journal | None,
        clock: Clock,
        mirror: CopyKeeper | None,
        outages: Outages,
    ) -> None:
        self.driver = driver
        self._view = view
        self._placement = placement
        self._notifier = notifier
        self._journal = journal
        self._clock = clock
        self._outages = outages
        self._query_policy = query_policy
        self._candidate_source = CandidateSource(
            placement,
            AggregateSync(view, placement),
            query_policy.on_cut,
            mirror if query_policy.of_copy else None,
            lambda: outages.waited_for(PLACEMENT),
        )
        self._mirror = mirror
        self._new_nodes = NewNodes(mirror, view.node_uuids, clock)
        self._prefilter_contexts = PrefilterContexts(
            view, placement, network, query_policy.features
        )

    def select(
        self, work: ScheduleRequest, return_objects: bool
    ) -> Selected | HandedToSuccessor:
        """Place the instances. If a service is unavailable, wait for it as long as the
        caller waits."""
        waiting = OutageRetry(
            self._outages, work, self._placement, self._view, self._clock
        )
        return waiting.run(functools.partial(self._attempt, work, return_objects))

    def _attempt(
        self, work: ScheduleRequest, return_objects: bool, attempt: RequestAttempt
    ) -> Selected:
        stage = work.recorder.stage
        freshness = ViewFreshness.at_arrival(self._view, stage, self._clock)
        return self._selected(
            replace(work, attempt=attempt, freshness=freshness), return_objects
        )

    def _selected(self, work: ScheduleRequest, return_objects: bool) -> Selected:
        """Place the instances, if need be on hosts that the first answer had not."""
        request, query, candidates = self._candidates(work)
        work = replace(
            work,
            request=request,
            candidates=candidates,
            copy_lags=self._new_nodes.are_missing,
        )
        if not work.attempt.was_announced:
            work.attempt.was_announced = True
            with work.recorder.stage('notify'):
                self._notifier.select_destinations(work.context, request, 'start')
        while True:
            work.attempt.budget.renew(Scope.CANDIDATES)
            work = self._with_claims(work)
            try:
                return self._place(work, return_objects)
            except errors.NoValidHost:
                more = self._once_more(work, query)
                if more is None:
                    if work.attempt.failed_query is not None:
                        work.attempt.offers(work.attempt.failed_query)
                    raise
            work = replace(work, candidates=more, copy_lags=lambda: False)

    def _once_more(
        self, work: ScheduleRequest, query: Query | None
    ) -> Candidates | None:
        """Return candidates for another decision, or None if it would not help.

        They are new ones, or the same if this request has not refreshed the cells yet.
        """
        budget, may_be_old = work.attempt.budget, not work.freshness.is_current
        happened = budget.within(Scope.CANDIDATES)
        if happened[Outcome.UNKNOWN] or budget.is_over(Outcome.GROUP_BROKEN):
            return None
        is_over = happened[Outcome.UNVERIFIED] or happened[Outcome.UNREACHABLE]
        is_over = is_over or budget.is_over(Outcome.UNAVAILABLE)
        more = self._asked_again(work, query)
        if (
            more is None
            and may_be_old
            and not is_over
            and work.freshness.refresh_if_stale()
        ):
            budget.spend(Outcome.STALE_HOSTS)
            return work.candidates
        return more

    def _place(self, work: ScheduleRequest, return_objects: bool) -> Selected:
        """Run the driver. Any later failure rolls the claims back."""
        with work.claims or contextlib.nullcontext():
            placed = self.driver.select_destinations(work)
            if work.claims is not None:
                work.claims.check_caller()
            with work.recorder.stage('notify'):
                self._notifier.select_destinations(work.context, placed.request, 'end')
            return placed.selections, _answer(placed, return_objects)

    def _see_hosts(self, work: ScheduleRequest) -> None:
        """Use known host state if the driver verifies its picks; otherwise refresh."""
        cell_uuid = work.request.target_cell_uuid
        enabled = self._view.cells.enabled
        in_enabled = cell_uuid is None or any(c.uuid == cell_uuid for c in enabled())
        is_verified = self.driver.VERIFIES_HOSTS and work.instance_uuids is not None
        if is_verified and in_enabled:
            work.freshness.use_cached()
        else:
            work.freshness.refresh_if_stale()

    def _candidates(
        self, work: ScheduleRequest
    ) -> tuple[RequestSpec, Query | None, Candidates | None]:
        """Ask placement; a rebuild does not, nor a driver that does without.

        The request comes back with the node that it names. The cells are looked at
        once, as late as can be.
        """
        request, recorder = work.request, work.recorder
        if request.is_rebuild or not self.driver.USES_ALLOCATION_CANDIDATES:
            work.freshness.refresh_if_stale()
            return request, None, None
        request, query, nodes, added = self._query(work)
        if nodes == []:
            recorder.blocked(Blocker.NAMED_HOST)
            raise errors.NoValidHost(not_found(request))
        with recorder.stage('query'):
            is_patient = work.attempt.retries_rollback and not work.attempt.is_admitted
            answer = work.attempt.adopted or self._candidate_source.ask(
                work.context, query, is_patient=is_patient
            )
        recorder.asked(query, answer)
        work.attempt.offers(answer)
        if isinstance(answer, QueryFailed) or not answer.requests:
            failed = isinstance(answer, QueryFailed)
            recorder.blocked(
                Blocker.PLACEMENT_FAILED if failed else Blocker.NO_CANDIDATES
            )
            LOG.log(
                logging.DEBUG if work.attempt.is_waited_for else logging.INFO,
                'Got no allocation candidates from the Placement API. This could be '
                'due to insufficient resources or a temporary occurrence as compute '
                'nodes start up.',
            )
            raise errors.NoValidHost('')
        if nodes is None:
            self._see_hosts(work)
        return with_aggregates(request, added), query, answer

    def _query(
        self, work: ScheduleRequest
    ) -> tuple[RequestSpec, Query, list[str] | None, Requirements]:
        """Return the query of a request, the nodes that it names, and what prefilters
        add; the request comes back with the node that it names."""
        added = self._prefilter(work)
        request, nodes = self._named_nodes(work)
        query = build_query(
            request,
            added,
            nodes,
            self._query_policy.limit,
            self._query_policy.falls_back,
            self._query_policy.features,
        )
        _log(logging.WARNING, query.warnings)
        _log(logging.INFO, query.notes)
        return request, query, nodes, added

    def query(
        self, context: RequestContext, request: RequestSpec
    ) -> tuple[RequestSpec, Query]:
        """Return a request as filters see it, and its query to placement, which is not
        asked. Raises errors.NoValidHost, and any other errors.RequestError."""
        freshness = ViewFreshness(self._view)
        work = ScheduleRequest(
            context, request, None, None, None, False, freshness=freshness
        )
        request, query, _, added = self._query(work)
        return with_aggregates(request, added), query

    def _prefilter(self, work: ScheduleRequest) -> Requirements:
        """Run the prefilters; raises errors.NoValidHost where one refuses."""
        inputs = self._prefilter_contexts.of(
            work.context, work.request, work.attempt.note_unavailable
        )
        with work.recorder.stage('prefilter'):
            added = prefilters.run(
                self._query_policy.prefilters,
                work.request,
                inputs,
                self._clock.monotonic,
            )
        work.recorder.prefiltered(work.request, added)
        _log(logging.DEBUG, added.notes)
        _log(logging.WARNING, added.warnings)
        _log(logging.ERROR, added.failures)
        if added.refused is not None:
            work.recorder.blocked(Blocker.PREFILTER, added.refused_by)
            work.attempt.offered = NO_CANDIDATES
            raise errors.NoValidHost(f'Scheduling failed: {added.refused}')
        return added

    def _asked_again(
        self, work: ScheduleRequest, query: Query | None
    ) -> Candidates | None:
        """Ask for all candidates if a limit or a stale copy may have hidden hosts.

        Placement is queried if its copy lags or cannot be verified. Candidates for
        which requests compete may be gone by now. Returns None if there are no others,
        or if it was not the filters that took all.
        """
        known = work.candidates
        if query is None or known is None:
            return None
        why = self._why_others(known, work.attempt.budget)
        if why is Outcome.COPY_LAGS:
            LOG.info('Asking placement for hosts that its copy does not show yet.')
            return self._asked(work, query, why_not_copy=LAGS) or known
        if why in (Outcome.UNVERIFIED, Outcome.OVER_CAPACITY):
            is_bad = why is Outcome.UNVERIFIED or known.fallback == UNVERIFIED
            return self._asked(work, query, True, UNVERIFIED if is_bad else '')
        if why is None or not work.attempt.budget.spend(why):
            return None
        LOG.info(ASKED_AGAIN[why], len(known.requests))
        is_stale = why is Outcome.STALE
        if is_stale and self._mirror and not self._mirror.store.reads_fast:
            return self._asked(work, query, why_not_copy=NO_HOST_LEFT)
        everything = query.without_limit()
        is_chosen = known.fallback in (UNVERIFIED, LAGS, NO_HOST_LEFT)
        why_not_copy = known.fallback if is_chosen else ''
        answer = self._asked(work, everything, is_stale, why_not_copy)
        if answer is None or not _has_others(answer, known):
            return None
        return replace(answer, further=True)

    def _why_others(self, known: Candidates, budget: RetryBudget) -> Outcome | None:
        """Return why other candidates may do where these would not."""
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

    def _asked(
        self,
        work: ScheduleRequest,
        query: Query,
        fresh: bool = False,
        why_not_copy: str = '',
    ) -> Candidates | None:
        """Ask for candidates, then refresh all cells; return None if the query fails.

        Raises errors.NoValidHost where there are none.
        """
        with work.recorder.stage('query'):
            answer = self._candidate_source.ask(
                work.context, query, fresh, why_not_copy
            )
        work.recorder.asked(query, answer)
        if isinstance(answer, QueryFailed):
            work.attempt.failed_query = answer
            return None
        work.attempt.offers(answer)
        if not answer.requests:
            work.recorder.blocked(Blocker.NO_CANDIDATES)
            raise errors.NoValidHost('')
        work.freshness.refresh()
        return answer

    def _with_claims(self, work: ScheduleRequest) -> ScheduleRequest:
        """Add what holds the claims together, or nothing if none are made."""
        if work.instance_uuids is None or work.candidates is None:
            return work
        remaining = RemainingCapacity(work.candidates.summaries)
        version = work.candidates.version
        claim_journal = ClaimJournal(self._journal, work.caller)
        claims = Claims(
            self._placement,
            work.context,
            version,
            remaining,
            claim_journal=claim_journal,
            recorder=work.recorder,
            verifier=work.candidates.verifier,
            may_be_stale=not work.candidates.further,
            freshness=work.freshness,
            attempt=work.attempt,
        )
        return replace(work, claims=claims)

    def _named_nodes(
        self, work: ScheduleRequest
    ) -> tuple[RequestSpec, list[str] | None]:
        """Look up the host or node that the request names, if it names one.

        A single node found becomes the whole of the requested destination.
        """
        request = work.request
        target = target_of(request)
        if target is None:
            return request, None
        work.freshness.refresh_if_stale()
        nodes = self._view.nodes_named(
            target.host, target.node, request.target_cell_uuid
        )
        destination = request.requested_destination
        if len(nodes) == 1 and destination is not None:
            host, node, _ = nodes[0]
            found = destination.replaced(host=host, node=node)
            request = request.replaced(requested_destination=found)
        return request, [uuid for _, _, uuid in nodes]


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
