# SPDX-License-Identifier: Apache-2.0
"""Figures of hosts, against their definitions in plain Python."""

import itertools
import random

import numpy as np
import pytest

from novasched.policy_lab import figures
from novasched.policy_lab.figures import HostLoad
from tests.support.clouds.traces import FLAVORS

SHARES = (0.5, 0.3, 0.2)


def cloud(seed):
    """Return a load with the instances of each flavor by host."""
    rng = random.Random(seed)
    sizes = [rng.choice(((8, 32768), (16, 24576))) for _ in range(7)]
    counts = np.zeros((len(sizes), len(FLAVORS)), np.int64)
    used = [[0, 0] for _ in sizes]
    for _ in range(rng.randrange(60)):
        host, at = rng.randrange(len(sizes)), rng.randrange(len(FLAVORS))
        flavor = FLAVORS[at]
        if (
            used[host][0] + flavor.vcpus <= sizes[host][0]
            and used[host][1] + flavor.ram_mb <= sizes[host][1]
        ):
            used[host][0] += flavor.vcpus
            used[host][1] += flavor.ram_mb
            counts[host, at] += 1
    columns = [*zip(*sizes, strict=True), *zip(*used, strict=True)]
    return HostLoad(*map(np.array, columns), counts.sum(axis=1)), counts


def test_room_is_within_numa_nodes():
    nodes = np.array([[3, 8], [2, 0]]), np.array([[8192, 8192], [32768, 32768]])
    whole = np.array([9, 9])
    load = HostLoad(whole, whole * 4096, whole * 0, whole * 0, whole, nodes)
    assert figures.room(load, FLAVORS) == [3 + 4 + 2, 1, 1]


def frees(load):
    return list(zip(load.free_vcpus.tolist(), load.free_ram_mb.tolist(), strict=True))


def plain_slots(free, flavor):
    return min(free[0] // flavor.vcpus, free[1] // flavor.ram_mb)


@pytest.mark.parametrize('seed', range(8))
def test_figures_equal_their_definitions(seed):
    load, _ = cloud(seed)
    whole = int(load.vcpus.sum()), int(load.ram_mb.sum())
    used = int(load.used_vcpus.sum()), int(load.used_ram_mb.sum())
    taken = [at for at, count in enumerate(load.instances) if count]
    assert figures.allocated(load) == pytest.approx(
        [100 * u / w for u, w in zip(used, whole, strict=True)]
    )
    assert figures.density(load)[1] == pytest.approx(
        100 * used[1] / sum(int(load.ram_mb[at]) for at in taken)
    )
    assert figures.empty(load) == pytest.approx(100 * (7 - len(taken)) / 7)
    assert figures.stranded(load) == pytest.approx(
        [100 - 100 * u / w for u, w in zip(used, whole, strict=True)]
    )
    assert figures.room(load, FLAVORS) == [
        sum(plain_slots(free, flavor) for free in frees(load)) for flavor in FLAVORS
    ]
    assert figures.unallocatable(load, FLAVORS, SHARES) == pytest.approx(
        sum(
            100 * share * free[0] / whole[0]
            for free in frees(load)
            for share, flavor in zip(SHARES, FLAVORS, strict=True)
            if not plain_slots(free, flavor)
        )
    )


def plainly_emptied(free, counts, load, host, closed):
    """Move all of a host by best fit; return whether that went."""
    closed.add(host)
    order = sorted(
        range(len(FLAVORS)),
        key=lambda at: (
            -max(
                FLAVORS[at].vcpus / load.vcpus.mean(),
                FLAVORS[at].ram_mb / load.ram_mb.mean(),
            )
        ),
    )
    moving = itertools.chain(*([at] * int(counts[host][at]) for at in order))
    for at in moving:
        flavor = FLAVORS[at]
        fitting = [
            (
                free[to][0] / load.vcpus[to] + free[to][1] / load.ram_mb[to],
                to,
            )
            for to in range(len(free))
            if to not in closed and plain_slots(free[to], flavor)
        ]
        if not fitting:
            return False
        to = min(fitting)[1]
        free[to] = free[to][0] - flavor.vcpus, free[to][1] - flavor.ram_mb
        counts[to][at] += 1
    return True


@pytest.mark.parametrize('seed', range(8))
def test_hosts_are_emptied_by_best_fit(seed):
    load, counts = cloud(seed)
    shares = (load.used_vcpus / load.vcpus).tolist()
    fullest = shares.index(max(shares))
    assert figures.evacuates(load, counts, FLAVORS) == plainly_emptied(
        frees(load), counts.tolist(), load, fullest, set()
    )
    free, moved, closed, drained = frees(load), counts.tolist(), set(), 0
    for host in sorted(range(7), key=shares.__getitem__):
        if not plainly_emptied(free, moved, load, host, closed):
            break
        drained += 1
    assert figures.drainable(load, counts, FLAVORS) == pytest.approx(100 * drained / 7)


def test_density_of_empty_hosts_is_none():
    none = np.zeros(2, np.int64)
    load = HostLoad(np.array([4, 4]), np.array([8, 8]), none, none, none)
    assert figures.density(load) == (None, None)
    assert figures.empty(load) == 100.0
