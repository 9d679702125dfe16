# SPDX-License-Identifier: Apache-2.0
"""The manager of the release that the cloud is known to run, which may change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from novasched.claiming.attempt import RequestAttempt
from novasched.cluster.release import image_props_version
from novasched.manager.attempts import Answer
from novasched.manager.manager import SchedulerManager
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Caller
from novasched.releases import Release, of_request
from novasched.runtime.deadline import Check, never
from novasched.scheduler.aggregates import Aggregate

LOG = logging.getLogger(__name__)


class ManagerByRelease:
    """Answers by the manager of the release that the cloud is known to run.

    It changes to a newer release by follow(), or if a request proves that release; then
    ``on_followed`` is called. Requests under way end by the rules that they began with.
    """

    def __init__(
        self,
        current: SchedulerManager,  # manager for ``release``
        release: Release,
        make: Callable[[Release], SchedulerManager],
        may_learn: bool = True,
        on_followed: Callable[[Release], None] = lambda release: None,
    ) -> None:
        self._make = make
        self._may_learn = may_learn
        self._on_followed = on_followed
        self._lock = threading.Lock()
        self.release = release
        self.current = current

    def follow(self, release: Release) -> None:
        """Answer by the rules of a release from now on, if it is newer."""
        with self._lock:
            if release.number <= self.release.number:
                return
            self.current = self._make(release)
            self.release = release
        self._on_followed(release)

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
        """See SchedulerManager.select_destinations."""
        if self._may_learn:
            proven = of_request(self.release, image_props_version(request))
            if proven is not self.release:
                LOG.info('A request shows that nova is %s', proven)
                self.follow(proven)
        return self.current.select_destinations(
            context,
            request,
            instance_uuids,
            return_objects,
            return_alternates,
            caller,
            check,
            after,
        )

    def update_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """See SchedulerManager.update_aggregates."""
        self.current.update_aggregates(aggregates)

    def delete_aggregate(self, aggregate_id: int) -> None:
        """See SchedulerManager.delete_aggregate."""
        self.current.delete_aggregate(aggregate_id)

    def update_instance_info(self, host: str, instances: Mapping[str, Any]) -> None:
        """See SchedulerManager.update_instance_info."""
        self.current.update_instance_info(host, instances)

    def delete_instance_info(self, host: str, instance_uuid: str) -> None:
        """See SchedulerManager.delete_instance_info."""
        self.current.delete_instance_info(host, instance_uuid)

    def sync_instance_info(self, host: str, instance_uuids: Iterable[str]) -> None:
        """See SchedulerManager.sync_instance_info."""
        self.current.sync_instance_info(host, instance_uuids)
