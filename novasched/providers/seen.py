# SPDX-License-Identifier: Apache-2.0
"""Generations at which providers are as contents of placement say."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from novasched.providers.contents import Contents
from novasched.scheduler.columns import Ints


class Seen:
    """Providers that were looked at for one request, by id, with their generations.

    Each claim adds one to the generation of its providers. So one with one more than a
    request saw before its claim is as it was: ``as_known`` has such pairs of id and
    generation, and is shared by the requests that decide on the same contents.
    """

    def __init__(self, as_known: set[tuple[int, int]]) -> None:
        self._as_known = as_known
        self._generations: dict[int, int] = {}

    def changed(self, before: Contents, listed: Ints) -> Ints:
        """Return the ids among rows of providers that may be otherwise than before."""
        ids = before.changed(listed)
        generations = dict(listed[:, :2].tolist())
        pairs = ((id_, generations[id_]) for id_ in ids.tolist())
        return np.array([p[0] for p in pairs if p not in self._as_known], np.int64)

    def are_as_known(self, listed: Ints) -> None:
        """Note that these providers are as the contents say."""
        self._generations |= dict(listed[:, :2].tolist())

    def claimed(self, ids: Collection[int]) -> None:
        """Note that one claim of some of these providers has been made since then."""
        for id_ in self._generations.keys() & ids:
            self._generations[id_] += 1
            self._as_known.add((id_, self._generations[id_]))
