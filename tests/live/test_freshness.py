# SPDX-License-Identifier: Apache-2.0
"""The freshness promise: no decision misses what was committed before its request.

Four processes write for a while, into a cell on MariaDB and one on PostgreSQL, by
clocks that differ. A request arrives; the test reads all rows first, then the request
refreshes the view and decides, then the test reads all rows again. What both reads
show alike was committed before the request arrived and stayed: the view must show just
that. Of a row that changed between the two reads, the view must show no older state
than the first read: the number of its changes tells.
"""

from __future__ import annotations

import collections
import json
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from oslo_config import cfg

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched.cluster.periodic import PeriodicTasks
from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched.process import opts
from novasched.runtime.clock import SystemClock
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched_lab.db import schema
from tests.live.servers.process import Process
from tests.live.writers import KINDS, MOST_S
from tests.support.checks import view_checks
from tests.support.clouds import factories
from tests.support.databases.databases import Databases, cell_mapping
from tests.support.tables.examples import scaled

SECONDS = scaled(40)
WRITERS = 4
REQUESTS_AT_ONCE = 2
ENOUGH = scaled(100)
DECISIONS = scaled(20)
LATE_S = 60
SILENT_S = 60


class Row(NamedTuple):
    """What a full read shows of a host; the numbers grow with every change.

    None: there is no live node, or no live service.
    """

    number: int
    used: int | None
    disabled: bool | None
    up: bool | None


@pytest.fixture
def conf(mariadb):
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    for group in ('database', 'api_database'):
        url = mariadb.create_database(f'freshness_{group}')
        made.set_override('connection', url, group)
    return made


@pytest.fixture
def cells(conf, mariadb, postgres):
    """Two cells on two servers, and the API database that knows them."""
    urls = [server.create_database('freshness_cell') for server in (mariadb, postgres)]
    found = [engines.cell_engine(conf, url) for url in urls]
    made = Databases(engines.api_engine(conf), found[0])
    schema.create_api(Database(made.api), 'api')
    for number, (engine, url) in enumerate(zip(found, urls, strict=True)):
        schema.create_cell(Database(engine), 'cell')
        mapping = cell_mapping(name=f'cell{number}', database_connection=url)
        made.add(tables.cell_mappings, mapping)
    yield made, dict(zip(urls, found, strict=True))
    for engine in (made.api, *found):
        engine.dispose()


@pytest.fixture
def writers(cells, scratch):
    """Four processes that write; ``finish()`` gives how often they did what."""
    _, by_url = cells
    urls = list(by_url)
    started = [
        Process(
            [
                sys.executable,
                '-m',
                'tests.live.writers',
                urls[number % len(urls)],
                number,
                SECONDS,
                ENOUGH // WRITERS + 1,
            ],
            scratch / f'writer-{number}.log',
        )
        for number in range(WRITERS)
    ]

    def finish():
        for each in started:
            assert each.wait(MOST_S + LATE_S) == 0, each.describe()
        done = [json.loads(each.log.splitlines()[-1]) for each in started]
        return sum(map(collections.Counter, done), collections.Counter())

    yield finish
    for each in started:
        each.stop()


class FullRead:
    """Reads every row of a cell's nodes and services, deleted ones too, as it is now.

    A connection of its own in each read, so that none shows an older moment.
    """

    def __init__(self, found):
        self._engines = found

    def __call__(self):
        """Return the state of each host that ever was."""
        rows = {}
        for engine in self._engines:
            with engine.connect() as connection:
                rows.update(self._hosts(connection))
        return rows

    def _hosts(self, connection):
        nodes, numbers = self._read(connection, tables.compute_nodes, 'vcpus_used')
        services, more = self._read(connection, tables.services, 'report_count')
        return {
            host: self._state(
                nodes.get(host), services.get(host), numbers.get(host, 0) + more[host]
            )
            for host in more
        }

    def _read(self, connection, table, number):
        """Return the live rows by host, and the sum of the changes of all of them."""
        live, numbers = {}, collections.Counter()
        query = sa.select(table).where(table.c.host.like('w%'))
        for row in connection.execute(query).mappings():
            numbers[row['host']] += row[number]
            if row['deleted'] == 0:
                live[row['host']] = row
        return live, numbers

    def _state(self, node, service, number):
        if node is None or service is None:
            return Row(number, None, None, None)
        ago = view_checks.utcnow() - service['last_seen_up']
        up = not service['forced_down'] and abs(ago.total_seconds()) <= SILENT_S
        return Row(number, node['vcpus_used'], bool(service['disabled']), up)


def shown(hosts):
    """Return what a decision saw of each host, as a full read would show it."""
    columns = hosts.vcpus_used, hosts.service_disabled, hosts.service_up
    return dict(
        zip(
            hosts.host.tolist(),
            zip(*(column.tolist() for column in columns), strict=True),
            strict=True,
        )
    )


def missed(before, after, found):
    """Return what a decision should have seen: host, first read, what it saw."""
    problems = []
    for host, row in before.items():
        saw = found.get(host)
        expected = None if row.used is None else row[1:]
        if row == after[host]:
            if saw != expected:
                problems.append((host, row, saw))
        elif saw is not None and row.used is not None and saw[0] < row.used:
            problems.append((host, row, saw))
    return problems


class Requests:
    """Requests one after the other, until the writers have ended."""

    def __init__(self, view, read):
        self._view = view
        self._read = read
        self._profile = Profile([ComputeFilter()], [])
        self.ended = threading.Event()
        self.decisions = []

    def run(self):
        while not self.ended.is_set():
            before = self._read()
            self._view.refresh()
            hosts = self._view.hosts(None)
            decision = decide(
                self._profile, hosts, factories.request(), random.Random(1)
            )
            found, chosen = shown(hosts), set(decision.ranked.host.tolist())
            after = self._read()
            assert missed(before, after, found) == []
            steady = {host for host, row in before.items() if row == after[host]}
            for host in steady:
                row = before[host]
                may_be_chosen = row.used is not None and row.up and not row.disabled
                assert (host in chosen) == may_be_chosen
            self.decisions.append((len(before), len(steady)))


def test_freshness_no_decision_misses_what_was_committed_before(cells, conf, writers):
    databases, by_url = cells
    with (
        view_checks.loaded_view(databases, conf) as view,
        ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool,
    ):
        requests = Requests(view, FullRead(by_url.values()))
        upkeep = PeriodicTasks(view, SystemClock(), 1.0, 2.0)
        upkeep.start()
        started = time.monotonic()
        try:
            running = [pool.submit(requests.run) for _ in range(REQUESTS_AT_ONCE)]
            done = writers()
        finally:
            requests.ended.set()
        for each in running:
            each.result(LATE_S)
        upkeep.stop()
    assert time.monotonic() - started >= SECONDS / 2
    assert {kind for kind, times in done.items() if times > ENOUGH} == KINDS
    hosts, steady = zip(*requests.decisions, strict=True)
    assert len(hosts) > DECISIONS
    assert sum(steady) > sum(hosts) / 10
