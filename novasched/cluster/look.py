# SPDX-License-Identifier: Apache-2.0
"""What one request knows of the cells: how new it is, and whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.snapshot import Snapshot

if TYPE_CHECKING:
    from novasched.cluster.view import ClusterView


@dataclass(eq=False)
class ClusterLook:
    """The newest look that a request has seen; ``came_s`` is when the request came.

    ``view`` None: the cluster does not change. A look that began later ``is_new``: it
    shows all that was committed before, and its rows are not verified. ``seen`` are the
    hosts that the request chooses from; their aggregates, which are in no cell, are
    verified where its filters read them.
    """

    view: ClusterView | None = None
    came_s: float = 0.0
    stage: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
    seen: Snapshot | None = None
    reads_aggregates: bool = False
    is_new: bool = False

    @classmethod
    def of_now(
        cls,
        view: ClusterView,
        stage: Callable[[str], AbstractContextManager[None]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> ClusterLook:
        """Return that of a request that comes now."""
        return cls(view, clock.monotonic(), stage)

    def at_known(self) -> None:
        """See what is known, unless a new look was seen already."""
        if not self.is_new and self.view is not None:
            with self.stage('refresh'):
                self.is_new = self.view.known() > self.came_s

    def renew(self) -> None:
        """Look at all cells, unless that was done."""
        if not self.is_new:
            self.refresh()

    def refresh(self) -> None:
        """Look at all cells, whether that was done or not."""
        if self.view is not None:
            with self.stage('refresh'):
                self.view.refresh()
                if self.reads_aggregates:
                    self.view.current_aggregates()
        self.is_new = True

    def changed(self, node_uuids: Collection[str]) -> Collection[str]:
        """Return which of these nodes are not as the request saw them, or cannot be
        read."""
        is_known = self.is_new and not self.reads_aggregates
        if self.view is None or is_known or self.seen is None or not node_uuids:
            return ()
        with self.stage('verify'):
            return self.view.changed(
                node_uuids,
                self.seen,
                with_rows=not self.is_new,
                with_aggregates=self.reads_aggregates,
            )
