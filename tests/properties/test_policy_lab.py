# SPDX-License-Identifier: Apache-2.0
"""A simulated policy picks the hosts that a plain simulation picks."""

import random
from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.policy_lab.cloud import BUILD_S, plain_cloud
from novasched.policy_lab.placing import DirectPlacer, ManagedPlacer, request_of
from novasched.policy_lab.simulation import Simulation
from tests.support.clouds.traces import FLAVORS, HOSTS, NODES, policy, workload
from tests.support.tables.examples import examples

NODE_FILTERS = 'filters:ComputeFilter+NUMATopologyFilter'


@dataclass
class PlainHost:
    vcpus: int
    ram_mb: int
    used: int = 0
    free_mb: int = 0
    builds: int = 0

    def fits(self, flavor):
        return self.vcpus - self.used >= flavor.vcpus and self.free_mb >= flavor.ram_mb

    def take(self, flavor, sign=1):
        self.used += sign * flavor.vcpus
        self.free_mb -= sign * flavor.ram_mb


class PlainSimulation:
    """The filter scheduler with weights of CPU, io-ops and RAM, host by host."""

    def __init__(self, cpu, ram, io):
        self.multipliers = cpu, io, ram
        self.hosts = [
            PlainHost(group.vcpus, group.ram_mb, 0, group.ram_mb)
            for group in HOSTS
            for _ in range(group.count)
        ]
        self.picks = []

    def totals(self, order, taken, flavor):
        """Return the sums of the weights of hosts, less what this request took."""
        raw = [
            [
                float(self.hosts[at].vcpus - self.hosts[at].used)
                - taken[at] * flavor.vcpus
                for at in order
            ],
            [float(self.hosts[at].builds + taken[at]) for at in order],
            [float(self.hosts[at].free_mb - taken[at] * flavor.ram_mb) for at in order],
        ]
        sums = [0.0] * len(order)
        for multiplier, values in zip(self.multipliers, raw, strict=True):
            values = [max(value, 0.0) for value in values]
            high = max(values)
            for place, value in enumerate(values):
                sums[place] += multiplier * (value / high if high else 0.0)
        return sums

    def place(self, flavor, count):
        """Return the hosts of so many instances, or none."""
        order = [at for at, host in enumerate(self.hosts) if host.fits(flavor)]
        slots = {
            at: min(
                (self.hosts[at].vcpus - self.hosts[at].used) // flavor.vcpus,
                self.hosts[at].free_mb // flavor.ram_mb,
            )
            for at in order
        }
        taken, picks = dict.fromkeys(order, 0), []
        for _ in range(count):
            if len(order) > 1:
                sums = self.totals(order, taken, flavor)
                ranked = sorted(range(len(order)), key=lambda p: -sums[p])
                order = [order[place] for place in ranked]
            free = [at for at in order if taken[at] < slots[at]]
            if not free:
                return []
            picks.append(free[0])
            taken[free[0]] += 1
        for at in picks:
            self.hosts[at].take(flavor)
        return picks

    def run(self, batches):
        ends, builds = [], deque()
        for batch in batches:
            now, flavor = batch.at_s, FLAVORS[batch.flavor]
            while builds and builds[0][0] <= now:
                self.hosts[builds.popleft()[1]].builds -= 1
            for end in sorted(end for end in ends if end[0] <= now):
                ends.remove(end)
                self.hosts[end[1]].take(FLAVORS[end[2]], -1)
            picks = self.placed(flavor, len(batch.lifetimes_s), now, builds)
            self.picks.append(picks)
            ends += [
                (now + life_s, at, batch.flavor)
                for at, life_s in zip(picks, batch.lifetimes_s, strict=False)
                if life_s is not None
            ]

    def placed(self, flavor, count, now, builds):
        def built(picks):
            for at in picks:
                self.hosts[at].builds += 1
                builds.append((now + BUILD_S, at))
            return picks

        picks = built(self.place(flavor, count))
        if not picks and count > 1:
            while len(picks) < count and (one := built(self.place(flavor, 1))):
                picks = picks + one
        return picks


class PicksSeen(Simulation):
    """A simulation that keeps the rows of all picks, by batch."""

    def __post_init__(self):
        super().__post_init__()
        self.picks = []

    def _place(self, batch):
        self.picks.append([])
        super()._place(batch)

    def _started(self, batch, first, placed):
        self.picks[-1] += [each.row for each in placed]
        super()._started(batch, first, placed)


