# SPDX-License-Identifier: Apache-2.0
"""How fresh the host data of one request is, and whether its rows still hold."""

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
"""Rows of a read that began longer ago are verified, also if the request made it."""


@dataclass(eq=False)
class ViewFreshness:
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

    @property
    def is_current(self) -> bool:
        """Whether all that a NoValidHost depends on was read after the request came."""
        has_aggregates = self.has_aggregates or not self.reads_aggregates
        return self.is_new and (has_aggregates or self.view is None)

    @property
    def is_recent(self) -> bool:
        """Whether the read is so young that its rows need no verification."""
        return self.is_new and self.clock.monotonic() - self.began_s <= RECENT_S

    def use_cached(self) -> None:
        """Use the cached hosts; do nothing if they were read or used just now."""
        if self.view is not None and self.clock.monotonic() - self.ended_s > RECENT_S:
            with self.stage('refresh'):
                self.began_s = self.view.known()
            self.ended_s = self.clock.monotonic()
            self.is_new |= self.began_s > self.came_s

    def refresh_if_stale(self) -> bool:
        """Read all cells and the aggregates, unless the request has read them.

        Return whether the hosts may have changed.
        """
        if not self.is_new:
            self.refresh()
            return True
        return not self.is_current and self._read_aggregates()

    def refresh(self) -> None:
        """Read all cells, also if the request has read them before."""
        if self.view is not None:
            with self.stage('refresh'):
                self.began_s = self.view.refresh()
        self.ended_s = self.clock.monotonic()
        self.is_new = True
        self._read_aggregates()

    def _read_aggregates(self) -> bool:
        """Read the aggregates if filters do; return whether they changed."""
        if self.view is None or not self.reads_aggregates:
            return False
        before = self.view.aggregates.version
        with self.stage('refresh'):
            self.view.current_aggregates()
        self.has_aggregates = True
        return self.view.aggregates.version != before

    def stale_nodes(self, node_uuids: Collection[str]) -> Collection[str]:
        """Return the nodes that changed since the request saw them, or are
        unreadable."""
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
