# SPDX-License-Identifier: Apache-2.0
"""Compute nodes that have registered since the copy of placement was read."""

from __future__ import annotations

import math
from collections.abc import Callable, Set

import numpy as np

from novasched.mirror.copy import PlacementMirror
from novasched.runtime.clock import Clock

LAG_S = 60.0
"""How long placement is asked for a node that the copy does not show; as long as the
longest pause between two looks."""


class NewNodes:
    """Tells from the uuids of the compute nodes whether the copy lags."""

    def __init__(
        self,
        mirror: PlacementMirror | None,
        nodes: Callable[[], Set[str]],
        clock: Clock,
    ) -> None:
        self._mirror = mirror
        self._nodes = nodes
        self._clock = clock
        self._missing_since: dict[str, float] = {}

    def are_missing(self) -> bool:
        """Return whether a node came within LAG_S that the copy shows no inventory of.
        A node that is not in placement at all is not waited for."""
        mirror = self._mirror
        current = None if mirror is None else mirror.current(math.inf)
        if mirror is None or current is None:
            return False
        table = current.table
        is_shown = np.zeros(len(table), bool)
        for inventory in table.inventories.values():
            is_shown[inventory.rows] = True
        bare = {table.uuids[row] for row in np.flatnonzero(~is_shown).tolist()}
        missing = self._nodes() - (table.rows_by_uuid.keys() - bare)
        now, since = self._clock.monotonic(), self._missing_since
        self._missing_since = {uuid: since.get(uuid, now) for uuid in missing}
        is_late = any(now - at <= LAG_S for at in self._missing_since.values())
        if is_late:
            mirror.want(())  # it is read at once
        return is_late
