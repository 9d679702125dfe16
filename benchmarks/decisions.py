# SPDX-License-Identifier: Apache-2.0
"""Measure what the decision log costs: a record written, one found, 200,000 counted.

.venv/bin/python benchmarks/decisions.py [RECORDS]
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from novasched.decisions import files
from novasched.decisions.body import body_of
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.record import DecisionRecord, Head, new_id
from novasched.decisions.writing import DecisionWriter

RECORDS = 200_000
BATCH = 64
BODY_BYTES = 1300
"""Of a typical body of 1,000 hosts, compressed."""
LOOKUPS = 200
PLUGINS = ('NUMATopologyFilter', 'ComputeFilter', 'ServerGroupAntiAffinityFilter')


def record(number: int, chance: random.Random) -> DecisionRecord:
    """Return a record as large as usual; one in three failed."""
    at_s = 1_790_000_000 + number / 2
    failed = number % 3 == 0
    head = Head(
        id=new_id(at_s, chance.getrandbits(24)),
        at=int(at_s * 1e6),
        request_id=f'req-{chance.getrandbits(128):032x}',
        global_request_id=f'req-{chance.getrandbits(128):032x}',
        project_id=f'{chance.getrandbits(128):032x}',
        user_id=f'{chance.getrandbits(128):032x}',
        flavor=f'm1.{number % 20}',
        zone=f'az{number % 3}',
        result='unschedulable' if failed else 'scheduled',
        blocker='filters' if failed else '',
        plugin=chance.choice(PLUGINS) if failed else '',
        code='not-enough-dedicated-cpus' if failed else '',
        hosts=1000,
        candidates=100,
        took_us=20_000,
        worker='controller-1:4242',
    )
    server = {
        'uuid': f'{chance.getrandbits(128):032x}',
        'host': None if failed else f'cmp-{number % 1000}',
    }
    body = {'servers': [server], 'notes': [chance.randbytes(BODY_BYTES)]}
    return DecisionRecord(head, body_of(body))


def main(number: int = RECORDS) -> None:
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(dir=os.environ.get('TMPDIR')) as scratch:
        directory = Path(scratch)
        writer = DecisionWriter(directory)
        cpu_s, took_s, ids = 0.0, [], []
        for start in range(0, number, BATCH):
            batch = [
                record(n, chance) for n in range(start, min(start + BATCH, number))
            ]
            ids += [each.head.id for each in batch]
            began, cpu = time.perf_counter(), time.process_time()
            writer.write_encoded([writer.encoded(each) for each in batch])
            cpu_s += time.process_time() - cpu
            took_s.append(time.perf_counter() - began)
        writer.close()
        ordered = sorted(took_s)
        size = sum(path.stat().st_size for path in directory.iterdir())
        print(  # noqa: T201
            f'{number} records in {len(files.numbered(directory))} files: '
            f'{size / number:.0f} bytes each; written in {cpu_s / number * 1e6:.0f} us '
            f'of CPU each; a transaction of {BATCH}: median '
            f'{statistics.median(ordered) * 1e3:.1f} ms, p99 '
            f'{ordered[int(0.99 * len(ordered))] * 1e3:.1f} ms'
        )
        reader = DecisionFiles(directory)

        def timed(name: str, ask: object, times: int) -> None:
            each = []
            for _ in range(times):
                began = time.perf_counter()
                ask()  # type: ignore[operator]
                each.append(time.perf_counter() - began)
            print(f'{name}: median {statistics.median(each) * 1e3:.1f} ms')  # noqa: T201

        timed('read one by its id', lambda: reader.read(chance.choice(ids)), LOOKUPS)
        timed(
            'read by 12 letters', lambda: reader.read(chance.choice(ids)[:14]), LOOKUPS
        )
        timed('newest 50', lambda: reader.find(Criteria()), LOOKUPS)
        timed('of one server', lambda: reader.find(Criteria(server='none')), LOOKUPS)
        for by in ('plugin', 'flavor', 'host', 'day'):
            timed(f'count by {by}', lambda by=by: reader.count(by, Criteria()), 3)


if __name__ == '__main__':
    main(*map(int, sys.argv[1:]))
