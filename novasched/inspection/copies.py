# SPDX-License-Identifier: Apache-2.0
"""Copies of placement for inspections: the machine's, or one that is read."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from novasched import errors
from novasched.placement_copy.readers import shared_file
from novasched.ports import ProviderStore
from novasched.providers.contents import Contents
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.providers.placement_copy import PlacementCopy
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

JUST_READ_S, FRESH_S = 5.0, 60.0
"""How old the copy of the machine may be for a plan, and for a count."""

Change = Callable[[Contents], Contents]


def unchanged(contents: Contents) -> Contents:
    """Return the same."""
    return contents


@dataclass
class Copies:
    """Gives copies of placement, which know the members of some aggregates.

    The machine's copy is used while it is young enough, else ``store`` is read. Threads
    may share it. Raises errors.StoreFailed.
    """

    store: ProviderStore
    hints: CloudHints = NO_HINTS
    path: Path | None = None
    """Where this machine's scheduler keeps the copy that it reads by the API."""
    change: Change = unchanged  # made to what was read
    fresh: bool = False  # whether the machine's copy is never used
    max_age_s: float = math.inf  # after which store is read again
    machine_max_age_s: float = JUST_READ_S  # up to which the machine's copy is used
    clock: Clock = SYSTEM_CLOCK
    newest: PlacementCopy | None = None
    """What was given last."""
    _own: PlacementCopy | None = field(default=None, repr=False)
    _file: shared_file.CopyFile | None = field(default=None, repr=False)
    _kept_copy: PlacementCopy | None = field(default=None, repr=False)
    _changed: tuple[PlacementCopy | None, PlacementCopy | None] = field(
        default=(None, None), repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(
        self, aggregates: Iterable[str] = (), max_age_s: float | None = None
    ) -> PlacementCopy:
        """Return a copy; none that is older than ``max_age_s``, if that is said."""
        wanted = set(aggregates)
        with self._lock:
            found = self._known(
                wanted, self.max_age_s if max_age_s is None else max_age_s
            )
            if found is None:
                found = self._own = self._read(wanted)
            known, made = self._changed
            if made is None or known is not found:
                made = self._with_change(found)
                self._changed = found, made
            self.newest = made
            return made

    def age_s(self) -> float:
        """Return how old the copy is; or how far ahead, after the time was set."""
        return self._age_s(self().as_of)

    def _age_s(self, as_of: float) -> float:
        return abs(self.clock.time() - as_of)

    def _with_change(self, copy: PlacementCopy) -> PlacementCopy:
        contents = self.change(copy.contents)
        same = contents is copy.contents
        return copy if same else PlacementCopy.of(contents, copy.as_of)

    def _known(self, wanted: set[str], max_age_s: float) -> PlacementCopy | None:
        """Return the newest fitting copy, if there is one."""
        found = [self._own] if self.fresh else [self._own, self._kept()]
        fit = [
            each
            for each in found
            if each is not None
            and each.contents.knows(wanted)
            and self._age_s(each.as_of) <= max_age_s
        ]
        return max(fit, key=lambda each: each.as_of, default=None)

    def _kept(self) -> PlacementCopy | None:
        """Return the copy of the machine, if it is fresh."""
        if self.path is None or self.store.reads_fast:
            return None
        self._file = found = shared_file.newest(self.path, self._file)
        if found is None or self._age_s(found.as_of) > self.machine_max_age_s:
            return None
        known = self._kept_copy
        if known is None or known.contents is not found.contents:
            try:
                known = PlacementCopy.of(found.contents, found.as_of)
            except (errors.StoreFailed, IndexError, KeyError) as problem:
                LOG.debug('%s does not fit together: %r', self.path, problem)
                return None
        if known.as_of != found.as_of:
            known = replace(known, as_of=found.as_of)
        self._kept_copy = known
        return known

    def _read(self, wanted: set[str]) -> PlacementCopy:
        as_of, before = self.clock.time(), self._own
        hints = self.hints.naming(wanted)
        if before is None:
            contents = self.store.read(hints)
        else:
            contents = self.store.read_since(
                before.contents, with_silent=True, hints=hints
            )
        return PlacementCopy.of(contents, as_of)
