# SPDX-License-Identifier: Apache-2.0
"""The use cases of the scheduler: one method for each call that arrives.

Nova: scheduler/manager.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.claiming.request import RequestAttempt, ScheduleRequest
from novasched.cluster.release import image_props_version
from novasched.drivers import Driver
from novasched.manager.attempts import (
    Answer,
    HandedToSuccessor,
    RequestAttempts,
    Selected,
)
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import NO_CALLER, Caller
from novasched.ports.decisions import DecisionLog
from novasched.releases import NEWEST, Release, of_request
from novasched.runtime.deadline import Check, never
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)

MOST_SERVERS = 2**16
"""Servers of one request, where their number is all that is said of them."""


class SchedulerManager:
    """Answers the RPC interface, by the rules of the release that the cloud runs.

    It changes to a newer release by follow(), or if a request proves that release and
    it ``may_learn``. Requests under way end by the rules that they began with.
    """

    def __init__(
        self,
        attempts: RequestAttempts,  # by the rules of ``release``
        decision_log: DecisionLog | None = None,
        release: Release = NEWEST,
        of_release: Callable[[Release], RequestAttempts] | None = None,
        may_learn: bool = False,
        on_followed: Callable[[Release], None] = lambda release: None,
    ) -> None:
        self.attempts = attempts
        self.release = release
        self._view = attempts.view
        self._copy = attempts.copy
        self._decision_log = decision_log or DecisionLog()
        self._of_release = of_release
        self._may_learn = may_learn
        self._on_followed = on_followed
        self._lock = threading.Lock()

    @property
    def driver(self) -> Driver:
        return self.attempts.driver

    def follow(self, release: Release) -> None:
        """Answer by the rules of a release from now on, if it is newer."""
        with self._lock:
            if self._of_release is None or release.number <= self.release.number:
                return
            self.attempts = self._of_release(release)
            self.release = release
        self._on_followed(release)

    def _learn(self, request: RequestSpec) -> None:
        """Follow the release that a request proves."""
        proven = of_request(self.release, image_props_version(request))
        if proven is not self.release:
            LOG.info('A request shows that nova is %s', proven)
            self.follow(proven)

    def select_destinations(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
        return_objects: bool,
        return_alternates: bool,
        caller: Caller | None = None,
        check: Check = never,
        after: RequestAttempt | None = None,
    ) -> Answer:
        """Choose a host per instance, and claim it when the instances are named.

        Returns a list of Selections per instance, the chosen one first, or, without
        ``return_objects``, one dict per instance. ``check`` is called between two
        instances; what it raises ends the request. ``after`` is an attempt of the
        manager before a reload. Raises errors.RequestError, such as errors.NoValidHost,
        nothing claimed.
        """
        if self._may_learn:
            self._learn(request)
        LOG.debug('Starting to schedule for instances: %s', instance_uuids)
        if not instance_uuids and request.num_instances > MOST_SERVERS:
            raise errors.InvalidRequest(
                f'num_instances is {request.num_instances}; one request may be for '
                f'{MOST_SERVERS} servers at most'
            )
        asked = ScheduleRequest(
            context=context,
            spec=request,
            instance_uuids=instance_uuids or (),
            names_instances=instance_uuids is not None,
            return_alternates=return_alternates and return_objects,
            return_objects=return_objects,
            caller=caller or NO_CALLER,
            recorder=self._decision_log.recorder(context, request, instance_uuids),
            check=check,
            attempt=after or RequestAttempt(),
        )
        if after is not None:
            asked.recorder.waited(after.unavailable, after.waited_s, again=True)
        selected = self._selected(asked)
        if isinstance(selected, HandedToSuccessor):  # it is recorded there
            successor: SchedulerManager = selected.manager
            return successor.select_destinations(
                context,
                request,
                instance_uuids,
                return_objects,
                return_alternates,
                caller,
                check,
                selected.attempt,
            )
        selections, answer = selected
        asked.recorder.ended(selections, None, asked.budget.rounds)
        return answer

    def _selected(self, asked: ScheduleRequest) -> Selected | HandedToSuccessor:
        """Place the instances; record what the request raises."""
        recorder, rounds = asked.recorder, asked.budget.rounds
        try:
            return self.attempts.select(asked)
        except errors.NoValidHost as failure:
            explained = recorder.explained(failure)
            recorder.ended(None, explained, rounds)
            if cells := self._view.unavailable_cells(asked.spec.target_cell_uuid):
                LOG.info(
                    'The hosts of cells that do not answer are left out: %s',
                    ', '.join(cells),
                )
            try:
                raise explained from failure.__cause__
            finally:
                del explained  # it refers to this frame, and so to all candidates
        except Exception as problem:  # whatever ends a request is written down
            recorder.ended(None, problem, rounds)
            raise

    def update_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Take in new or changed aggregates."""
        self._view.aggregates.update(aggregates)

    def delete_aggregate(self, aggregate_id: int) -> None:
        self._view.aggregates.delete(aggregate_id)

    def update_instance_info(self, host: str, instances: Mapping[str, Any]) -> None:
        """Take in instances of a host, by uuid."""
        self._view.instances.update(host, instances)
        for uuid, instance in instances.items():
            self._decision_log.saw(host, uuid, instance)
        self._look_again(host)

    def delete_instance_info(self, host: str, instance_uuid: str) -> None:
        self._view.instances.delete(host, instance_uuid)
        self._decision_log.saw(host, instance_uuid, None)
        self._look_again(host)

    def _look_again(self, host: str) -> None:
        """What a host has of placement has changed, or will at once."""
        if self._copy is not None:
            nodes = self._view.nodes_named(host, None)
            self._copy.invalidate([uuid for _, _, uuid in nodes], recheck=True)

    def sync_instance_info(self, host: str, instance_uuids: Iterable[str]) -> None:
        """Compare what is known of a host with all its instances."""
        self._view.instances.sync(host, instance_uuids)
