# SPDX-License-Identifier: Apache-2.0
"""Proves that providers are as contents of placement say."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from novasched.providers.contents import Contents
from novasched.scheduler.columns import Floats, Ints

PRECISION_S = 2.0
"""Of times in whole seconds, of two clocks that may differ by one more."""


Generations = dict[int, tuple[int, float]]
"""By id of a provider: it is as known at this generation, if written no later."""


class SeenProvider(NamedTuple):
    """A provider as it was seen; placement's clock was ``ahead_s`` of ours."""

    generation: int
    root: int
    ahead_s: float


class GenerationCache:
    """Providers that were looked at for one request.

    A recreated provider starts at generation zero, so a generation proves nothing
    without the time of the last write. If a provider was read after that, it is as
    known. Own claims add to generations: ``proved`` has what requests on the same
    contents saw and claimed, until the time of the claim.
    """

    def __init__(
        self, proved: Generations, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._proved = proved
        self._now = now
        self._seen: dict[int, SeenProvider] = {}

    def changed(self, before: Contents, listed: Ints, written_at: Floats) -> Ints:
        """Return the ids among rows of providers that are not proved to be as before,
        by when each was written at the latest."""
        differing = {*before.changed(listed).tolist()}
        read_at = dict(before.read_at.tolist())

        def is_known(id_: int, generation: int, written: float) -> bool:
            if id_ not in differing and written < read_at.get(id_, 0):
                return True
            known, until = self._proved.get(id_, (generation, 0.0))
            return known == generation and written <= until

        rows = zip(*listed[:, :2].T.tolist(), written_at.tolist(), strict=True)
        return np.array([row[0] for row in rows if not is_known(*row)], np.int64)

    def mark_unchanged(self, listed: Ints, written_at: Floats, as_of: Floats) -> None:
        """Note that these providers are as the contents say. What was written in the
        second of the look may be written once more in it."""
        now = self._now()
        columns = *listed[:, :3].T.tolist(), written_at.tolist(), as_of.tolist()
        for id_, generation, root, written, seen_at in zip(*columns, strict=True):
            self._seen[id_] = SeenProvider(generation, root, seen_at - now)
            known, until = self._proved.get(id_, (generation, 0.0))
            if written < seen_at and (known != generation or written > until):
                self._proved[id_] = generation, written

    def claimed(self, ids: Collection[int]) -> None:
        """Note one claim of some of these providers since then. It is the last write of
        all others of their trees, too."""
        now = self._now()
        roots = {self._seen[id_].root for id_ in self._seen.keys() & ids}
        for id_, seen in self._seen.items():
            if seen.root in roots:
                generation = seen.generation + (id_ in ids)
                self._seen[id_] = seen._replace(generation=generation)
                until = now + seen.ahead_s + PRECISION_S
                self._proved[id_] = generation, until
