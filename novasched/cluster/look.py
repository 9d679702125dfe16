# SPDX-License-Identifier: Apache-2.0
"""What one request knows of the cells: how new it is, and whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from novasched.cluster.view import ClusterView

RECENT_S = 1.0
"""The rows of a look that began longer ago are verified, also of the own look."""


@dataclass(eq=False)
class ClusterLook:
    """How fresh the host data of one request is."""

    view: ClusterView | None = None  # None if the cluster does not change
    came_s: float = 0.0  # when the request came
    stage: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
    clock: Clock = SYSTEM_CLOCK
    seen: Snapshot | None = None  # the hosts that the request chooses from
    cell_uuid: str | None = None  # a cell that is read even if it is disabled
    reads_aggregates: bool = False  # whether filters read aggregates
    is_new: bool = False  # read after the request came
    has_aggregates: bool = False  # aggregates were read for the request
    began_s: float = float('-inf')  # when the read began
    ended_s: float = float('-inf')  # when the request got it

    @classmethod
    def of_now(
        cls,
        view: ClusterView,
        stage: Callable[[str], AbstractContextManager[None]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> ClusterLook:
        """Return the look of a request that comes now."""
        return cls(view, clock.monotonic(), stage, clock)

    @property
    def shows_all(self) -> bool:
        """Whether all that a no depends on was looked at after the request came."""
        has_aggregates = self.has_aggregates or not self.reads_aggregates
        return self.is_new and (has_aggregates or self.view is None)

    @property
    def is_recent(self) -> bool:
        """Whether the look is so young that its rows need no verification."""
        return self.is_new and self.clock.monotonic() - self.began_s <= RECENT_S

    def at_known(self) -> None:
        """See what is known, unless that was done just now."""
        if self.view is not None and self.clock.monotonic() - self.ended_s > RECENT_S:
            with self.stage('refresh'):
                self.began_s = self.view.known()
            self.ended_s = self.clock.monotonic()
            self.is_new |= self.began_s > self.came_s

    def renew(self) -> bool:
        """Look at all cells, and at the aggregates, unless that was done; return
        whether hosts may be others now."""
        if not self.is_new:
            self.refresh()
            return True
        return not self.shows_all and self._read_aggregates()

    def refresh(self) -> None:
        """Look at all cells, whether that was done or not."""
        if self.view is not None:
            with self.stage('refresh'):
                self.began_s = self.view.refresh()
        self.ended_s = self.clock.monotonic()
        self.is_new = True
        self._read_aggregates()

    def _read_aggregates(self) -> bool:
        """Read them if filters do; return whether they are others."""
        if self.view is None or not self.reads_aggregates:
            return False
        before = self.view.aggregates.version
        with self.stage('refresh'):
            self.view.current_aggregates()
        self.has_aggregates = True
        return self.view.aggregates.version != before

    def changed(self, node_uuids: Collection[str]) -> Collection[str]:
        """Return which of these nodes are not as the request saw them, or cannot be
        read."""
        is_known = self.is_recent and not self.reads_aggregates
        if self.view is None or is_known or self.seen is None or not node_uuids:
            return ()
        with self.stage('verify'):
            return self.view.changed(
                node_uuids,
                self.seen,
                cell_uuid=self.cell_uuid,
                with_rows=not self.is_recent,
                with_aggregates=self.reads_aggregates,
            )
