# SPDX-License-Identifier: Apache-2.0
"""What a policy did to a part of a history, and how policies differ: dataclasses that
are JSON by runtime/typed_json.

Docs: docs/reference/policy-lab.md defines each figure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from novasched.runtime.typed_json import of_json, to_json

PERCENT, SECONDS, VMS, POINTS = '%', 's', 'VMs', 'points'


@dataclass(frozen=True)
class FigureKind:
    """Name, unit and direction of a figure."""

    name: str
    unit: str
    text: str
    # whether more is better; None: neither
    more_is_better: bool | None = None
    # whether it says nothing once policies hold different loads
    needs_same_load: bool = False


_KINDS = (
    FigureKind('refused_vms', VMS, 'refused', False),
    FigureKind('refused_percent', PERCENT, 'refused, of VMs', False),
    FigureKind('refused_vcpus_percent', PERCENT, 'refused, of vCPUs asked', False),
    FigureKind('first_refusal_s', SECONDS, 'first refusal after', True),
    FigureKind(
        'first_refusal_vcpus_percent', PERCENT, 'vCPUs allocated at first refusal', True
    ),
    FigureKind(
        'first_refusal_ram_percent', PERCENT, 'RAM allocated at first refusal', True
    ),
    FigureKind(
        'filled_vcpus_percent', PERCENT, 'filling: vCPUs at first refusal', True
    ),
    FigureKind('filled_ram_percent', PERCENT, 'filling: RAM at first refusal', True),
    FigureKind('allocated_vcpus_percent', PERCENT, 'vCPUs allocated'),
    FigureKind('peak_vcpus_percent', PERCENT, 'vCPUs allocated, peak'),
    FigureKind('allocated_ram_percent', PERCENT, 'RAM allocated'),
    FigureKind('peak_ram_percent', PERCENT, 'RAM allocated, peak'),
    FigureKind('density_vcpus_percent', PERCENT, 'packing density, vCPUs', True, True),
    FigureKind('density_ram_percent', PERCENT, 'packing density, RAM', True, True),
    FigureKind('empty_percent', PERCENT, 'empty hosts', True, True),
    FigureKind('empty_least_percent', PERCENT, 'empty hosts, fewest', True, True),
    FigureKind('stranded_vcpus_percent', PERCENT, 'stranded vCPUs', False, True),
    FigureKind('stranded_ram_percent', PERCENT, 'stranded RAM', False, True),
    FigureKind('unallocatable_percent', PERCENT, 'unallocatable vCPUs', False, True),
    FigureKind('evacuates_percent', PERCENT, 'fullest host evacuates', True),
    FigureKind('drainable_percent', PERCENT, 'drainable hosts', True, True),
    FigureKind('spread_vcpus_points', POINTS, 'spread of used vCPU shares'),
    FigureKind('spread_ram_points', POINTS, 'spread of used RAM shares'),
    FigureKind('low_vcpus_percent', PERCENT, 'used vCPU share, 5th percentile'),
    FigureKind('high_vcpus_percent', PERCENT, 'used vCPU share, 95th percentile'),
    FigureKind('low_ram_percent', PERCENT, 'used RAM share, 5th percentile'),
    FigureKind('high_ram_percent', PERCENT, 'used RAM share, 95th percentile'),
)
FIGURES: Mapping[str, FigureKind] = {each.name: each for each in _KINDS}
"""All figures by name, in the order in which they are shown."""


@dataclass(frozen=True)
class FleetGroup:
    """Equal hosts of a fleet; amounts are after ratios and reserved amounts."""

    count: int
    vcpus: int
    ram_mb: int
    disk_gb: int = 0
    numa_nodes: int = 0  # each server is within one of them; 0: none are reported


@dataclass(frozen=True)
class PolicyText:
    """A policy: its name, and the text that it was given as."""

    name: str
    text: str


@dataclass(frozen=True)
class FlavorCounts:
    """A flavor: how much was asked, how much refused, and the room that was left."""

    flavor: str
    vcpus: int
    ram_mb: int
    share: float  # of the VMs asked for
    asked: int
    refused: int
    steps: Mapping[str, int]  # refused VMs by the step that took the last host
    room: float  # VMs, mean over the samples
    room_least: int


@dataclass(frozen=True)
class Series:
    """Figures over time; all of one length, and all room by flavor."""

    at_s: Sequence[float]  # since the start of what is measured
    columns: Mapping[str, Sequence[float]]  # by name, see SERIES
    room: Mapping[str, Sequence[int]]  # VMs by flavor


SERIES = {
    'allocated_vcpus_percent': 'vCPUs allocated, %',
    'allocated_ram_percent': 'RAM allocated, %',
    'empty_percent': 'empty hosts, %',
    'density_vcpus_percent': 'packing density of vCPUs, %',
    'unallocatable_percent': 'unallocatable vCPUs, %',
    'spread_vcpus_points': 'standard deviation of used vCPU shares, points',
    'spread_ram_points': 'standard deviation of used RAM shares, points',
    'refused_vms': 'refused VMs so far',
}
"""Columns of a series, and their names for people."""


@dataclass(frozen=True)
class PartResult:
    """One policy over one part."""

    policy: str
    part: int  # from 1
    hosts: int
    asked_vms: int
    asked_vcpus: int
    window_s: float  # how long was measured
    figures: Mapping[str, float | None]  # by name; None: it does not apply
    flavors: Sequence[FlavorCounts]
    series: Series
    fills: int  # snapshots that were filled
    took_s: float  # CPU time


@dataclass(frozen=True)
class FigureDifference:
    """FigureDifference of a figure to the first policy, paired by part."""

    mean: float
    within: float | None  # half of the 95 % interval; None with one part


@dataclass(frozen=True)
class FigureRow:
    """A figure of all policies: means over the parts, and differences."""

    name: str
    means: Mapping[str, float | None]  # by policy
    differences: Mapping[str, FigureDifference]  # by policy, without the first


@dataclass(frozen=True)
class NeededHosts:
    """The fewest hosts for a part under a policy."""

    policy: str
    part: int
    hosts: int
    bound: int  # no policy needs fewer
    refused_vms: int  # with so many hosts
    trials: Mapping[str, int]  # refused VMs by hosts tried; counting stops over budget
    took_s: float  # CPU time

    @property
    def over_bound_percent(self) -> float:
        """How many more hosts than the bound."""
        return 100.0 * (self.hosts / self.bound - 1.0)


@dataclass(frozen=True)
class RunPlan:
    """What a run is to do; with the history it decides all results."""

    history: str  # directory
    history_hash: str
    policies: Sequence[PolicyText]
    parts: Sequence[int]  # from 1
    fill_s: float | None  # time between two fillings; None: none
    seed: int


@dataclass(frozen=True)
class RunResult:
    """A whole run."""

    plan: RunPlan
    title: str  # of the history
    hosts: Sequence[FleetGroup]
    offered_vcpus_percent: float  # peak of what is asked for, mean over the parts
    offered_ram_percent: float
    parts: Sequence[PartResult]  # by policy, then by part
    rows: Sequence[FigureRow]
    overloaded: Sequence[str]  # policies that do not hold the load of the first
    unmodelled: Mapping[str, int] = field(default_factory=dict[str, int])
    needed: Sequence[NeededHosts] = ()

    def of_policy(self, name: str) -> list[PartResult]:
        """Return the results of a policy, by part."""
        return [each for each in self.parts if each.policy == name]

    def as_text(self) -> str:
        """Return the JSON of it."""
        return json.dumps(to_json(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read what as_text() made. Raises ValueError, LookupError or TypeError."""
        return of_json(cls, json.loads(text))
