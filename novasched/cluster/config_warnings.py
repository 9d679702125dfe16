# SPDX-License-Identifier: Apache-2.0
"""Warnings about the options of filters and weighers and about aggregate metadata."""

from __future__ import annotations

import logging

from novasched.cluster.aggregates import AggregateView
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.warnings import PluginWarning

LOG = logging.getLogger(__name__)


class ConfigWarnings:
    """Logs each warning once until its cause is gone; asks when aggregates changed."""

    def __init__(self, profile: Profile, aggregates: AggregateView) -> None:
        self._profile = profile
        self._aggregates = aggregates
        self._version: int | None = None
        self._warned: list[PluginWarning] = []

    def log(self) -> None:
        """Log what was not found the time before."""
        version = self._aggregates.version
        if version == self._version:
            return
        found = self._profile.config_warnings(self._aggregates.groups())
        for warning in found:
            if warning not in self._warned:
                LOG.log(warning.level, '%s', warning)
        self._version = version
        self._warned = found
