# SPDX-License-Identifier: Apache-2.0
"""Runs a policy over a part of a trace, and measures.

The warm-up is decided directly, what is measured through the manager. One request asks
for a batch; if that has no host for all, its servers are asked for one by one.
"""

from __future__ import annotations

import heapq
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.policy_lab import figures
from novasched.policy_lab.cloud import BUILD_S, LabCloud, Placed, plain_cloud
from novasched.policy_lab.figures import HostLoad, percent
from novasched.policy_lab.placing import (
    DirectPlacer,
    ManagedPlacer,
    Placer,
    request_of,
)
from novasched.policy_lab.policy import Policy
from novasched.policy_lab.results import (
    FIGURES,
    SERIES,
    FlavorCounts,
    PartResult,
    Series,
)
from novasched.policy_lab.trace import ServerBatch, Trace
from novasched.scheduler.columns import Ints

SAMPLE_S = 1800.0
DRAIN_S = 6 * 3600.0
"""How often evacuation and draining are tried if nothing is filled."""
REFUSED_IN_A_ROW = 200
"""Filling ends after so many refused draws."""
NODE_FILTERS = ['ComputeFilter', 'NUMATopologyFilter']
"""Filters of a trace on hosts with NUMA nodes; by default nova fits no nodes."""
SEED = 20171


class Resident(NamedTuple):
    """Instance that runs at the start and ends."""

    end_s: float
    flavor: int
    placed: Placed


@dataclass(frozen=True)
class Workload:
    """A part of a trace, and the cloud that it begins on."""

    trace: Trace
    part: int
    batches: Sequence[ServerBatch]  # by time
    cloud: LabCloud  # not to be changed
    requests: Sequence[RequestSpec]  # by flavor
    is_plain: bool = True  # a plain cloud with requests of plain flavors
    residents: Sequence[Resident] = ()
    # what it was recorded by: nova_release, and options by group
    profile: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of_trace(
        cls, trace: Trace, part: int, batches: Sequence[ServerBatch]
    ) -> Workload:
        """Return the workload of a part on empty hosts. If these have NUMA nodes, each
        server asks for one."""
        has_nodes = any(group.numa_nodes for group in trace.hosts)
        specs = {'hw:numa_nodes': '1'} if has_nodes else {}
        requests = [request_of(f, n, specs) for n, f in enumerate(trace.flavors, 1)]
        options = {'filter_scheduler': {'enabled_filters': NODE_FILTERS}}
        profile = {'options': options} if has_nodes else {}
        cloud = plain_cloud(trace.hosts)
        return cls(trace, part, batches, cloud, requests, profile=profile)

    def placer(
        self, cloud: LabCloud, policy: Policy, rng: random.Random, is_direct: bool
    ) -> Placer:
        """Return a placer; it decides directly only if the picks are the same."""
        kind = DirectPlacer if is_direct and self.is_plain else ManagedPlacer
        return kind(cloud, policy, rng)


class Refusal(NamedTuple):
    """Servers of a batch that were refused."""

    at_s: float
    flavor: int
    vms: int
    step: str


