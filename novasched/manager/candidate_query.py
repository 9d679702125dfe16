# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: GET /allocation_candidates, and its fallbacks."""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from novasched.cluster.aggregates import AggregateSync
from novasched.objects.context import RequestContext
from novasched.placement_copy import uses_copy
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import Candidate, Candidates, Placement, QueryFailed
from novasched.providers.by_root import CandidatesByRoot
from novasched.releases import NEWEST, Release
from novasched.resources import Query, prefilters
from novasched.resources.features import FEATURES, Features, of_release

LOG = logging.getLogger(__name__)

UNVERIFIED = 'picks of its copy could not be verified'
LAGS = 'its copy does not show all hosts yet'
NO_HOST_LEFT = 'no host of its copy was left'


@dataclass(frozen=True)
class QueryPolicy:
    """What the operator chose about the query for candidates."""

    prefilters: Iterable[prefilters.Prefilter]
    limit: int = 1000  # largest number of candidates
    falls_back: bool = True  # asks for dedicated CPUs as shared ones, too
    looks_further: bool = True  # asks for all if the limited ones do not do
    of_copy: bool = True  # asks a copy of placement first
    features: Features = FEATURES  # of flavors and images that the release knows
    # called with each answer of placement or of its copy
    on_answer: Callable[[Candidates | QueryFailed], None] = lambda answer: None

    @classmethod
    def from_conf(cls, conf: Any, release: Release = NEWEST) -> Self:
        """Read the options, for a release of nova."""
        return cls(
            prefilters.from_conf(conf, release),
            conf.scheduler.max_placement_results,
            not conf.workarounds.disable_fallback_pcpu_query,
            conf.novasched.look_beyond_limit,
            uses_copy(conf),
            of_release(release),
        )


class CandidateSource:
    """Asks a query with its fallback, and what else an empty answer calls for.

    ``unavailable`` returns why placement is waited for, '' if it is not.
    """

    def __init__(
        self,
        placement: Placement,
        aggregate_sync: AggregateSync,
        on_answer: Callable[[Candidates | QueryFailed], None],
        copy: CopyKeeper | None = None,
        unavailable: Callable[[], str] = lambda: '',
    ) -> None:
        self._placement = placement
        self._copy = copy
        self._aggregate_sync = aggregate_sync
        self._on_answer = on_answer
        self._unavailable = unavailable

    def ask(
        self,
        context: RequestContext,
        query: Query,
        fresh: bool = False,
        why_not_copy: str = '',
        is_patient: bool = False,
    ) -> Candidates | QueryFailed:
        """Ask for the query and for its fallback; one answer is enough.

        A copy of placement is asked first, unless ``why_not_copy`` is given; if
        ``fresh``, it is refreshed before. Without candidates, hosts whose aggregates
        placement does not know are logged. While requests wait for placement, a
        request that ``is_patient`` asks nothing: its query would delay them.
        """
        if is_patient and (problem := self._unavailable()):
            return QueryFailed(0, problem, is_unavailable=True)
        copied: Candidates | str = why_not_copy or self._of_copy(query, fresh)
        if isinstance(copied, Candidates):
            answer: Candidates | QueryFailed = copied
        else:
            answer = self._ask(context, query)
            if isinstance(answer, Candidates) and copied:
                answer = replace(answer, fallback=copied)
        if isinstance(answer, Candidates) and not answer.requests:
            wanted = [uuids for group in query.groups for uuids in group.member_of]
            self._aggregate_sync.look(context, frozenset().union(*wanted))
        return answer

    def _of_copy(self, query: Query, fresh: bool) -> Candidates | str:
        """Return the candidates of the copy; else why placement must be asked."""
        if self._copy is None:
            return ''
        answer = self._copy.candidates(query, fresh)
        if isinstance(answer, Candidates):
            self._on_answer(answer)
        return answer

    def _ask(self, context: RequestContext, query: Query) -> Candidates | QueryFailed:
        answer = self._ask_one(context, query)
        if query.fallback is None:
            return answer
        LOG.debug('Requesting fallback allocation candidates with VCPU instead of PCPU')
        more = self._ask_one(context, query.fallback)
        if isinstance(answer, QueryFailed):
            return more
        return answer if isinstance(more, QueryFailed) else _joined(answer, more)

    def _ask_one(
        self, context: RequestContext, query: Query
    ) -> Candidates | QueryFailed:
        answer = self._placement.candidates(context, query.encode())
        if isinstance(answer, Candidates) and query.limit is not None:
            answer = replace(answer, cut=len(answer.requests) >= query.limit)
        self._on_answer(answer)
        return answer


def _joined(first: Candidates, more: Candidates) -> Candidates:
    """Return the candidates of two answers, with the version of the first."""
    return replace(
        first,
        requests=[*_listed(first.requests), *_listed(more.requests)],
        summaries=ChainMap(more.summaries, first.summaries),  # type: ignore[arg-type]
        cut=first.cut or more.cut,
    )


def _listed(requests: Sequence[Candidate] | CandidatesByRoot) -> Sequence[Candidate]:
    """Return candidates one by one, also if a placement in memory gave them."""
    if not isinstance(requests, CandidatesByRoot):
        return requests
    return [each for of_root in requests.values() for each in of_root]
