# SPDX-License-Identifier: Apache-2.0
"""Time decide() over 1,000, 10,000 and 100,000 hosts.

Run from the checkout: ``.venv/bin/python -m benchmarks.decide``. Prints the median
in milliseconds, for the default filters with AvailabilityZoneFilter before them
and for five weighers, with a plain request and with one that asks for an image's
architecture, a zone and a capability.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from novasched.scheduler.consumption import consume
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from novasched.scheduler.filters.availability_zone import AvailabilityZoneFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from novasched.scheduler.filters.image_props import ImagePropertiesFilter
from novasched.scheduler.pipeline import Profile, decide, pick, run_filters, weigh
from novasched.scheduler.weighers.cpu import CPUWeigher
from novasched.scheduler.weighers.disk import DiskWeigher
from novasched.scheduler.weighers.io_ops import IoOpsWeigher
from novasched.scheduler.weighers.num_instances import NumInstancesWeigher
from novasched.scheduler.weighers.ram import RAMWeigher
from tests import factories

PROFILE = Profile(
    filters=(
        AvailabilityZoneFilter(),
        ComputeFilter(),
        ComputeCapabilitiesFilter(),
        ImagePropertiesFilter(),
        ServerGroupAntiAffinityFilter(),
        ServerGroupAffinityFilter(),
    ),
    weighers=(
        CPUWeigher(),
        DiskWeigher(),
        IoOpsWeigher(-1.0),
        NumInstancesWeigher(0.0),
        RAMWeigher(),
    ),
)
ZONES = [
    (factories.aggregate(number, availability_zone=f'az{number}'),)
    for number in range(3)
]
REQUESTS = {
    'plain': factories.request(),
    'asking': factories.request(
        image={'hw_architecture': 'x86_64'},
        availability_zone='az1',
        extra_specs={'capabilities:cpu_info:arch': 'x86_64'},
    ),
    'group': factories.request(
        instance_group=factories.group(
            members=[f'member-{number}' for number in range(10)]
        )
    ),
}


def cluster(count):
    """Return hosts in three zones, alike in kind and filled by chance."""
    rng = random.Random(count)
    free = [rng.randrange(0, 65536, 512) for _ in range(count)]
    return factories.hosts(
        host=[f'compute-{number:06}' for number in range(count)],
        aggregates=[ZONES[number % len(ZONES)] for number in range(count)],
        free_ram_mb=free,
        free_disk_mb=[rng.randrange(0, 1024) * 1024 for _ in range(count)],
        vcpus_used=[rng.randrange(0, 32) for _ in range(count)],
        num_instances=[rng.randrange(0, 20) for _ in range(count)],
        num_io_ops=[rng.randrange(0, 3) for _ in range(count)],
        cpu_info=['{"arch": "x86_64", "model": "Cascadelake"}'] * count,
        service_up=[rng.random() > 0.01 for _ in range(count)],
        instances=[{f'member-{number}': None} for number in range(count)],
    )


def median_ms(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def main():
    """Print one line per number of hosts and kind of request."""
    rng = random.Random(1)
    parts = ('decide', 'filters', 'weighers', 'pick', 'consume')
    print('   hosts  request ', *(f'{part:>9}' for part in parts))  # noqa: T201
    for count in (1000, 10000, 100000):
        hosts = cluster(count)
        rounds = max(10, 200000 // count)
        for kind, request in REQUESTS.items():
            survivors, _ = run_filters(PROFILE.filters, hosts, request)
            totals = weigh(PROFILE.weighers, survivors, request).totals
            row = int(survivors.rows[0])
            calls = (
                lambda h=hosts, r=request: decide(PROFILE, h, r, rng),
                lambda h=hosts, r=request: run_filters(PROFILE.filters, h, r),
                lambda s=survivors, r=request: weigh(PROFILE.weighers, s, r),
                lambda t=totals: pick(PROFILE, t, rng),
                lambda s=survivors, o=row, r=request: consume(s, o, r),
            )
            times = ' '.join(f'{median_ms(call, rounds):9.3f}' for call in calls)
            print(f'{count:8}  {kind:8} {times}')  # noqa: T201


if __name__ == '__main__':
    sys.exit(main())
