# SPDX-License-Identifier: Apache-2.0
"""Time the counting of capacity, and diagnoses of placement.

Run from the checkout: ``.venv/bin/python -m benchmarks.capacity [--hosts N ...]``.
Prints milliseconds of processor time: for 50 flavors without NUMA nodes by nova's
default filters and by those with limits of memory, CPUs, disk and instances; for one
flavor with NUMA nodes on hosts whose usage differs on all, ``first`` and ``again``;
and for the diagnosis of one query.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

from benchmarks import fit
from novasched.inspection.session.host_filling import room_by_copies
from novasched.plugins import profile_from_conf
from novasched.providers.contents import Contents, build
from novasched.providers.diagnosis import diagnose
from novasched.resources.query import Group, Query
from novasched.scheduler.capacity import CellCounter, Counting
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.filters.legacy.overcommit import (
    CoreFilter,
    DiskFilter,
    RamFilter,
)
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf

FLAVORS = 50
LIMITS = (RamFilter(), CoreFilter(), DiskFilter(), NumInstancesFilter(50))
CLASSES = {1: 'VCPU', 2: 'MEMORY_MB', 3: 'DISK_GB'}
TOTALS = {1: (128, 4.0), 2: (524288, 1.0), 3: (4000, 1.0)}


def contents(hosts, rng):
    """Return the providers of hosts that are partly used; one of ten is disabled."""
    ids = np.arange(1, hosts + 1)
    none = np.zeros(hosts, np.int64)
    inventories = [
        (id_, class_, total, 0, 1, total, 1, ratio, ratio)
        for id_ in ids.tolist()
        for class_, (total, ratio) in TOTALS.items()
    ]
    usage = [
        (id_, class_, rng.randrange(int(total * ratio)))
        for id_ in ids.tolist()
        for class_, (total, ratio) in TOTALS.items()
    ]
    traits = [(id_, 1) for id_ in ids.tolist() if id_ % 10 == 0]
    return Contents(
        providers=np.stack([ids, none, ids, none], axis=1),
        inventories=np.array(inventories, float),
        usage=np.array(usage),
        traits=np.array(traits),
        aggregates=np.array([(id_, 1 + id_ % 3) for id_ in ids.tolist()]),
        uuids={id_: f'p{id_}' for id_ in ids.tolist()},
        class_names=CLASSES,
        trait_names={1: 'COMPUTE_STATUS_DISABLED', 2: 'HW_CPU_X86_AVX512F'},
        aggregate_uuids={n: f'az{n}' for n in (1, 2, 3)},
    )


def hosts_of(count, rng):
    """Return hosts whose usage is not the same on any two."""
    return factories.hosts(
        count,
        total_usable_ram_mb=[524288] * count,
        free_ram_mb=[rng.randrange(524288) for _ in range(count)],
        total_usable_disk_gb=[4000] * count,
        free_disk_mb=[rng.randrange(4000) * 1024 for _ in range(count)],
        vcpus_total=[128] * count,
        vcpus_used=[rng.randrange(512) for _ in range(count)],
        num_instances=[rng.randrange(50) for _ in range(count)],
        cpu_allocation_ratio=[4.0] * count,
        ram_allocation_ratio=[1.0] * count,
        disk_allocation_ratio=[1.0] * count,
    )


def query_of(vcpus, memory_mb, disk_gb, **more):
    amounts = {'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb}
    forbidden = frozenset(['COMPUTE_STATUS_DISABLED'])
    return Query((Group(resources=amounts, **more),), root_forbidden=forbidden)


def took_ms(call):
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e3


def flat(profile, hosts, table):
    """Count 50 flavors."""
    for number in range(FLAVORS):
        sizes = 1 + number % 16, 1024 * (1 + number), 10 + number
        request = factories.request(
            vcpus=sizes[0], memory_mb=sizes[1], root_gb=sizes[2]
        )
        room = room_by_copies(query_of(*sizes), table)
        Counting(profile, request).slots(hosts, room)


def report(count):
    rng = random.Random(count)
    table, hosts = build(contents(count, rng)), hosts_of(count, rng)
    usual = profile_from_conf(make_conf())
    limited = Profile(filters=(*usual.filters, *LIMITS), weighers=())
    for name, profile in (('default filters', usual), ('limits', limited)):
        flat(profile, hosts, table)
        ms = min(took_ms(lambda p=profile: flat(p, hosts, table)) for _ in range(3))
        print(f'{count:6} hosts  {ms:9.1f} ms  {FLAVORS} flavors, {name}')  # noqa: T201
    numa = fit.table([fit.topology(number) for number in range(count)])
    counting = Counting(
        Profile(filters=(fit.NUMATopologyFilter(),), weighers=()),
        factories.request(
            numa_topology=factories.guest_topology(
                factories.guest_cell(0, range(8), 'dedicated', 16384)
            )
        ),
        CellCounter(),
    )
    room = np.full(count, 16)
    for name in ('first', 'again'):
        ms = took_ms(lambda: counting.slots(numa, room))
        print(f'{count:6} hosts  {ms:9.1f} ms  one NUMA flavor, {name}')  # noqa: T201
    asked = query_of(16, 300000, 20, member_of=(frozenset(['az1']),))
    named = {uuid: uuid for uuid in table.uuids}
    diagnose(asked, table, named)
    ms = min(took_ms(lambda: diagnose(asked, table, named)) for _ in range(5))
    print(f'{count:6} hosts  {ms:9.1f} ms  diagnosis of a query')  # noqa: T201


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    for count in parser.parse_args().hosts:
        report(count)


if __name__ == '__main__':
    main()
