# SPDX-License-Identifier: Apache-2.0
"""Input and output of prefilters: their context, and the requirements they add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from novasched.resources.query import NONE
from novasched.scheduler.aggregates import Aggregate


class Port(NamedTuple):
    """A port of the network service; ``subnet_id`` belongs to its first address."""

    vnic_type: str | None
    network_id: str | None
    subnet_id: str | None


class NetworkOrSubnet(NamedTuple):
    """A network or subnet that a host must reach."""

    kind: Literal['network', 'subnet']
    id: str


Reach = Mapping[NetworkOrSubnet, frozenset[str] | None]
"""The aggregates of the hosts that reach each one.

Empty if all hosts do, as it has no segments. None if this is unknown, or a segment has
no aggregates.
"""


@dataclass(frozen=True)
class PrefilterContext:
    """Cloud state that prefilters may read.

    Functions ask other services, so they are called only if the answer matters.
    """

    aggregates: Iterable[Aggregate] = ()
    minimum_compute_version: int = 0
    """Over all cells and cell0; 0 if there are no computes."""
    required_traits: Callable[[], frozenset[str]] = frozenset
    """Of all groups of the query to come."""
    ports: Callable[[], Mapping[str, Port]] = dict
    """The ports that the request names, by id."""
    reach: Callable[[Iterable[NetworkOrSubnet]], Reach] = dict.fromkeys


@dataclass(frozen=True)
class Requirements:
    """More that providers must satisfy; the request itself is not changed.

    ``member_of`` is a list of sets of aggregate uuids, one of each set;
    ``group_required`` holds traits by suffix of the group. ``notes`` are for
    the debug log, ``warnings`` and ``failures`` for the operator. ``refused`` says
    why there is no host at all, and ``refused_by`` which prefilter said so.
    """

    root_required: frozenset[str] = NONE
    root_forbidden: frozenset[str] = NONE
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = NONE
    group_required: Mapping[str, frozenset[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    refused: str | None = None
    refused_by: str = ''
    took_s: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Seconds by the name of each prefilter that has run."""

    @property
    def adds(self) -> bool:
        """Whether there is anything that providers must satisfy."""
        return bool(
            self.root_required
            or self.root_forbidden
            or self.member_of
            or self.not_member_of
            or self.group_required
        )

    def __or__(self, other: Requirements) -> Requirements:
        """Return the conditions of both."""
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
            self.failures + other.failures,
            self.refused or other.refused,
            self.refused_by or other.refused_by,
        )