@dataclass
class Simulation:
    """One policy over one workload."""

    workload: Workload
    policy: Policy
    is_direct: bool = False  # decide all directly, also what is measured
    most_refused: float = float('inf')  # end after more
    seed: int = SEED
    refusals: list[Refusal] = field(default_factory=list[Refusal])

    def __post_init__(self) -> None:
        trace, rng = self.workload.trace, random.Random(self.seed)
        self.cloud = self.workload.cloud.copy()
        self._direct, self._managed = (
            self.workload.placer(self.cloud, self.policy, rng, is_direct)
            for is_direct in (True, False)
        )
        self._ends: list[tuple[float, int, int, Placed]] = []
        self._builds: deque[tuple[float, int]] = deque()
        self._number = 0
        shape = len(self.cloud.node_uuids), len(trace.flavors)
        self.least_empty = shape[0]  # hosts that were empty after each batch
        self.counts: Ints = np.zeros(shape, np.int64)  # instances by host and flavor
        for end_s, flavor, placed in self.workload.residents:
            self._end_at(end_s, flavor, placed)

    def run(self, watch: Watch | None = None) -> None:
        """Place all batches, and let ``watch`` measure from second 0 on."""
        refused = 0
        for batch in self.workload.batches:
            if watch is not None:
                watch.until(batch.at_s, self)
            self.advance(batch.at_s)
            before = len(self.refusals)
            self._place(batch)
            if watch is not None and len(self.refusals) > before:
                watch.refused(self)
            refused += sum(each.vms for each in self.refusals[before:])
            if refused > self.most_refused:
                return
            if batch.at_s >= 0:
                used = np.count_nonzero(self.cloud.columns['num_instances'])
                empty = len(self.cloud.node_uuids) - int(used)
                self.least_empty = min(self.least_empty, empty)
        if watch is not None:
            watch.until(self.workload.trace.until_s, self, is_end=True)

    def advance(self, at_s: float) -> None:
        """End the instances and builds whose time has come."""
        while self._builds and self._builds[0][0] <= at_s:
            self.cloud.count_builds(self._builds.popleft()[1], -1)
        while self._ends and self._ends[0][0] <= at_s:
            _, _, flavor, placed = heapq.heappop(self._ends)
            self.cloud.remove(placed)
            self.counts[placed.row, flavor] -= 1

    def _place(self, batch: ServerBatch) -> None:
        """Place a batch, as far as there is room; note what is refused after 0."""
        is_measured = batch.at_s >= 0
        is_direct = self.is_direct or not is_measured
        placer = self._direct if is_direct else self._managed
        request = batch.request or self.workload.requests[batch.flavor]
        count = len(batch.lifetimes_s)
        placed = placer.place(request, count)
        self._started(batch, 0, placed)
        if not placed and count > 1:
            while len(placed) < count and (one := placer.place(request, 1)):
                self._started(batch, len(placed), one)
                placed = placed + one
        if is_measured and len(placed) < count:
            more = count - len(placed)
            self.refusals.append(Refusal(batch.at_s, batch.flavor, more, placer.step))

    def _started(
        self, batch: ServerBatch, first: int, placed: Sequence[Placed]
    ) -> None:
        lives = batch.lifetimes_s[first : first + len(placed)]
        for each, life_s in zip(placed, lives, strict=True):
            self.cloud.count_builds(each.row, 1)
            self._builds.append((batch.at_s + BUILD_S, each.row))
            if life_s is not None:
                self._end_at(batch.at_s + life_s, batch.flavor, each)
            else:
                self.counts[each.row, batch.flavor] += 1

    def _end_at(self, end_s: float, flavor: int, placed: Placed) -> None:
        self._number += 1
        heapq.heappush(self._ends, (end_s, self._number, flavor, placed))
        self.counts[placed.row, flavor] += 1

    def fill(self, at_s: float, shares: Sequence[float]) -> tuple[HostLoad, HostLoad]:
        """Fill a copy of the cloud with instances drawn by their shares, one by one,
        each when the builds before it have ended. What is refused once is refused
        from then on, as nothing leaves. Return the loads at the first refusal and in
        the end."""
        cloud = self.cloud.copy()
        cloud.columns['num_io_ops'][:] = 0
        rng = random.Random(self.seed)
        placer = self.workload.placer(cloud, self.policy, rng, is_direct=True)
        requests = self.workload.requests
        draws = random.Random(f'{self.seed}:{at_s}')
        first: HostLoad | None = None
        none_left: set[int] = set()
        flavors, in_a_row = range(len(shares)), 0
        while in_a_row < REFUSED_IN_A_ROW:
            (flavor,) = draws.choices(flavors, shares)
            if flavor not in none_left and placer.place(requests[flavor], 1):
                in_a_row = 0
                continue
            in_a_row += 1
            none_left.add(flavor)
            first = first or cloud.load()
        assert first is not None
        return first, cloud.load()


