# SPDX-License-Identifier: Apache-2.0
"""What prefilters know, and what they may add to a request."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from novasched.scheduler.aggregates import Aggregates

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """The world as far as prefilters ask for it, read before they run.

    ``minimum_compute_version`` is over all cells, cell0 included; 0: no computes.
    """

    aggregates: Aggregates = ()
    minimum_compute_version: int = 0


@dataclass(frozen=True)
class Requirements:
    """More that providers must satisfy; the request itself stays as it is.

    ``member_of`` is a list of sets of aggregate uuids, one of each set;
    ``group_required`` holds traits by suffix of the group. ``notes`` are for
    the debug log, ``warnings`` for the operator.
    """

    root_required: frozenset[str] = NONE
    root_forbidden: frozenset[str] = NONE
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = NONE
    group_required: Mapping[str, frozenset[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __or__(self, other: Requirements) -> Requirements:
        """Return what satisfies both."""
        suffixes = {**self.group_required, **other.group_required}
        return Requirements(
            self.root_required | other.root_required,
            self.root_forbidden | other.root_forbidden,
            self.member_of + other.member_of,
            self.not_member_of | other.not_member_of,
            {
                suffix: self.group_required.get(suffix, NONE)
                | other.group_required.get(suffix, NONE)
                for suffix in suffixes
            },
            self.warnings + other.warnings,
            self.notes + other.notes,
        )


def merge(parts: Iterable[Requirements]) -> Requirements:
    """Return what satisfies all; nothing, when there are none."""
    return functools.reduce(Requirements.__or__, parts, Requirements())
