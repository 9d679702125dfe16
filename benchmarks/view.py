# SPDX-License-Identifier: Apache-2.0
"""Measure the cluster view: milliseconds per refresh and per table of hosts.

    benchmarks/view.py [--hosts 10000] [--database URL] [--repeat 20]

The database must be empty; without one, SQLite in a temporary directory is used.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched import opts
from novasched.app import SystemClock
from novasched.cluster.cells import Cells
from novasched.cluster.view import ClusterView
from novasched.db import engines, schema, tables
from novasched.db.stores import SqlCellStores
from novasched.db.transactions import Database
from novasched.ports import Cell
from novasched.scheduler.aggregates import Aggregate

LONG_AGO = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
CHUNK = 500
NUMA = json.dumps(
    {
        'cells': [
            {'id': cell, 'cpus': f'{cell * 32}-{cell * 32 + 31}', 'mem': {'total': 1}}
            for cell in range(8)
        ]
    }
)


class OneCell:
    """An API database that knows one cell and 20 aggregates."""

    def __init__(self, url: str, hosts: int) -> None:
        self._url = url
        self._aggregates = [
            Aggregate(
                number,
                str(uuid.UUID(int=number)),
                f'agg{number}',
                frozenset(f'host-{i}' for i in range(number, hosts, 20)),
                {'availability_zone': f'az{number % 3}'},
            )
            for number in range(20)
        ]

    def cells(self) -> list[Cell]:
        return [Cell(str(uuid.UUID(int=1)), 'cell1', None, self._url, False)]

    def host_cell(self, host: str) -> str | None:
        return None

    def aggregates(self) -> list[Aggregate]:
        return self._aggregates


def utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def node_row(number: int) -> dict[str, Any]:
    return {
        'created_at': LONG_AGO,
        'updated_at': LONG_AGO,
        'uuid': str(uuid.UUID(int=number)),
        'host': f'host-{number}',
        'hypervisor_hostname': f'node-{number}',
        'vcpus': 64,
        'vcpus_used': number % 64,
        'memory_mb': 262144,
        'memory_mb_used': 1024,
        'local_gb': 4000,
        'local_gb_used': 10,
        'free_ram_mb': 261120,
        'free_disk_gb': 3990,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002002,
        'cpu_info': '{"arch": "x86_64", "model": "Cascadelake"}',
        'supported_instances': '[["x86_64", "kvm", "hvm"]]',
        'stats': json.dumps({'num_instances': str(number % 30), 'io_workload': '0'}),
        'numa_topology': NUMA.replace('"total": 1', f'"total": {number % 1000}'),
        'deleted': 0,
        'mapped': 1,
    }


def service_row(number: int) -> dict[str, Any]:
    return {
        'created_at': LONG_AGO,
        'uuid': str(uuid.UUID(int=number)),
        'host': f'host-{number}',
        'binary': 'nova-compute',
        'topic': 'compute',
        'report_count': 1,
        'disabled': False,
        'forced_down': False,
        'deleted': 0,
        'version': 74,
        'last_seen_up': utcnow() + datetime.timedelta(seconds=50),
    }


def fill(engine: sa.Engine, hosts: int) -> None:
    schema.create_cell(Database(engine), 'cell')
    for first in range(0, hosts, CHUNK):
        numbers = range(first, min(first + CHUNK, hosts))
        with engine.begin() as connection:
            connection.execute(
                sa.insert(tables.compute_nodes), [node_row(n) for n in numbers]
            )
            connection.execute(
                sa.insert(tables.services), [service_row(n) for n in numbers]
            )


def touch(engine: sa.Engine, count: int) -> None:
    """Change some nodes as computes do."""
    c = tables.compute_nodes.c
    with engine.begin() as connection:
        connection.execute(
            sa.update(tables.compute_nodes)
            .where(c.id <= count)
            .values(vcpus_used=c.vcpus_used + 1, updated_at=utcnow())
        )


def add(engine: sa.Engine, number: int) -> None:
    """Add a node and its service."""
    with engine.begin() as connection:
        row = node_row(number) | {'created_at': utcnow()}
        connection.execute(sa.insert(tables.services).values(service_row(number)))
        connection.execute(sa.insert(tables.compute_nodes).values(row))


def measure(
    name: str,
    step: Callable[[], object],
    repeat: int,
    before: Callable[[], object] = lambda: None,
) -> None:
    spent = []
    for _ in range(repeat):
        before()
        started = time.perf_counter()
        step()
        spent.append(1000 * (time.perf_counter() - started))
    median, worst = statistics.median(spent), max(spent)
    print(f'{name:42} {median:9.2f} ms   worst {worst:9.2f} ms')  # noqa: T201


@contextmanager
def opened(database: str | None) -> Iterator[tuple[sa.Engine, cfg.ConfigOpts]]:
    with tempfile.TemporaryDirectory() as scratch:
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        url = database or f'sqlite:///{scratch}/cell'
        conf.set_override('connection', url, 'database')
        engine = engines.main_engine(conf)
        try:
            yield engine, conf
        finally:
            engine.dispose()


def run(hosts: int, repeat: int, database: str | None) -> None:
    with opened(database) as (engine, conf):
        fill(engine, hosts)
        cells = Cells(
            SqlCellStores(lambda url: engines.cell_engine(conf, url)), SystemClock(), 60
        )
        api = OneCell(conf.database.connection, hosts)
        view = ClusterView(api, cells, SystemClock())
        tracemalloc.start()
        view.load()
        view.hosts(None)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f'{hosts} hosts, {held / 2**20:.0f} MiB held')  # noqa: T201
        show(view, engine, hosts, repeat)
        view.close()


def show(view: ClusterView, engine: sa.Engine, hosts: int, repeat: int) -> None:
    measure('full read (reconcile)', view.reconcile, 3)
    measure('refresh, nothing changed', view.refresh, repeat)
    some = {str(uuid.UUID(int=n)): [{}] for n in range(0, hosts, max(1, hosts // 1000))}
    measure('hosts() of 1,000 candidates', lambda: view.hosts(some), repeat)
    measure('hosts() without candidates', lambda: view.hosts(None), repeat)

    def refreshed() -> None:
        view.refresh()
        view.hosts(some)

    for count in (1, 100):

        def change(count: int = count) -> None:
            touch(engine, count)

        name = f'refresh and hosts(), {count} of them changed'
        measure(name, refreshed, repeat, change)
    coming = iter(range(hosts, hosts + repeat))
    measure(
        'refresh and hosts(), a host is new',
        refreshed,
        repeat,
        lambda: add(engine, next(coming)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--repeat', type=int, default=20)
    parser.add_argument('--database')
    asked = parser.parse_args()
    run(asked.hosts, asked.repeat, asked.database)


if __name__ == '__main__':
    main()
