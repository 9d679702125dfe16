# SPDX-License-Identifier: Apache-2.0
"""Warnings about the options of filters and weighers and about aggregate metadata."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Self

from novasched.cluster.aggregates import AggregateView
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.notices import Notice, notices
from novasched.scheduler.pipeline import Profile

LOG = logging.getLogger(__name__)


class ConfigWarnings:
    """Logs each warning once until its cause is gone; asks when aggregates changed."""

    def __init__(
        self,
        aggregates: AggregateView,
        find: Callable[[Iterable[Aggregates]], list[Notice]],
    ) -> None:
        self._aggregates = aggregates
        self._find = find
        self._version: int | None = None
        self._warned: frozenset[Notice] = frozenset()

    @classmethod
    def of(cls, profile: Profile, aggregates: AggregateView) -> Self:
        """Ask the filters and weighers of a profile."""
        plugins = (*profile.filters, *profile.weighers)
        return cls(aggregates, functools.partial(notices, plugins))

    def tell(self) -> None:
        """Log what was not found the time before."""
        version = self._aggregates.version
        if version == self._version:
            return
        found = self._find(self._aggregates.groups())
        for notice in found:
            if notice not in self._warned:
                level = logging.WARNING if notice.warning else logging.INFO
                LOG.log(level, '%s', notice.text)
        self._version = version
        self._warned = frozenset(found)
