# SPDX-License-Identifier: Apache-2.0
"""The query for allocation candidates: how it is made, and how it is answered.

Inputs of prefilters are fetched when one first asks for them. Several questions to
another service are asked at once; each is bounded by the timeout of its adapter.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from novasched import errors
from novasched.claiming.request import ScheduleRequest
from novasched.cluster.view import ClusterView
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.placement_copy import uses_copy
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import Candidate, Candidates, Network, Placement, QueryFailed
from novasched.providers.by_root import CandidatesByRoot
from novasched.releases import NEWEST, Release
from novasched.resources import (
    PrefilterContext,
    Query,
    Requirements,
    build_query,
    prefilters,
    target_of,
)
from novasched.resources.features import FEATURES, Features, of_release
from novasched.resources.request import with_aggregates
from novasched.resources.requirements import NetworkOrSubnet, Port, Reach
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.reasons import Blocker

LOG = logging.getLogger(__name__)

UNVERIFIED = 'picks of its copy could not be verified'
LAGS = 'its copy does not show all hosts yet'
NO_HOST_LEFT = 'no host of its copy was left'


LOOK_AGAIN_S = 60.0
"""How long what was found of an aggregate in placement is used."""
MOST_LOOKS = 8
"""Aggregates that one request may have looked at."""
LOOK_FOR_S = 5.0
"""After which no further one is looked at: a request waits for it."""
WIDTH = 8
"""How many questions of one request are under way at once."""

Key = TypeVar('Key')
Answer = TypeVar('Answer')


@dataclass(frozen=True)
class QueryPolicy:
    """What the operator chose about the query for candidates."""

    prefilters: Iterable[prefilters.Prefilter] = ()
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


@dataclass(eq=False)
class AggregateSync:
    """Warns once of each aggregate that placement lacks, until it is mended.

    When an aggregate changes, nova copies its hosts to placement. If that failed,
    placement offers no host for requests for the aggregate. One host of it is checked,
    so the cost does not grow with its hosts. Threads may share it.
    """

    view: ClusterView
    placement: Placement
    clock: Clock = SYSTEM_CLOCK
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _look_at: dict[str, float] = field(default_factory=dict)
    _warned: LogOnce = field(default_factory=LogOnce)

    def look(self, context: RequestContext, uuids: Collection[str]) -> None:
        """Check the aggregates of these that are due, and warn."""
        known = self.view.aggregates.all() if uuids else []
        asked_for = {a.uuid: a for a in known if a.uuid and a.uuid in uuids and a.hosts}
        now = self.clock.monotonic()
        with self._lock:
            due = [uuid for uuid in asked_for if self._look_at.get(uuid, now) <= now]
            due = due[:MOST_LOOKS]
            self._look_at.update(dict.fromkeys(due, now + LOOK_AGAIN_S))
        for uuid in due:
            if self.clock.monotonic() < now + LOOK_FOR_S:
                self._look(context, uuid, asked_for[uuid])

    def _look(self, context: RequestContext, uuid: str, aggregate: Aggregate) -> None:
        host, node_uuid = self._node_of(aggregate)
        if node_uuid is None:
            return
        known = self.placement.aggregates(context, node_uuid)
        if isinstance(known, QueryFailed):
            return
        if uuid in known:
            self._warned.ends(uuid)
        elif self._warned.begins(uuid):
            LOG.warning(
                'Placement does not know that host %s is in aggregate %s (%s), and '
                'finds no host for requests that ask for the aggregate; mend it with: '
                'nova-manage placement sync_aggregates',
                host,
                aggregate.name,
                uuid,
            )

    def _node_of(self, aggregate: Aggregate) -> tuple[str, str | None]:
        """Return a host of an aggregate and the uuid of its node, if one is known."""
        try:
            for host in sorted(aggregate.hosts)[:MOST_LOOKS]:
                for _, _, uuid in self.view.nodes_named(host, None):
                    return host, uuid
        except errors.StoreFailed as problem:
            LOG.debug('The hosts of %s are not known: %s', aggregate.name, problem)
        return '', None


class CandidateQueries:
    """Makes the query of each request, and has it answered; threads may share it.

    ``unavailable`` returns why placement is waited for, '' if it is not.
    """

    def __init__(
        self,
        view: ClusterView,
        placement: Placement,
        network: Network,
        policy: QueryPolicy = QueryPolicy(),
        copy: CopyKeeper | None = None,
        unavailable: Callable[[], str] = lambda: '',
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._view = view
        self._placement = placement
        self._network = network
        self._policy = policy
        self._copy = copy if policy.of_copy else None
        self._unavailable = unavailable
        self._clock = clock
        self._aggregate_sync = AggregateSync(view, placement, clock)

    def make(
        self, request: ScheduleRequest
    ) -> tuple[RequestSpec, Query, list[str] | None]:
        """Return a request as filters see it, its query, and the nodes that it names.

        Placement is not asked. Raises errors.NoValidHost, and any other
        errors.RequestError.
        """
        added = self._prefilter(request)
        spec, nodes = self._named_nodes(request)
        policy = self._policy
        query = build_query(
            spec, added, nodes, policy.limit, policy.falls_back, policy.features
        )
        _log(logging.WARNING, query.warnings)
        _log(logging.INFO, query.notes)
        return with_aggregates(spec, added), query, nodes

    def _prefilter(self, request: ScheduleRequest) -> Requirements:
        """Run the prefilters; raises errors.NoValidHost where one refuses."""
        recorder, attempt = request.recorder, request.attempt
        inputs = self.inputs(request.context, request.spec, attempt.note_unavailable)
        with recorder.stage('prefilter'):
            added = prefilters.run(
                self._policy.prefilters,
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
            attempt.offered = Candidates((), '')
            raise errors.NoValidHost(f'Scheduling failed: {added.refused}')
        return added

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
        nodes = self._view.nodes_named(target.host, target.node, spec.target_cell_uuid)
        destination = spec.requested_destination
        if len(nodes) == 1 and destination is not None:
            host, node, _ = nodes[0]
            named = destination.replaced(host=host, node=node)
            spec = spec.replaced(requested_destination=named)
        return spec, [uuid for _, _, uuid in nodes]

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
            self._policy.on_answer(answer)
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
        self._policy.on_answer(answer)
        return answer

    def inputs(
        self,
        context: RequestContext,
        request: RequestSpec,
        missed: Callable[[str, str, int], object] = lambda service, problem, status: 0,
    ) -> PrefilterContext:
        """Return the inputs of prefilters; no other service is asked yet.

        If an unavailable service leaves a prefilter without its input, ``missed`` is
        called with the service, its problem and the status of its answer.
        """
        return PrefilterContext(
            aggregates=_Aggregates(self._view),
            minimum_compute_version=self._view.minimum_compute_version(),
            required_traits=lambda: _required_traits(request, self._policy.features),
            ports=functools.cache(lambda: self._ports(context, request)),
            reach=functools.partial(self._reach, context, missed),
        )

    def _ports(
        self, context: RequestContext, request: RequestSpec
    ) -> Mapping[str, Port]:
        """Ask for every port of the request; the first that fails is raised."""
        ids = [network.port_id for network in request.requested_networks]
        ask = functools.partial(self._network.port, context)
        return _each(context, ask, filter(None, ids))

    def _reach(
        self,
        context: RequestContext,
        missed: Callable[[str, str, int], object],
        places: Iterable[NetworkOrSubnet],
    ) -> Reach:
        """Ask for the segments of each place, and for the aggregates of each."""

        def segments_of(place: NetworkOrSubnet) -> frozenset[str] | None:
            try:
                return self._network.segments(context, place)
            except errors.NetworkFailed as error:
                LOG.warning('%s', error)
                if error.unavailable:
                    missed(error.unavailable, str(error), 0)
                return None

        def aggregates_of(segment: str) -> frozenset[str]:
            answer = self._placement.aggregates(context, segment)
            if not isinstance(answer, QueryFailed):
                return answer
            if answer.is_unavailable:
                missed(PLACEMENT, answer.text, answer.status)
            return frozenset()

        segments = _each(context, segments_of, places)
        all_ids = sorted(set().union(*filter(None, segments.values())))
        aggregates = _each(context, aggregates_of, all_ids)
        return {place: _union(ids, aggregates) for place, ids in segments.items()}


class _Aggregates:
    """The aggregates, looked at in the database when a prefilter first wants them."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    def __iter__(self) -> Iterator[Aggregate]:
        return iter(self._found)

    @functools.cached_property
    def _found(self) -> list[Aggregate]:
        return self._view.current_aggregates()


def _required_traits(request: RequestSpec, features: Features) -> frozenset[str]:
    query = build_query(request, Requirements(), None, None, features=features)
    return frozenset().union(*(group.required for group in query.groups))


def _union(
    segments: Iterable[str] | None, aggregates: Mapping[str, frozenset[str]]
) -> frozenset[str] | None:
    """Return the aggregates of all segments; None if one has none."""
    if segments is None:
        return None
    found = [aggregates[segment] for segment in segments]
    return frozenset().union(*found) if all(found) else None


def _each(
    context: RequestContext, ask: Callable[[Key], Answer], keys: Iterable[Key]
) -> dict[Key, Answer]:
    """Ask for each key, all at once; raise the first problem in their order.

    Log lines show the request, as they do in the thread that serves it.
    """
    distinct = list(dict.fromkeys(keys))
    if len(distinct) < 2:
        return {key: ask(key) for key in distinct}
    width = min(len(distinct), WIDTH)
    with ThreadPoolExecutor(width, initializer=context.update_store) as pool:
        return dict(zip(distinct, pool.map(ask, distinct), strict=True))


def _log(level: int, lines: Iterable[str]) -> None:
    for line in lines:
        LOG.log(level, line)


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
