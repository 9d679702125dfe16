# SPDX-License-Identifier: Apache-2.0
"""Compute nodes that have registered since the copy of placement was read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

import numpy as np

from novasched.placement_copy import PlacementCopy
from novasched.placement_copy.copy import CopyKeeper
from novasched.providers.contents import Contents
from novasched.providers.table import ProviderTable
from novasched.runtime.clock import Clock

LAG_S = 60.0
"""How long placement is asked for a node that the copy does not show; as long as the
longest pause between two looks."""


class _Comparison(NamedTuple):
    """The nodes and the copy that were compared, and the nodes that the copy lacks.

    ``began_at`` is the time of the first look, ``new_since`` when each node was noticed
    that registered after it.
    """

    began_at: float
    nodes: Set[str] = frozenset()
    contents: Contents | None = None
    uuids: frozenset[str] = frozenset()
    missing: Set[str] = frozenset()
    new_since: Mapping[str, float] = {}


class NewNodes:
    """Tells from the uuids of the compute nodes whether the copy lags."""

    def __init__(
        self,
        copy: CopyKeeper | None,
        nodes: Callable[[], Set[str]],
        clock: Clock,
    ) -> None:
        self._copy = copy
        self._nodes = nodes
        self._clock = clock
        self._look: _Comparison | None = None

    def are_missing(self) -> bool:
        """Return whether placement may have a node whose inventory the copy lacks.

        A node is waited for within LAG_S after it was noticed. The age of nodes of the
        first look is unknown: they are waited for until a later copy was read.
        """
        current = None if self._copy is None else self._copy.current(math.inf)
        if self._copy is None or current is None:
            return False
        look = self._compared(self._copy, current)
        if look.missing and current.as_of <= look.began_at:
            return True
        now = self._clock.monotonic()
        return any(now - at <= LAG_S for at in look.new_since.values())

    def _compared(self, copy: CopyKeeper, current: PlacementCopy) -> _Comparison:
        """Return a comparison of the nodes with the copy, as both are now."""
        nodes, before, contents = self._nodes(), self._look, current.contents
        if before is not None and nodes is before.nodes and contents is before.contents:
            return before
        missing = nodes - _shown(current.table)
        now = self._clock.monotonic()
        self._look = look = _next(before, nodes, contents, missing, now)
        if look.new_since.keys() - before.new_since if before else missing:
            copy.want(())  # it is read at once
        return look


def _next(
    before: _Comparison | None,
    nodes: Set[str],
    contents: Contents,
    missing: Set[str],
    now: float,
) -> _Comparison:
    """Return the look after another one, or the first one."""
    uuids = frozenset(nodes)
    if before is None:
        return _Comparison(now, nodes, contents, uuids, missing)
    new = dict.fromkeys(missing - before.uuids, now)
    known = {u: at for u, at in before.new_since.items() if u in missing}
    return _Comparison(
        before.began_at, nodes, contents, uuids, missing, {**known, **new}
    )


def _shown(table: ProviderTable) -> Set[str]:
    """Return the uuids of the providers that have inventory."""
    is_shown = np.zeros(len(table), bool)
    for inventory in table.inventories.values():
        is_shown[inventory.rows] = True
    bare = {table.uuids[row] for row in np.flatnonzero(~is_shown).tolist()}
    return table.rows_by_uuid.keys() - bare if bare else table.rows_by_uuid.keys()
