# SPDX-License-Identifier: Apache-2.0
"""Time requests for 50 and for 1,000 servers, over 1,000 and 10,000 hosts.

Run from the checkout: ``.venv/bin/python -m benchmarks.multi_create``. Prints, for
nova's default filters and weighers, the median CPU milliseconds of one request with
two alternates per server, from the answer of placement to the selections, and how many
MiB its largest moment adds, as tracemalloc counts them. Placement is a fake that grants
all claims at once: what claims cost is not in here. ``plain`` and ``group`` are the
requests of ``benchmarks.decide``; the members of the group are kept apart if may be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
import tracemalloc

from benchmarks.decide import cluster, profile, table
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.ports import Candidates
from tests.support.clouds import factories
from tests.support.clouds.driving import drive, names
from tests.support.clouds.fakes import (
    VERSION,
    FakePlacement,
    FakeView,
)

AMOUNTS = {'VCPU': 1, 'MEMORY_MB': 1024, 'DISK_GB': 10}


def offered(hosts):
    """Return what placement offers: one candidate per host, and what is free."""
    summaries, requests = {}, []
    columns = zip(
        hosts.uuid.tolist(),
        (64 - hosts.vcpus_used).tolist(),
        hosts.free_ram_mb.tolist(),
        (hosts.free_disk_mb // 1024).tolist(),
        strict=True,
    )
    for uuid, *free in columns:
        resources = zip(AMOUNTS, free, strict=True)
        summaries[uuid] = {
            'resources': {
                name: {'capacity': amount, 'used': 0} for name, amount in resources
            }
        }
        allocations = {uuid: {'resources': AMOUNTS}}
        requests.append({'allocations': allocations, 'mappings': {'': [uuid]}})
    return Candidates(tuple(requests), VERSION, summaries)


def request(kind, uuids):
    group = factories.group('soft-anti-affinity', members=uuids)
    return factories.request(
        instance_group=group if kind == 'group' else None,
        num_instances=len(uuids),
        vcpus=AMOUNTS['VCPU'],
        memory_mb=AMOUNTS['MEMORY_MB'],
        root_gb=AMOUNTS['DISK_GB'],
    )


def place(chosen, hosts, candidates, kind, number):
    """Place so many servers; return the hosts and alternates by name."""
    parts = DriverContext(
        profile=chosen,
        view=FakeView(hosts),
        placement=FakePlacement(),
        rng=random.Random(1),
    )
    uuids = [f'b0000000-0000-4000-8000-{index:012}' for index in range(number)]
    asked, driver = request(kind, uuids), FilterScheduler(parts)
    return names(
        drive(driver, parts.placement, uuids, asked, True, candidates=candidates)
    )


def cpu_ms(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1000


def peak_mib(call):
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1024**2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    parser.add_argument('--servers', type=int, nargs='+', default=[50, 1000])
    parser.add_argument('--rounds', type=int, default=3)
    return parser.parse_args()


def main():
    """Print one line per number of hosts, of servers, and kind of request.

    Two versions that select the same have the same digest.
    """
    args, chosen = arguments(), profile({})
    print(f'{"hosts":>7} {"servers":>7} request {"ms":>9} {"MiB":>8}  digest')  # noqa: T201
    for count in args.hosts:
        hosts = table(cluster(count))
        candidates = offered(hosts)
        for number in args.servers:
            for kind in ('plain', 'group'):
                given = chosen, hosts, candidates, kind, number
                text = json.dumps(place(*given)).encode()
                digest = hashlib.sha256(text).hexdigest()[:8]
                ms = cpu_ms(lambda given=given: place(*given), args.rounds)
                mib = peak_mib(lambda given=given: place(*given))
                row = f'{count:7} {number:7} {kind:7} {ms:9.1f} {mib:8.1f}  {digest}'
                print(row, flush=True)  # noqa: T201


if __name__ == '__main__':
    sys.exit(main())
