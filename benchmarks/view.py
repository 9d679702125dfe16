# SPDX-License-Identifier: Apache-2.0
"""Measure the cluster view: milliseconds per refresh and per table of hosts, and MiB.

    benchmarks/view.py [--hosts 10000] [--database URL] [--repeat 20] [--pinned 0]

The database must be empty; without one, SQLite in a temporary directory is used. Of
every so many hosts, ``--pinned``, one has a NUMA topology that no other has.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import ipaddress
import itertools
import json
import multiprocessing
import resource
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched.cluster.cells import Cells
from novasched.cluster.view import ClusterView
from novasched.db import engines, tables
from novasched.db.stores import SqlCellStores
from novasched.db.transactions import Database
from novasched.ports import AggregatesMark, Cell
from novasched.process import opts
from novasched.runtime.clock import SystemClock
from novasched.scheduler.aggregates import Aggregate
from novasched_lab.db import schema

LONG_AGO = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
CHUNK = 500
KINDS = (
    ('small', 2, 16, 256 * 1024, 2000, 0.0),
    ('large', 2, 32, 512 * 1024, 4000, 0.0),
    ('nfv', 2, 24, 384 * 1024, 2000, 0.5),
)
"""Name, sockets, cores of each, MiB, GiB, and the part of the CPUs that is pinned."""
FEATURES = [f'feature-{number}' for number in range(110)]
ARCHITECTURES = (
    'alpha armv7l aarch64 cris i686 lm32 m68k microblaze microblazeel mips mipsel '
    'mips64 mips64el ppc ppc64 ppc64le sh4 sh4eb sparc sparc64 x86_64 xtensa'
)
MACHINES = [[name, 'qemu', 'hvm'] for name in ARCHITECTURES.split()]


def primitive(name: str, version: str, **values: Any) -> dict[str, Any]:
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': values,
    }


@functools.cache
def texts(kind: int, usage: int) -> dict[str, str]:
    """Return what the computes of a kind report as libvirt does, as JSON texts."""
    name, sockets, cores, memory_mb, _, dedicated = KINDS[kind]
    cells = [
        node_cell(number, sockets, cores, memory_mb, dedicated, usage)
        for number in range(sockets)
    ]
    pools = [
        primitive(
            'PciDevicePool',
            '1.1',
            vendor_id='8086',
            product_id='1572',
            numa_node=number,
            count=8,
            tags={'physical_network': 'physnet1', 'dev_type': 'type-VF'},
        )
        for number in range(sockets)
    ]
    cpu = {'arch': 'x86_64', 'model': name, 'topology': {'cores': cores}}
    return {
        'numa_topology': json.dumps(primitive('NUMATopology', '1.2', cells=cells)),
        'pci_stats': json.dumps(
            primitive('PciDevicePoolList', '1.1', objects=pools if dedicated else [])
        ),
        'cpu_info': json.dumps({**cpu, 'features': FEATURES}),
        'supported_instances': json.dumps(MACHINES),
    }


def node_cell(
    number: int,
    sockets: int,
    cores: int,
    memory_mb: int,
    dedicated: float,
    usage: int,
) -> dict[str, Any]:
    first = number * cores
    pairs = [[cpu, sockets * cores + cpu] for cpu in range(first, first + cores)]
    kept = int(cores * (1 - dedicated))
    pages = [
        primitive('NUMAPagesTopology', '1.1', size_kb=size, total=total, used=0)
        for size, total in ((4, memory_mb * 128), (2048, 0), (1048576, 0))
    ]
    return primitive(
        'NUMACell',
        '1.5',
        id=number,
        socket=number,
        cpuset=sorted(itertools.chain(*pairs[:kept])),
        pcpuset=sorted(itertools.chain(*pairs[kept:])),
        memory=memory_mb // sockets,
        cpu_usage=usage,
        memory_usage=usage,
        pinned_cpus=[],
        siblings=pairs,
        mempages=pages,
        network_metadata=primitive(
            'NetworkMetadata', '1.0', physnets=[], tunneled=False
        ),
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

    def aggregates_mark(self) -> AggregatesMark:
        return AggregatesMark((), None)


def utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def node_row(number: int, pinned: int = 0) -> dict[str, Any]:
    """Return a row as nova-compute writes it; every ``pinned``-th has a usage of its
    nodes that no other has."""
    kind = number % len(KINDS)
    _, sockets, cores, memory_mb, disk_gb, dedicated = KINDS[kind]
    instances = number % 5
    counts = ('num_instances', 'num_vm_active', 'num_task_None', 'num_proj_bench')
    return {
        'created_at': LONG_AGO,
        'updated_at': LONG_AGO + datetime.timedelta(seconds=number),
        'uuid': str(uuid.UUID(int=number)),
        'host': f'host-{number}',
        'hypervisor_hostname': f'host-{number}.bench.example',
        'vcpus': int(sockets * cores * 2 * (1 - dedicated)),
        'vcpus_used': 3 * instances,
        'memory_mb': memory_mb,
        'memory_mb_used': 512 + 4096 * instances,
        'local_gb': disk_gb,
        'local_gb_used': 40 * instances,
        'free_ram_mb': memory_mb - 512 - 4096 * instances,
        'free_disk_gb': disk_gb - 40 * instances,
        'disk_available_least': disk_gb - 40 * instances,
        'running_vms': instances,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 8002002,
        'host_ip': str(ipaddress.IPv4Address((10 << 24) + number)),
        'cpu_allocation_ratio': 4.0,
        'ram_allocation_ratio': 1.0,
        'disk_allocation_ratio': 1.0,
        'metrics': '[]',
        'stats': json.dumps(
            {
                'failed_builds': '0',
                'io_workload': str(number % 3),
                **{name: str(instances) for name in counts},
            }
        ),
        'deleted': 0,
        'mapped': 1,
        **texts(kind, number if pinned and number % pinned == 0 else 0),
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


def fill(url: str, hosts: int, pinned: int) -> None:
    """Make the tables of a cell, and so many hosts."""
    engine = sa.create_engine(url)
    schema.create_cell(Database(engine), 'cell')
    for first in range(0, hosts, CHUNK):
        numbers = range(first, min(first + CHUNK, hosts))
        with engine.begin() as connection:
            connection.execute(
                sa.insert(tables.compute_nodes), [node_row(n, pinned) for n in numbers]
            )
            connection.execute(
                sa.insert(tables.services), [service_row(n) for n in numbers]
            )
    engine.dispose()


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


def run(hosts: int, repeat: int, database: str | None, pinned: int) -> None:
    with opened(database) as (engine, conf):
        # In a process of its own, lest what it needs counts as what the view needs.
        filling = multiprocessing.get_context('spawn').Process(
            target=fill, args=(conf.database.connection, hosts, pinned)
        )
        filling.start()
        filling.join()
        cells = Cells(
            SqlCellStores(lambda url: engines.cell_engine(conf, url)), SystemClock(), 60
        )
        api = OneCell(conf.database.connection, hosts)
        view = ClusterView(api, cells, SystemClock())
        print(f'{hosts} hosts; before reading them: {peak_mib():.0f} MiB')  # noqa: T201
        measure('full read (at the start)', view.load, 1)
        measure('hosts() for the first time', lambda: view.hosts(None), 1)
        print(f'peak of the resident memory: {peak_mib():.0f} MiB')  # noqa: T201
        show(view, engine, hosts, repeat)
        print(f'peak of the resident memory: {peak_mib():.0f} MiB')  # noqa: T201
        view.close()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(view: ClusterView, engine: sa.Engine, hosts: int, repeat: int) -> None:
    measure('full read (reconcile)', view.reconcile, 2)
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
    parser.add_argument('--pinned', type=int, default=0)
    asked = parser.parse_args()
    run(asked.hosts, asked.repeat, asked.database, asked.pinned)


if __name__ == '__main__':
    main()
