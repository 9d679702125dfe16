# SPDX-License-Identifier: Apache-2.0
"""Time what is done with the answer of placement to a candidates query.

Run from the checkout: ``.venv/bin/python -m benchmarks.candidates``. Prints, for
answers of 1,000 and of 5,000 hosts, without and with four child providers each:
their size, the CPU time in milliseconds to parse all of it (as before the summaries
were left alone), to parse the candidates and file them, and to do that and then
look at the summaries; and the most memory that each takes, in MiB.
"""

from __future__ import annotations

import json
import time
import tracemalloc
import uuid

from novasched.claiming.verification import RemainingCapacity
from novasched.placement import client
from novasched.ports import Candidates

HOSTS = (1000, 5000)
CHILDREN = (0, 4)
TRAITS = [f'{kind}_{n:03}' for kind in ('COMPUTE_FEATURE', 'HW_CPU') for n in range(30)]
TIMES = 7


def summary(root, parent, traits, **capacities):
    resources = {rc: {'capacity': n, 'used': 0} for rc, n in capacities.items()}
    return {
        'resources': resources,
        'traits': traits,
        'parent_provider_uuid': parent,
        'root_provider_uuid': root,
    }


def answer(hosts, children):
    """Return the uuids of the hosts and what placement says of them, as bytes."""
    uuids = [str(uuid.uuid4()) for _ in range(hosts)]
    wanted = {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 10}
    requests = [
        {'allocations': {u: {'resources': wanted}}, 'mappings': {'': [u]}}
        for u in uuids
    ]
    summaries = {}
    for root in uuids:
        summaries[root] = summary(
            root, None, TRAITS, VCPU=64, MEMORY_MB=65536, DISK_GB=1000
        )
        for _ in range(children):
            child = str(uuid.uuid4())
            summaries[child] = summary(root, root, ['OWNER_NOVA'], VGPU=8)
    body = {'allocation_requests': requests, 'provider_summaries': summaries}
    return frozenset(uuids), json.dumps(body).encode()


def whole(nodes, content):
    found = json.loads(content)
    Candidates(found['allocation_requests'], '1.36').by_provider(nodes)


def filed(nodes, content):
    found = client.read(content)
    found.by_provider(nodes)
    return found


def used(nodes, content):
    """File the candidates, and ask whether there is room where some was taken."""
    found = filed(nodes, content)
    room = RemainingCapacity(found.summaries)
    room.take(found.requests[0])
    return room.fits(found.requests[0])


def took_ms(work, *values):
    best = float('inf')
    for _ in range(TIMES):
        start = time.process_time()
        work(*values)
        best = min(best, time.process_time() - start)
    return best * 1000


def peak_mib(work, *values):
    tracemalloc.start()
    work(*values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def main():
    for hosts in HOSTS:
        for children in CHILDREN:
            nodes, content = answer(hosts, children)
            size = len(content) / 2**20
            print(f'{hosts} hosts with {children} children: {size:.1f} MiB')  # noqa: T201
            for work in (whole, filed, used):
                ms = took_ms(work, nodes, content)
                mib = peak_mib(work, nodes, content)
                print(f'  {work.__name__:6} {ms:8.1f} ms {mib:8.1f} MiB')  # noqa: T201


if __name__ == '__main__':
    main()
