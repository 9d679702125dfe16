# SPDX-License-Identifier: Apache-2.0
"""The inputs of prefilters, fetched when one first asks for them.

What takes several questions to another service asks them at once; each is bounded
by the timeout of its adapter.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from novasched import errors
from novasched.cluster.view import ClusterView
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.ports import Network, Placement, QueryFailed
from novasched.resources import PrefilterContext, Requirements, build_query
from novasched.resources.features import FEATURES, Features
from novasched.resources.requirements import NetworkOrSubnet, Port, Reach
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

WIDTH = 8
"""How many questions of one request are under way at once."""

Key = TypeVar('Key')
Answer = TypeVar('Answer')


class PrefilterContexts:
    """Makes the prefilter context of each request; threads may share it."""

    def __init__(
        self,
        view: ClusterView,
        placement: Placement,
        network: Network,
        features: Features = FEATURES,
    ) -> None:
        self._view = view
        self._placement = placement
        self._network = network
        self._features = features

    def of(
        self,
        context: RequestContext,
        request: RequestSpec,
        missed: Callable[[str, str, int], object] = lambda service, problem, status: 0,
    ) -> PrefilterContext:
        """Return the context of a request; no other service is asked yet.

        If an unavailable service leaves a prefilter without its input, ``missed`` is
        called with the service, its problem and the status of its answer.
        """
        return PrefilterContext(
            aggregates=_Aggregates(self._view),
            minimum_compute_version=self._view.minimum_compute_version(),
            required_traits=lambda: _required_traits(request, self._features),
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