class Watch:
    """Measures a simulation: samples all SAMPLE_S, and fillings."""

    def __init__(self, workload: Workload, fill_s: float | None) -> None:
        trace = workload.trace
        self._fill_s = fill_s
        self._flavors = trace.flavors
        # all instances are known, and each host is one place
        nodes = any(group.numa_nodes for group in trace.hosts)
        self._can_move = workload.is_plain and not nodes
        asked: Counter[int] = Counter()
        for batch in workload.batches:
            if batch.at_s >= 0:
                asked[batch.flavor] += len(batch.lifetimes_s)
        self.asked = [asked[at] for at in range(len(trace.flavors))]
        vcpus = [n * f.vcpus for n, f in zip(self.asked, trace.flavors, strict=True)]
        self.asked_vcpus = sum(vcpus)
        self.shares = [n / max(sum(self.asked), 1) for n in self.asked]
        self._vcpu_shares = [n / max(self.asked_vcpus, 1) for n in vcpus]
        self._next_s = 0.0
        self._next_fill_s = 0.0
        self.at_s: list[float] = []
        self.columns: dict[str, list[float]] = {name: [] for name in SERIES}
        self.rooms: list[list[int]] = []
        self._more: dict[str, list[float]] = {}
        self.fills = 0
        self.first_refusal: tuple[float, HostLoad] | None = None

    def until(self, at_s: float, simulation: Simulation, is_end: bool = False) -> None:
        """Take the samples that are due before a time, and in the end at it."""
        while self._next_s < at_s or (is_end and self._next_s == at_s):
            simulation.advance(self._next_s)
            self._sample(self._next_s, simulation)
            self._next_s += SAMPLE_S

    def refused(self, simulation: Simulation) -> None:
        """Remember how full the cloud is at the first refusal."""
        if self.first_refusal is None:
            at_s = simulation.refusals[-1].at_s
            self.first_refusal = at_s, simulation.cloud.load()

    def _sample(self, at_s: float, simulation: Simulation) -> None:
        load = simulation.cloud.load()
        self.at_s.append(at_s)
        self.rooms.append(figures.room(load, self._flavors))
        vcpus, ram = figures.allocated(load)
        dense_vcpus, dense_ram = figures.density(load)
        shares = figures.used_shares(load)
        column = {
            'allocated_vcpus_percent': vcpus,
            'allocated_ram_percent': ram,
            'empty_percent': figures.empty(load),
            'density_vcpus_percent': dense_vcpus or 0.0,
            'unallocatable_percent': figures.unallocatable(
                load, self._flavors, self._vcpu_shares
            ),
            'spread_vcpus_points': float(shares[0].std()),
            'spread_ram_points': float(shares[1].std()),
            'refused_vms': float(sum(r.vms for r in simulation.refusals)),
        }
        for name, value in column.items():
            self.columns[name].append(round(value, 4))
        self._note('density_vcpus_percent', dense_vcpus)
        self._note('density_ram_percent', dense_ram)
        for name, of_hosts in zip(('vcpus', 'ram'), shares, strict=True):
            self._note(f'low_{name}_percent', np.percentile(of_hosts, figures.LOW))
            self._note(f'high_{name}_percent', np.percentile(of_hosts, figures.HIGH))
        if at_s >= self._next_fill_s:
            self._next_fill_s += self._fill_s or DRAIN_S
            self._try(at_s, load, simulation)

    def _try(self, at_s: float, load: HostLoad, simulation: Simulation) -> None:
        """Evacuate, drain and fill copies of the cloud."""
        if self._can_move:
            does = figures.evacuates(load, simulation.counts, self._flavors)
            self._note('evacuates_percent', 100.0 if does else 0.0)
            drained = figures.drainable(load, simulation.counts, self._flavors)
            self._note('drainable_percent', drained)
        if self._fill_s is None or not sum(self.asked):
            return
        first, last = simulation.fill(at_s, self.shares)
        self.fills += 1
        for name, of in (('filled', figures.allocated(first)),
                         ('stranded', figures.stranded(last))):  # fmt: skip
            self._note(f'{name}_vcpus_percent', of[0])
            self._note(f'{name}_ram_percent', of[1])

    def _note(self, name: str, value: float | None) -> None:
        if value is not None:
            self._more.setdefault(name, []).append(float(value))

    def figures(self, refusals: Sequence[Refusal]) -> dict[str, float | None]:
        """Return all figures by name."""
        refused = sum(each.vms for each in refusals)
        vcpus = sum(each.vms * self._flavors[each.flavor].vcpus for each in refusals)
        at_s, load = self.first_refusal or (None, None)
        first = (None, None) if load is None else figures.allocated(load)
        columns = self.columns
        found: dict[str, float | None] = {
            'refused_vms': float(refused),
            'refused_percent': percent(refused, sum(self.asked)),
            'refused_vcpus_percent': percent(vcpus, self.asked_vcpus),
            'first_refusal_s': at_s,
            'first_refusal_vcpus_percent': first[0],
            'first_refusal_ram_percent': first[1],
            'peak_vcpus_percent': max(columns['allocated_vcpus_percent']),
            'peak_ram_percent': max(columns['allocated_ram_percent']),
            'empty_least_percent': min(columns['empty_percent']),
        }
        averaged = {n: c for n, c in columns.items() if n != 'refused_vms'}
        for name, values in {**averaged, **self._more}.items():
            found[name] = statistics.fmean(values)
        return {name: _rounded(found.get(name)) for name in FIGURES}

    def flavors(self, refusals: Sequence[Refusal]) -> list[FlavorCounts]:
        """Return the servers asked and refused of each flavor, and the room for it."""
        steps: Mapping[int, Counter[str]] = {
            at: Counter() for at in range(len(self._flavors))
        }
        for each in refusals:
            steps[each.flavor][each.step] += each.vms
        rooms = np.array(self.rooms)
        return [
            FlavorCounts(
                flavor=flavor.name,
                vcpus=flavor.vcpus,
                ram_mb=flavor.ram_mb,
                share=round(self.shares[at], 6),
                asked=self.asked[at],
                refused=steps[at].total(),
                steps=dict(steps[at]),
                room=round(float(rooms[:, at].mean()), 2),
                room_least=int(rooms[:, at].min()),
            )
            for at, flavor in enumerate(self._flavors)
        ]

    def series(self) -> Series:
        """Return the samples."""
        rooms = {
            flavor.name: [room[at] for room in self.rooms]
            for at, flavor in enumerate(self._flavors)
        }
        return Series(self.at_s, self.columns, rooms)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def measure(
    workload: Workload, policy: Policy, fill_s: float | None, is_direct: bool = False
) -> PartResult:
    """Run a policy over a workload, and return its figures."""
    began_s = time.process_time()
    simulation, watch = Simulation(workload, policy, is_direct), Watch(workload, fill_s)
    simulation.run(watch)
    refusals = simulation.refusals
    return PartResult(
        policy=policy.name,
        part=workload.part,
        hosts=len(simulation.cloud.node_uuids),
        asked_vms=sum(watch.asked),
        asked_vcpus=watch.asked_vcpus,
        window_s=workload.trace.until_s,
        figures=watch.figures(refusals),
        flavors=watch.flavors(refusals),
        series=watch.series(),
        fills=watch.fills,
        took_s=round(time.process_time() - began_s, 2),
    )
