# SPDX-License-Identifier: Apache-2.0
"""Measure the copy of placement's database on a MariaDB of its own.

Run from the checkout: ``.venv/bin/python -m benchmarks.copy [--hosts 10000]
[--children 0] [--repeat 10]``. Prints the CPU time of the reading side, in
milliseconds, of a load, of looks without and with changes, and of what follows from
them; and the memory that a copy takes.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import tempfile
import time
import uuid

import psutil
import sqlalchemy as sa

from novasched.db.transactions import Database
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.live.servers.mariadb import MariaDB

TABLES = """
CREATE TABLE resource_providers (id INT PRIMARY KEY AUTO_INCREMENT, uuid CHAR(36),
 generation INT, root_provider_id INT, parent_provider_id INT, KEY (root_provider_id));
CREATE TABLE inventories (id INT PRIMARY KEY AUTO_INCREMENT, resource_provider_id INT,
 resource_class_id INT, total INT, reserved INT, min_unit INT, max_unit INT,
 step_size INT, allocation_ratio FLOAT,
 UNIQUE KEY (resource_provider_id, resource_class_id));
CREATE TABLE allocations (id INT PRIMARY KEY AUTO_INCREMENT, resource_provider_id INT,
 consumer_id CHAR(36), resource_class_id INT, used INT,
 KEY (resource_provider_id, resource_class_id, used));
CREATE TABLE resource_provider_traits (trait_id INT, resource_provider_id INT,
 PRIMARY KEY (trait_id, resource_provider_id), KEY (resource_provider_id, trait_id));
CREATE TABLE resource_provider_aggregates (resource_provider_id INT, aggregate_id INT,
 PRIMARY KEY (resource_provider_id, aggregate_id));
CREATE TABLE traits (id INT PRIMARY KEY, name VARCHAR(255));
CREATE TABLE resource_classes (id INT PRIMARY KEY, name VARCHAR(255));
CREATE TABLE placement_aggregates (id INT PRIMARY KEY, uuid CHAR(36))
"""
TRAITS = 400
TRAITS_OF_HOST = 64
SERVERS_OF_HOST = 10
CHUNK = 20000


def fill(engine, hosts, children):
    """Write hosts with so many children each, and ten servers a host."""
    size = 1 + children
    ids = range(1, hosts * size + 1)
    roots = [id_ for id_ in ids if id_ % size == 1 % size]
    rows = {
        'resource_providers (id, uuid, generation, root_provider_id, '
        'parent_provider_id)': (
            (
                id_,
                str(uuid.uuid4()),
                31,
                root := id_ - (id_ - 1) % size,
                None if id_ == root else root,
            )
            for id_ in ids
        ),
        'inventories (resource_provider_id, resource_class_id, total, reserved, '
        'min_unit, max_unit, step_size, allocation_ratio)': (
            (id_, rc, total, 0, 1, total, 1, 16.0 if rc == 0 else 1.0)
            for id_ in ids
            for rc, total in (
                ((0, 64), (1, 262144), (2, 2000))
                if (id_ - 1) % size == 0
                else ((3, 8),)
            )
        ),
        'allocations (resource_provider_id, consumer_id, resource_class_id, used)': (
            (root, str(number), rc, used)
            for root in roots
            for number in range(SERVERS_OF_HOST)
            for rc, used in ((0, 2), (1, 2048), (2, 20))
        ),
        'resource_provider_traits (trait_id, resource_provider_id)': (
            (1 + (root + number) % TRAITS, root)
            for root in roots
            for number in range(TRAITS_OF_HOST)
        ),
        'resource_provider_aggregates (resource_provider_id, aggregate_id)': (
            (root, 1 + root % 20) for root in roots
        ),
        'traits (id, name)': ((n, f'CUSTOM_{n}') for n in range(1, TRAITS + 1)),
        'resource_classes (id, name)': enumerate(
            ('VCPU', 'MEMORY_MB', 'DISK_GB', 'SRIOV_NET_VF')
        ),
        'placement_aggregates (id, uuid)': (
            (n, str(uuid.uuid4())) for n in range(1, 21)
        ),
    }
    with engine.begin() as connection:
        for table in TABLES.split(';'):
            connection.exec_driver_sql(table)
        for target, values in rows.items():
            marks = ', '.join(['%s'] * (target.count(',') + 1))
            statement = f'INSERT INTO {target} VALUES ({marks})'
            values = iter(values)
            while chunk := list(itertools.islice(values, CHUNK)):
                connection.exec_driver_sql(statement, chunk)


class Timed:
    """Prints the least CPU time of some calls in this thread."""

    def __init__(self, repeat):
        self._repeat = repeat

    def __call__(self, name, call, before=lambda: None, repeat=None):
        took = []
        for _ in range(repeat or self._repeat):
            before()
            since = time.thread_time()
            call()
            took.append(time.thread_time() - since)
        print(f'{min(took) * 1e3:9.2f} ms  {name}', flush=True)  # noqa: T201


def measure(engine, repeat):
    """Print a line for each thing that the copy does."""
    timed = Timed(repeat)
    reader = DatabaseReader(Database(engine))
    copy = CopyKeeper(reader, SYSTEM_CLOCK)
    gc.collect()
    before = psutil.Process().memory_info().rss
    timed('load into an empty copy', copy._read, repeat=1)
    gc.collect()
    after = psutil.Process().memory_info().rss
    print(f'{(after - before) / 2**20:9.1f} MiB more memory after it')  # noqa: T201

    def change(statement, *values):
        with engine.begin() as connection:
            connection.exec_driver_sql(statement, values)

    def claims():
        change(
            'UPDATE resource_providers SET generation = generation + 1 '
            'WHERE parent_provider_id IS NULL ORDER BY RAND() LIMIT 50'
        )

    def free():
        change('DELETE FROM allocations ORDER BY id LIMIT 30')

    timed('mark of a quiet database', reader.change_token)
    timed('look, nothing changed', copy._read)
    timed('look after 50 providers changed', copy._read, claims)
    timed('thorough look after 10 servers went', lambda: copy._read(True), free)
    known = copy._copy.contents
    timed('read all and compare', lambda: known.missed(reader.read()), repeat=2)
    uuid_ = copy._copy.table.uuids[0]
    timed('assume a claim', lambda: copy.assume({'c': {uuid_: {'VCPU': 1}}}))
    peak = psutil.Process().memory_info().rss - before
    print(f'{peak / 2**20:9.1f} MiB more memory after all of it')  # noqa: T201


def main():
    """Start a server, fill it, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, default=10000)
    parser.add_argument('--children', type=int, default=0)
    parser.add_argument('--repeat', type=int, default=10)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = MariaDB(directory)
        server.start()
        try:
            engine = sa.create_engine(server.create_database('placement'))
            fill(engine, wanted.hosts, wanted.children)
            measure(engine, wanted.repeat)
            engine.dispose()
        finally:
            server.stop()


if __name__ == '__main__':
    main()
