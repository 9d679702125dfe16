# SPDX-License-Identifier: Apache-2.0
"""Parts of an outline, as records keep them. Readers import them without numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class ReasonCount(NamedTuple):
    """How many hosts a filter rejected for one reason."""

    code: str
    text: str  # the reason of the example
    hosts: int
    example: str  # the host with most of what is asked for, if the texts tell


@dataclass(frozen=True)
class StepOutline:
    """What one filter did. The counts of its reasons add up to the hosts rejected."""

    name: str
    before: int = field(metadata={'name': 'in'})  # as records have it
    after: int = field(metadata={'name': 'out'})
    reasons: Sequence[ReasonCount]


@dataclass(frozen=True)
class WeigherOutline:
    """What a weigher gave the best hosts; shape (hosts in ``top``,) each."""

    name: str
    raw: list[float]
    normalised: list[float]
    multipliers: list[float]
