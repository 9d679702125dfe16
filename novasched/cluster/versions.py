# SPDX-License-Identifier: Apache-2.0
"""The lowest nova-compute version of the cloud."""

from __future__ import annotations

from novasched.cluster.cells import Cells

OLDEST_COMPUTE_VERSION = 72
OLDEST_RELEASE = 'Gazpacho'


class ComputeVersions:
    """The lowest version of the computes by cell, as each last told."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._versions: dict[str, int] = {}

    def check(self, *, judges: bool = False) -> None:
        """Ask the cells, disabled ones and cell0 too; one that fails keeps its own.

        ``judges``: a cell that is late is left out of what follows.
        """
        cells = self._cells.all()
        if self._cells.cell0 is not None:
            cells.append(self._cells.cell0)
        found = self._cells.ask(
            lambda cell, store: store.minimum_compute_version(),
            cells,
            what='the lowest compute version',
            judges=judges,
        )
        known = {cell.uuid for cell in cells}
        kept = {u: v for u, v in self._versions.items() if u in known}
        self._versions = {**kept, **found}

    def minimum(self) -> int:
        """Return the lowest version of all cells; 0: no computes."""
        return min(filter(None, self._versions.values()), default=0)
