# SPDX-License-Identifier: Apache-2.0
"""Small traces of the policy lab."""

import csv
import dataclasses
import gzip
import io
import random

from novasched.policy_lab import trace
from novasched.policy_lab.policy import parse, policy_of
from novasched.policy_lab.results import FleetGroup
from novasched.policy_lab.simulation import Workload
from novasched.policy_lab.trace import ServerBatch, Trace, TraceFlavor

FLAVORS = (
    TraceFlavor('small', 1, 2048),
    TraceFlavor('large', 4, 8192),
    TraceFlavor('fat', 2, 14336),
)
HOSTS = (FleetGroup(3, 8, 32768), FleetGroup(2, 16, 24576))
NODES = tuple(dataclasses.replace(group, numa_nodes=2) for group in HOSTS)
HOUR = 3600.0


def batches(seed=1, count=60, before_s=-2 * HOUR, until_s=6 * HOUR):
    """Return batches by time whose servers live an hour or so; some stay."""
    rng = random.Random(seed)
    times = sorted(round(rng.uniform(before_s, until_s), 1) for _ in range(count))
    return [
        ServerBatch(
            at_s,
            rng.randrange(len(FLAVORS)),
            [
                None if rng.random() < 0.05 else round(rng.expovariate(1 / HOUR), 1)
                for _ in range(rng.choice((1, 1, 2, 5)))
            ],
        )
        for at_s in times
    ]


def make_trace(hosts=HOSTS, parts=(1,), until_s=6 * HOUR):
    return Trace('a small trace', hosts, FLAVORS, until_s, parts)


def workload(hosts=HOSTS, seed=1, **more):
    """Return a trace in memory, with its first part."""
    made = batches(seed, **more)
    return Workload.of_trace(make_trace(hosts), 1, made)


def written(directory, parts=(1, 2), **more):
    """Write a trace of such parts; return the directory."""
    made = {number: batches(number, **more) for number in parts}
    trace.write(directory, make_trace(parts=tuple(parts)), made)
    return directory


def policy(text='default', name='policy'):
    return policy_of(parse(f'{name}={text}'))


def azure_file(path, batch_count=40, seed=7):
    """Write arrivals in the form of the file of Azure; return the path."""
    rng = random.Random(seed)
    sizes = {'a': (1, 768), 'm': (8, 14336)}
    rows, vm = [], 0
    for batch in range(batch_count):
        at_s, name = 1799700 + batch * 9000, rng.choice('am')
        for _ in range(rng.choice((1, 3))):
            life = rng.choice((120, 5400, 90000, None))
            rows.append((at_s, 'create', vm, batch, name, *sizes[name], life or '', 0))
            vm += 1
    text = io.StringIO()
    names = 't event vm batch flavor vcpus ram_mb lifetime_s censored'
    csv.writer(text).writerows([names.split(), *rows])
    path.write_bytes(gzip.compress(text.getvalue().encode()))
    return path