def simulated(load, made, **how):
    simulation = PicksSeen(load, made, **how)
    simulation.run()
    return simulation


@given(
    st.integers(0, 2**20),
    st.sampled_from([(1, 1, -1), (-1, -1, -1), (-1, -2.5, 0), (0.5, -1, 3)]),
    st.booleans(),
)
@examples(12)
def test_picks_equal_a_plain_simulation(seed, multipliers, is_direct):
    cpu, ram, io = multipliers
    load = workload(seed=seed)
    plain = PlainSimulation(cpu, ram, io)
    plain.run(load.batches)
    made = policy(f'cpu:{cpu},ram:{ram},io_ops:{io}')
    assert simulated(load, made, is_direct=is_direct).picks == plain.picks


@given(
    st.integers(0, 2**20),
    st.sampled_from(
        [
            'subset:3',
            'shuffle:true,cpu:0,ram:0',
            'filters:ComputeFilter+NumInstancesFilter,max_instances_per_host:3',
            'filters:IoOpsFilter,max_io_ops_per_host:2,num_instances:1',
            'cpu:-1,ram:-1,keep_room:10,keep_room_flavors:1:2048+4:8192=2',
        ]
    ),
    st.sampled_from([HOSTS, NODES]),
)
@examples(12)
def test_direct_picks_equal_the_managers(seed, text, hosts):
    load = workload(hosts, seed=seed)
    if hosts is NODES:
        text = f'numa_packing:true,{NODE_FILTERS},{text}'
    direct, managed = (
        simulated(load, policy(text), is_direct=is_direct)
        for is_direct in (True, False)
    )
    assert direct.picks == managed.picks
    assert direct.refusals == managed.refusals


@given(st.integers(0, 2**20), st.sampled_from([HOSTS, NODES]))
@examples(6)
def test_ended_instances_give_everything_back(seed, hosts):
    load = workload(hosts, seed=seed)
    simulation = simulated(load, policy('cpu:-1,ram:-1'))
    staying = simulation.counts.copy()
    simulation.advance(float('inf'))
    if hosts is NODES:
        free = simulation.cloud.load()
        vcpus, ram_mb = (each.sum(axis=0) for each in free.nodes)
        assert (vcpus == free.free_vcpus).all()
        assert (ram_mb == free.free_ram_mb).all()
    left = simulation.cloud.load()
    assert simulation.counts.sum() == left.instances.sum() <= staying.sum()
    vcpus = [flavor.vcpus for flavor in FLAVORS]
    assert (simulation.counts @ vcpus == left.used_vcpus).all()
    assert not simulation.cloud.columns['num_io_ops'].any()


@pytest.mark.parametrize('kind', [DirectPlacer, ManagedPlacer])
def test_refused_batch_takes_nothing_and_names_its_step(kind):
    made = policy('filters:ComputeFilter+NumInstancesFilter,max_instances_per_host:1')
    cloud = plain_cloud(HOSTS)
    placer = kind(cloud, made, random.Random(1))
    small = request_of(FLAVORS[0])
    assert len(placer.place(small, 5)) == 5
    assert placer.place(small, 2) == []
    assert placer.step == 'NumInstancesFilter'
    assert placer.place(request_of(FLAVORS[1]), 99) == []
    assert cloud.load().instances.tolist() == [1] * 5


@pytest.mark.parametrize('packs', ['true', 'false'])
def test_each_server_is_within_one_numa_node(packs):
    load = workload(NODES, before_s=0)
    made = policy(f'cpu:-1,ram:-1,numa_packing:{packs},{NODE_FILTERS}')
    simulation = simulated(load, made, is_direct=True)
    refused = {FLAVORS[each.flavor].name for each in simulation.refusals}
    assert 'fat' in refused
    vcpus, ram_mb = simulation.cloud.load().nodes
    assert vcpus.min() >= 0
    assert ram_mb.min() >= 0


def test_pinned_server_takes_vcpus_where_there_are_no_dedicated_ones():
    cloud = plain_cloud(HOSTS)
    placer = ManagedPlacer(cloud, policy('filters:ComputeFilter'), random.Random(1))
    pinned = request_of(FLAVORS[0])
    specs = {'hw:cpu_policy': 'dedicated'}
    pinned = pinned.replaced(flavor=pinned.flavor.replaced(extra_specs=specs))
    assert len(placer.place(pinned, 2)) == 2
    assert cloud.load().used_vcpus.sum() == 2
