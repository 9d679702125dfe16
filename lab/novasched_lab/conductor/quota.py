# SPDX-License-Identifier: Apache-2.0
"""Whether a project has more instances than it may have, asked again after placing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from oslo_config import cfg

from novasched_lab.failures import QuotaExceeded

OPTS: dict[str, list[cfg.Opt]] = {
    'quota': [
        cfg.BoolOpt(
            'recheck_quota',
            default=True,
            help='Count the instances of a project once more when hosts are chosen '
            'for new ones, and give up those if there are too many by then.',
        )
    ],
    'novasched': [
        cfg.IntOpt(
            'instances_per_project',
            default=0,
            min=0,
            help='How many instances a project may have, as novasched-conductor '
            'counts them. 0: as many as it likes.',
        )
    ],
}


class Mappings(Protocol):
    """Where instances are counted."""

    def mappings(self, project_id: str | None = None) -> Sequence[Any]:
        """Return one thing for each instance of a project."""


class Quota:
    """Counts the instances of projects; ``limit`` 0 is none."""

    def __init__(self, mappings: Mappings, limit: int) -> None:
        self._mappings = mappings
        self._limit = limit

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, mappings: Mappings) -> Quota:
        """Make one; without [quota] recheck_quota it has no limit."""
        limit = conf.novasched.instances_per_project if conf.quota.recheck_quota else 0
        return cls(mappings, limit)

    def check(self, project_id: str | None) -> None:
        """Raise QuotaExceeded where a project has too many instances."""
        if not self._limit or project_id is None:
            return
        if len(self._mappings.mappings(project_id)) > self._limit:
            raise QuotaExceeded(project_id, self._limit)
