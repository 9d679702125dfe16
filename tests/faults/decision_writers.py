# SPDX-License-Identifier: Apache-2.0
"""Processes that write decisions: some are killed amid that, some write at once.

    python -m tests.faults.decision_writers killed DIRECTORY TIMES
    python -m tests.faults.decision_writers together DIRECTORY PROCESSES RECORDS

The first prints the batches that were written for certain. Batches are told apart by
the flavor of their records, processes by the project.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from novasched.decisions.files import StoreSettings
from novasched.decisions.pending import PendingRecords
from novasched.decisions.record import new_id
from novasched.decisions.writing import DecisionWriter
from tests.support.records.stored_records import make_record, write

BATCH = 7
LONGEST_LIFE_S = 0.03
SMALL = StoreSettings(file_bytes=1 << 18)
BODY_BYTES = 5000
NUMBERS = itertools.count()


def unique(**content):
    """Return a record whose id no other process has."""
    record = make_record(**content)
    one = new_id(time.time(), next(NUMBERS) % 4096 << 12 | os.getpid() % 4096)
    return replace(record, head=replace(record.head, id=one))


def batch_of(name, of=BATCH):
    return [
        unique(
            flavor=name,
            uuid=f'{name}-{number}',
            body={'notes': [random.randbytes(200)]},
        )
        for number in range(of)
    ]


def write_until_killed(directory, life, done):
    """Write batches, and say of each that it is written."""
    writer = DecisionWriter(directory, SMALL)
    number = 0
    while True:
        write(writer, batch_of(f'{life}.{number}'))
        os.write(done, f'{life}.{number}\n'.encode())
        number += 1


def killed(directory, times):
    """Have processes write, one after the other, and kill each amid a write."""
    for life in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            write_until_killed(directory, life, writing)
        os.close(writing)
        with os.fdopen(reading) as done:
            first = done.readline()
            time.sleep(random.uniform(0, LONGEST_LIFE_S))
            os.kill(child, signal.SIGKILL)
            sys.stdout.write(first + done.read())
        os.waitpid(child, 0)


def write_some(directory, process, records):
    """Write records one by one."""
    lost = []
    pending = PendingRecords(
        DecisionWriter(directory, SMALL),
        lambda outcome, number: lost.append(outcome) if outcome == 'lost' else None,
    )
    for number in range(records):
        notes = [random.randbytes(BODY_BYTES)]
        record = unique(project_id=process, flavor=str(number), body={'notes': notes})
        pending.write([record])
    while len(pending):
        time.sleep(0.01)
        pending.write(())
    return lost


def together(directory, processes, records):
    """Have processes write at the same time."""
    children = []
    for process in range(processes):
        child = os.fork()
        if not child:
            sys.exit(bool(write_some(directory, str(process), records)))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    sys.exit(max(codes))


if __name__ == '__main__':
    task = {'killed': killed, 'together': together}[sys.argv[1]]
    task(Path(sys.argv[2]), *map(int, sys.argv[3:]))
