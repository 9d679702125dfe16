# SPDX-License-Identifier: Apache-2.0
"""Placement snapshots for inspections: that of the machine while it is fresh."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.decision_log import files
from novasched.inspection.session import Inspection
from novasched.inspection.table_placement import ChangedSource
from novasched.inspection.what_if import WhatIf
from novasched.placement.snapshot import (
    PlacementSnapshot,
    SnapshotSource,
    node_sizes,
)
from novasched.placement.snapshot_keeper import SnapshotKeeper

MAX_AGE_S = 300.0
"""An older snapshot is not used, but a new one is read."""
RENEWED_S = 240.0
"""One that is older is renewed by who does not want to wait for it later."""

WAIT_S, PAUSE_S = 10.0, 0.2
"""How long to wait for another process that is reading one, and between two looks."""
BUSY = 'another process is reading a snapshot; try again'

Change = Callable[[PlacementSnapshot], PlacementSnapshot]


def unchanged(snapshot: PlacementSnapshot) -> PlacementSnapshot:
    """Return the same."""
    return snapshot


class Snapshots:
    """Gives snapshots that know the members of some aggregates.

    Those of ``shared`` are used while they are fresh, unless ``fresh`` asks for a new
    one; new ones are read into ``own``, for which another process that is reading one
    is waited for ``wait_s`` seconds. ``change`` is made to what is given. Raises
    errors.StoreFailed.
    """

    def __init__(
        self,
        shared: SnapshotKeeper,
        own: SnapshotKeeper,
        fresh: bool = False,
        change: Change = unchanged,
        wait_s: float = WAIT_S,
    ) -> None:
        self._keeper = own if fresh or not shared.current(MAX_AGE_S) else shared
        self._own = own
        self._must_read = fresh
        self._change = change
        self._wait_s = wait_s
        self._changed: list[tuple[PlacementSnapshot, PlacementSnapshot]] = []

    def __call__(self, aggregates: Iterable[str] = ()) -> PlacementSnapshot:
        """Return the snapshot."""
        found, wanted = self._keeper.snapshot(), set(aggregates)
        if found is not None and not found.knows(wanted):
            self._keeper, found = self._own, self._own.snapshot()
        is_old = found is None or self._keeper.age_s(found) > MAX_AGE_S
        if self._must_read or is_old:
            self._read(wanted)
        elif found is not None and not found.knows(wanted):
            self._keeper.renew(wanted)
        found = self._keeper.snapshot()
        if found is None or not found.knows(wanted):
            raise errors.StoreFailed('Placement', BUSY)
        if not self._changed or self._changed[0][0] is not found:
            self._changed = [(found, self._change(found))]
        return self._changed[0][1]

    def _read(self, aggregates: set[str]) -> None:
        """Read a new snapshot of our own, once no other process is at it. That of the
        machine is left to the user of the service."""
        self._keeper = self._own
        give_up_at = SYSTEM_CLOCK.monotonic() + self._wait_s
        while not self._own.renew(aggregates, forced=True):
            if SYSTEM_CLOCK.monotonic() >= give_up_at:
                raise errors.StoreFailed('Placement', BUSY)
            time.sleep(PAUSE_S)
        self._must_read = False

    def renew_old(self, max_age_s: float = RENEWED_S) -> None:
        """Read a new snapshot if there is one that is older."""
        found = self._keeper.snapshot()
        if found is not None and self._keeper.age_s(found) > max_age_s:
            self._own.renew(found.members or (), forced=True)
            self._keeper = self._own

    def age_s(self) -> float:
        """Return how old the snapshot is."""
        return self._keeper.age_s(self())


def open_snapshots(
    inspection: Inspection, fresh: bool = False, what_if: WhatIf | None = None
) -> Snapshots:
    """Return the snapshots of the cloud that is inspected, or of what it would be.

    The file of the machine is written by the user of the service only, and not with
    the sizes of a changed cloud.
    """
    added = what_if.added if what_if else {}
    view, directory = inspection.run.reader.view, _directory(inspection)
    source = snapshot_source(inspection)

    def keeper(directory: Path | None) -> SnapshotKeeper:
        return SnapshotKeeper(
            directory,
            source,
            SYSTEM_CLOCK,
            sizes=lambda: {
                uuid: size
                for uuid, size in node_sizes(view.hosts(None)).items()
                if uuid not in added
            },
        )

    shared = keeper(directory)
    is_own = directory is not None and directory.stat().st_uid == os.geteuid()
    own = shared if is_own and not what_if else keeper(None)
    change = what_if.snapshot if what_if else unchanged
    return Snapshots(shared, own, fresh, change)


def _directory(inspection: Inspection) -> Path | None:
    """Return where the scheduler of this machine keeps its snapshot, if it does."""
    try:
        return files.existing(inspection.conf)
    except errors.OptionError:
        return None


def snapshot_source(inspection: Inspection) -> SnapshotSource:
    """Return where snapshots of the cloud as it is are read from."""
    source = inspection.placement.source
    return source.inner if isinstance(source, ChangedSource) else source
