# SPDX-License-Identifier: Apache-2.0
"""The use cases of the scheduler: what is done for each call that arrives.

Nova: scheduler/manager.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from novasched import errors
from novasched.cluster.view import ClusterView
from novasched.drivers import Driver, Placed, Work
from novasched.drivers.claims import Claims
from novasched.drivers.scope import target_cell
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import Candidates, Notifier, Placement, QueryFailed
from novasched.resources import Facts, build_query, prefilters, target_of
from novasched.resources.request import limit_from_conf
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asking:
    """What the operator chose about the question to placement.

    ``limit`` bounds the number of candidates.
    """

    prefilters: Sequence[prefilters.Prefilter]
    limit: int = 1000

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Read the options."""
        return cls(prefilters.from_conf(conf), limit_from_conf(conf))


class SchedulerManager:
    """Answers the RPC interface; has no state but the cluster view."""

    def __init__(
        self,
        driver: Driver,
        view: ClusterView,
        placement: Placement,
        notifier: Notifier,
        asking: Asking,
    ) -> None:
        self._driver = driver
        self._view = view
        self._placement = placement
        self._notifier = notifier
        self._asking = asking

    def select_destinations(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
        return_objects: bool,
        return_alternates: bool,
    ) -> list[list[Selection]] | list[dict[str, Any]]:
        """Choose a host per instance, and claim it when the instances are named.

        Returns a list of Selections per instance, the chosen one first, or,
        without ``return_objects``, one dict per instance. Raises
        errors.NoValidHost, and any other errors.RequestError, with nothing
        claimed.
        """
        LOG.debug('Starting to schedule for instances: %s', instance_uuids)
        request, candidates = self._candidates(context, request)
        with self._claims(context, instance_uuids, candidates) as claims:
            work = Work(
                context=context,
                request=request,
                instance_uuids=instance_uuids,
                candidates=candidates,
                claims=claims,
                return_alternates=return_alternates and return_objects,
            )
            self._notifier.select_destinations(context, request, 'start')
            placed = self._driver.select_destinations(work)
            self._notifier.select_destinations(context, placed.request, 'end')
            return _answer(placed, return_objects)

    def _candidates(
        self, context: RequestContext, request: RequestSpec
    ) -> tuple[RequestSpec, Candidates | None]:
        """Ask placement; a rebuild does not, nor a driver that does without.

        The request comes back with the node that it names.
        """
        if request.is_rebuild or not self._driver.USES_ALLOCATION_CANDIDATES:
            return request, None
        added = prefilters.run(self._asking.prefilters, request, self._facts())
        request, nodes = self._named_nodes(request)
        query = build_query(request, added, nodes, self._asking.limit)
        _log(added.notes + query.notes, added.warnings + query.warnings)
        answer = self._placement.candidates(context, query.encode())
        if isinstance(answer, QueryFailed) or not answer.requests:
            LOG.info(
                'Got no allocation candidates from the Placement API. This could be '
                'due to insufficient resources or a temporary occurrence as compute '
                'nodes start up.'
            )
            raise errors.NoValidHost('')
        return request, answer

    def _facts(self) -> Facts:
        aggregates = tuple(self._view.aggregates.all())
        return Facts(aggregates, self._view.minimum_compute_version())

    def _claims(
        self,
        context: RequestContext,
        instance_uuids: Sequence[str] | None,
        candidates: Candidates | None,
    ) -> contextlib.AbstractContextManager[Claims | None]:
        """Return what holds the claims together, or nothing if none are made."""
        if instance_uuids is None or candidates is None:
            return contextlib.nullcontext()
        return Claims(self._placement, context, candidates.version)

    def _named_nodes(
        self, request: RequestSpec
    ) -> tuple[RequestSpec, list[str] | None]:
        """Look up the host or node that the request names, if it names one.

        A single node found becomes the whole of the requested destination.
        """
        target = target_of(request)
        if target is None:
            return request, None
        self._view.refresh()
        cell = target_cell(self._view, request)
        nodes = self._view.nodes_named(target.host, target.node, cell)
        if not nodes:
            raise errors.NoValidHost(target.not_found())
        destination = request.requested_destination
        if len(nodes) == 1 and destination is not None:
            host, node, _ = nodes[0]
            found = destination.replaced(host=host, node=node)
            request = request.replaced(requested_destination=found)
        return request, [uuid for _, _, uuid in nodes]

    def update_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Take in new or changed aggregates."""
        self._view.aggregates.update(aggregates)

    def delete_aggregate(self, aggregate_id: int) -> None:
        """Forget an aggregate."""
        self._view.aggregates.delete(aggregate_id)

    def update_instance_info(self, host: str, instances: Mapping[str, Any]) -> None:
        """Take in instances of a host, by uuid."""
        self._view.instances.update(host, instances)

    def delete_instance_info(self, host: str, instance_uuid: str) -> None:
        """Forget an instance of a host."""
        self._view.instances.delete(host, instance_uuid)

    def sync_instance_info(self, host: str, instance_uuids: Iterable[str]) -> None:
        """Compare what is known of a host with all its instances."""
        self._view.instances.sync(host, instance_uuids)


def _answer(
    placed: Placed, return_objects: bool
) -> list[list[Selection]] | list[dict[str, Any]]:
    if return_objects:
        return placed.selections
    return [selections[0].to_dict() for selections in placed.selections]


def _log(notes: Iterable[str], warnings: Iterable[str]) -> None:
    for note in notes:
        LOG.debug(note)
    for warning in warnings:
        LOG.warning(warning)
