# SPDX-License-Identifier: Apache-2.0
"""Measure allocation candidates computed from a table of providers: milliseconds.

benchmarks/search.py [--hosts 10000] [--repeat 20]
"""

from __future__ import annotations

import argparse
import itertools
import time
import uuid
from collections.abc import Callable

import numpy as np

from novasched.providers.candidates import search
from novasched.providers.table import Inventory, ProviderTable
from novasched.resources.query import Group, Query

COMMON = Query(
    (
        Group(
            resources={'VCPU': 2, 'MEMORY_MB': 2048, 'DISK_GB': 20},
            forbidden=frozenset(['T1']),
        ),
    ),
    root_required=frozenset(['T2']),
    root_forbidden=frozenset(['T3']),
)
DEVICES = Query(
    (
        Group(resources={'VCPU': 2, 'MEMORY_MB': 2048}),
        Group(suffix='_a', resources={'DEVICE': 1}),
        Group(suffix='_b', resources={'DEVICE': 1}),
    ),
    group_policy='isolate',
)


def inventory(rows: np.ndarray, room: int) -> Inventory:
    """Return like inventories of which nothing is used."""
    full = np.full(len(rows), room)
    ones = np.ones(len(rows), np.int64)
    return Inventory(rows, ones, full, ones, full, full, np.zeros(len(rows), np.int64))


def table(hosts: int, children: int) -> ProviderTable:
    """Return hosts of so many children each, which have one device."""
    size = 1 + children
    rows = np.arange(hosts * size)
    roots = rows - rows % size
    tops, below = rows[rows % size == 0], rows[rows % size != 0]
    bits = np.zeros((len(rows), 13), np.uint32)
    bits[tops, 0] = 0b100
    return ProviderTable(
        rows,
        [str(uuid.UUID(int=row)) for row in rows.tolist()],
        np.where(rows == roots, -1, roots),
        roots,
        np.where(rows == roots, rows + size, rows + 1),
        frozenset(['VCPU', 'MEMORY_MB', 'DISK_GB', 'DEVICE']),
        {
            'VCPU': inventory(tops, 64),
            'MEMORY_MB': inventory(tops, 262144),
            'DISK_GB': inventory(tops, 2000),
            'DEVICE': inventory(below, 1),
        },
        {f'T{n}': n for n in range(400)},
        bits,
        {},
    )


def fastest(call: Callable[[], object], repeat: int) -> float:
    """Return the milliseconds of the fastest call."""
    took = []
    for _ in range(repeat):
        since = time.process_time()
        call()
        took.append(time.process_time() - since)
    return min(took) * 1e3


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--repeat', type=int, default=20)
    wanted = parser.parse_args()
    flat, trees = table(wanted.hosts, 0), table(wanted.hosts, 8)

    def first() -> list[object]:
        return list(itertools.islice(search(DEVICES, trees), 1000))

    for name, call in (
        ('common query, flat hosts', lambda: search(COMMON, flat).anchors),
        ('common query, trees of nine', lambda: search(COMMON, trees).anchors),
        ('two devices, trees of nine', lambda: search(DEVICES, trees).anchors),
        ('two devices, first 1000 candidates', first),
    ):
        print(f'{fastest(call, wanted.repeat):8.2f} ms  {name}')  # noqa: T201


if __name__ == '__main__':
    main()
