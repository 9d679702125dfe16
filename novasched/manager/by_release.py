# SPDX-License-Identifier: Apache-2.0
"""The manager of the release that the cloud is known to run, which may change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from novasched.cluster.release import image_props_version
from novasched.manager.manager import SchedulerManager
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release, of_request

LOG = logging.getLogger(__name__)


class ManagerByRelease:
    """Answers by the manager of the release that the cloud is known to run.

    ``current`` is that of ``release``; ``make`` returns the manager of another one. One
    that is newer is followed, by follow() or because a request proves it;
    ``on_followed`` is called with it. Requests under way end by the rules that they
    began with.
    """

    def __init__(
        self,
        current: SchedulerManager,
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
        self, context: RequestContext, request: RequestSpec, *args: Any, **kwargs: Any
    ) -> Any:
        """See SchedulerManager.select_destinations."""
        if self._may_learn:
            proven = of_request(self.release, image_props_version(request))
            if proven is not self.release:
                LOG.info('A request shows that nova is %s', proven)
                self.follow(proven)
        return self.current.select_destinations(context, request, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)
