# SPDX-License-Identifier: Apache-2.0
"""Members of server groups, as the API database has them at this moment."""

from __future__ import annotations

import threading

from novasched import errors
from novasched.ports import ApiStore
from novasched.runtime.clock import Clock
from novasched.runtime.executor import FAST_S

AGAIN_AFTER_S = 5.0
"""How often a request waits for a database that hangs."""


class GroupMembers:
    """Asks the API database. While it hangs, one request in AGAIN_AFTER_S finds out
    whether it still does, and the others fail at once, as if it refused them."""

    def __init__(self, api: ApiStore, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lock = threading.Lock()
        self._hangs: errors.StoreFailed | None = None
        self._again_s = 0.0

    def of(self, group_uuid: str) -> list[str]:
        """Return the members of a group, newest first. Raises errors.StoreFailed."""
        started_s = self._clock.monotonic()
        with self._lock:
            hangs = self._hangs
            if hangs is not None:
                if started_s < self._again_s:
                    raise hangs.with_traceback(None)
                self._again_s = started_s + AGAIN_AFTER_S
        try:
            found = self._api.group_members(group_uuid)
        except errors.StoreFailed as problem:
            ended_s = self._clock.monotonic()
            if ended_s - started_s > FAST_S:
                with self._lock:
                    self._hangs, self._again_s = problem, ended_s + AGAIN_AFTER_S
            raise
        self._hangs = None
        return found
