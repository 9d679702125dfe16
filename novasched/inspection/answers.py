# SPDX-License-Identifier: Apache-2.0
"""Answers of commands and the console, with the fields of their JSON.

docs/reference has every field. A field that is added has a default, so that the JSON of
an older console can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from novasched.runtime.typed_json import omitted_field


@dataclass(frozen=True)
class Stranded:
    """Amount of a resource that no server of the flavor can use, the reason, and the
    number of hosts that have it."""

    why: str
    hosts: int
    amount: int


@dataclass(frozen=True)
class Amounts:
    """What is free of a resource, and what of it servers of the flavor could use."""

    free: int
    usable: int
    stranded: Sequence[Stranded] | None = omitted_field()

    @property
    def unusable_share(self) -> float:
        return (self.free - self.usable) / self.free if self.free else 0.0


@dataclass(frozen=True)
class LargestHost:
    """The host with most slots."""

    host: str
    slots: int


@dataclass(frozen=True)
class SlotsRow:
    """The slots of a flavor on some hosts."""

    flavor: str
    by: str | None = None  # the zone, aggregate, cell or host; None for all hosts
    slots: int = 0
    hosts: int = 0  # how many have slots
    resources: Mapping[str, Amounts] = field(default_factory=dict)
    largest: LargestHost | None = None
    refused: str | None = omitted_field()  # why the flavor cannot be counted


@dataclass(frozen=True)
class CapacityReport:
    """The answer of ``novasched capacity``."""

    as_of: str
    placement_age_s: float
    cells_left_out: Mapping[str, int]  # how many hosts each has
    hosts: int
    cells: int
    not_counted: Mapping[str, int]  # how many hosts are disabled, or down
    rows: Sequence[SlotsRow]
