# SPDX-License-Identifier: Apache-2.0
"""A process that changes compute nodes and services as fast as it can.

    python -m tests.live.writers URL NUMBER SECONDS TIMES

It has hosts of its own, and does with them what computes and the API do, in
transactions of the same kinds: nodes change, hosts come with a service and then a
node, services are disabled, forced down, silent and as before, hosts are deleted and
come back. Each row has a number that grows with every change: ``vcpus_used`` of a
node, ``report_count`` of a service. It ends after SECONDS, and when it has done each
thing so many TIMES; it prints how often it did what.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
import random
import sys
import time
import uuid

import sqlalchemy as sa

from novasched.db import tables
from tests.support.databases.databases import node, service

SKEWS_S = (-4, 0, 3, -1)
HOSTS_EACH = 40
QUIET = 20
"""So many of the hosts are changed a few times a minute, the others all the time."""
ALIVE_S = 30
"""By how much a heartbeat is ahead: whoever was alive is so until the test ends."""
HELD_S = 1.0
MOST_S = 300
"""For so long at most it tries to do each thing often enough."""

NODES, SERVICES = tables.compute_nodes, tables.services


@dataclasses.dataclass
class Rows:
    """The ids of the live rows of a host, and of its last node."""

    service: int | None = None
    node: int | None = None
    last_node: int | None = None


class Writer:
    """Changes its own hosts, by a clock that differs from others' by ``skew``."""

    def __init__(self, engine, number):
        self._engine = engine
        self._name = f'w{number}'
        self._random = random.Random(number)
        self._skew = datetime.timedelta(seconds=SKEWS_S[number % len(SKEWS_S)])
        self._numbers = collections.Counter()
        self._hosts = collections.defaultdict(Rows)
        self.done = collections.Counter()

    def run(self, seconds, times):
        """Change something, again and again."""
        now = time.monotonic()
        end, latest = now + seconds, now + MOST_S
        while now < end or (now < latest and self._has_yet_to_do(times)):
            host = self._which()
            kind = self._choose(self._hosts[host])
            kind(self._hosts[host], host)
            self.done[kind.__name__] += 1
            now = time.monotonic()

    def _has_yet_to_do(self, times):
        return any(self.done[kind] < times for kind in KINDS)

    def _which(self):
        quiet = self._random.random() < 0.04
        numbers = range(QUIET) if quiet else range(QUIET, HOSTS_EACH)
        return f'{self._name}-{self._random.choice(numbers)}'

    def _choose(self, rows):
        if rows.service is None and rows.node is None:
            return self.add
        if rows.service is None:
            return self._random.choice((self.register, self.delete_node))
        if rows.node is None:
            return self._random.choice((self.restore_node, self.delete_service))
        kinds = {
            self.change: 12,
            self.disable: 4,
            self.silence: 2,
            self.delete_node: 2,
            self.delete_service: 1,
        }
        return self._random.choices(list(kinds), kinds.values())[0]

    def _stamp(self):
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return (now + self._skew).replace(microsecond=0)

    def _next(self, host):
        self._numbers[host] += 1
        return self._numbers[host]

    def _write(self, table, id_, **values):
        """Change a row in a transaction of its own, which may commit late."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == id_).values(values))
            if self._random.random() < 0.03:
                time.sleep(self._random.uniform(0, HELD_S))

    def _insert(self, table, row):
        with self._engine.begin() as connection:
            return connection.execute(
                sa.insert(table).values(row)
            ).inserted_primary_key[0]

    def add(self, rows, host):
        """A compute that starts writes its service, and then its node."""
        self.register(rows, host)
        row = node(
            uuid=str(uuid.uuid4()),
            host=host,
            hypervisor_hostname=host,
            vcpus_used=self._next(host),
            created_at=self._stamp(),
            free_disk_gb=10,
            free_ram_mb=10,
            stats='{}',
        )
        rows.node = rows.last_node = self._insert(NODES, row)

    def register(self, rows, host):
        """A compute whose service was deleted starts again."""
        row = service(
            host=host,
            created_at=self._stamp(),
            last_seen_up=self._stamp() + datetime.timedelta(seconds=ALIVE_S),
            report_count=self._next(host),
        )
        rows.service = self._insert(SERVICES, row)

    def change(self, rows, host):
        """Its resource tracker writes the node, often twice in a second."""
        for _ in range(self._random.randrange(1, 3)):
            self._write(
                NODES, rows.node, vcpus_used=self._next(host), updated_at=self._stamp()
            )

    def disable(self, rows, host):
        """An operator disables the service, forces it down, or takes that back."""
        self._write(
            SERVICES,
            rows.service,
            disabled=self._random.random() < 0.5,
            forced_down=self._random.random() < 0.3,
            report_count=self._next(host),
            updated_at=self._stamp(),
        )

    def silence(self, rows, host):
        """Its heartbeats end, or begin again."""
        ago_s = 7200 if self._random.random() < 0.5 else -ALIVE_S
        self._write(
            SERVICES,
            rows.service,
            last_seen_up=self._stamp() - datetime.timedelta(seconds=ago_s),
            report_count=self._next(host),
        )

    def delete_node(self, rows, host):
        """The API deletes the node, as it does before it deletes the service."""
        self._delete(NODES, rows.node, vcpus_used=self._next(host))
        rows.node = None

    def delete_service(self, rows, host):
        """The API deletes the service."""
        self._delete(SERVICES, rows.service, report_count=self._next(host))
        rows.service = None

    def _delete(self, table, id_, **number):
        values = {'deleted': id_, 'deleted_at': self._stamp()}
        self._write(table, id_, **values, **number)

    def restore_node(self, rows, host):
        """The compute finds its node deleted, and takes the row back."""
        values = {'deleted': 0, 'deleted_at': None, 'updated_at': self._stamp()}
        self._write(NODES, rows.last_node, **values, vcpus_used=self._next(host))
        rows.node = rows.last_node


KINDS = {name for name in vars(Writer) if not name.startswith('_')} - {'run'}
"""What is done."""


def main(url, number, seconds, times):
    engine = sa.create_engine(url)
    writer = Writer(engine, int(number))
    writer.run(float(seconds), int(times))
    engine.dispose()
    print(json.dumps(writer.done))  # noqa: T201


if __name__ == '__main__':
    main(*sys.argv[1:])
