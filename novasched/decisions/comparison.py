# SPDX-License-Identifier: Apache-2.0
"""What a shadow decided for a server, beside what nova chose for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class KnownBy(StrEnum):
    """How it is known what nova chose."""

    ALLOCATION = 'allocation'  # of the server, in placement
    INSTANCE = 'instance'  # the row of the server names its host
    FAILED = 'failed'  # the server is in error, and holds nothing
    UNCLAIMED = 'unclaimed'  # nothing was claimed for a move within a minute
    UNKNOWN = 'unknown'


@dataclass(frozen=True)
class NovaChoice:
    """What nova chose for one server. ``host`` is None where it found none, or where it
    is not known."""

    host: str | None
    known_by: str  # of KnownBy
    seen_s: float = 0.0  # from the request until the choice was seen
    took_s: float | None = None  # of nova's decision, if its notifications say so
    refused: Sequence[str] = ()
    """Hosts that were chosen and did not keep the server, ``host`` perhaps included."""
    fault: str = ''  # of the server, if it failed before it had a host

    @property
    def is_known(self) -> bool:
        return self.known_by != KnownBy.UNKNOWN


class Verdict(StrEnum):
    """How the two choices for one server compare."""

    EQUAL = 'equal'
    ALIKE = 'alike'  # other hosts, of one weight
    BETTER = 'better'  # ours weighs more, by the operator's own weights
    WORSE = 'worse'
    REJECTED = 'rejected'  # nova's host is none of our survivors
    OURS_ONLY = 'ours_only'
    NOVA_ONLY = 'nova_only'
    UNKNOWN = 'unknown'  # nova's host or node, or a weight, is not known


SAME = (Verdict.EQUAL, Verdict.ALIKE)
SIMILAR = (*SAME, Verdict.UNKNOWN)
"""Verdicts that are no difference."""


class Cause(StrEnum):
    """Why two choices differ, the most certain first."""

    FILTER = 'filter'
    NOT_OFFERED = 'not_offered'  # placement's answer, or our copy, had not the host
    CHANCE = 'chance'  # ties, and subsets of the best
    SAME_REQUEST = 'same_request'  # an earlier server of it went elsewhere
    OTHER_REQUEST = 'other_request'  # decided between the two
    LATE = 'late'  # nova's claim was there before our decision
    NO_CANDIDATES = 'no_candidates'  # placement gave nova none, or no answer
    NOVA_FILTERS = 'nova_filters'  # nova's filters rejected all hosts
    NOVA_ERROR = 'nova_error'  # nova failed otherwise
    TRUNCATED = 'truncated'  # placement's answer to nova had not our host
    WEIGHERS = 'weighers'  # nova's weighers weigh otherwise
    UNKNOWN = 'unknown'


@dataclass(frozen=True)
class ComparedServer:
    """A comparison as reports read it, with its decision; times in us and ms."""

    id: str
    at: int
    request_id: str
    flavor: str
    took_us: int
    server: str
    verdict: str
    cause: str
    detail: str
    ours: str | None
    nova: str | None
    known_by: str
    seen_ms: int
    nova_ms: int | None
    refused: str
    """Hosts, with commas between them."""
    weighers: str
    """Names, with commas between them."""


@dataclass(frozen=True)
class ServerComparison:
    """Our choice for one server and nova's. ``detail`` names the filter or the request
    that made the difference."""

    server: str
    ours: str | None
    nova: NovaChoice
    verdict: str  # of Verdict
    cause: str = ''  # of Cause; empty if they are equal
    detail: str = ''
    our_weight: float | None = None
    nova_weight: float | None = None
    weighers: Sequence[str] = ()
    """Nova's host would be the best if such a weigher were left out or turned round."""
