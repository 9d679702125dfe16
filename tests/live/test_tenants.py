# SPDX-License-Identifier: Apache-2.0
"""Hosts that are moved between the aggregates of tenants while these boot servers."""

from __future__ import annotations

import contextlib
import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched import errors
from novasched.db.transactions import Database
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from tests.functional.conftest import Cloud, Host, named_uuid, new_uuids
from tests.live.servers.placement import Placement
from tests.live.servers.tcp_gate import TcpGate
from tests.support.tables.examples import scaled

TENANTS = ('gold', 'silver')
SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
CLIENTS, WRITERS = 8, 2
LOOK_EVERY_S = 5.0
"""How old the copy gets: several times as old as a request."""


class Stay(NamedTuple):
    """A host may have been in an aggregate from then on, until then."""

    aggregate: str
    since: float
    until: float


class Moves:
    """Moves hosts from one aggregate to the other, and remembers where each was."""

    def __init__(self, made):
        self._made = made
        self.stays = defaultdict(list)
        now = time.monotonic()
        self._since = {name: (host.zone, now) for name, host in made.hosts.items()}

    def move(self, host):
        url = f'/resource_providers/{self._made.hosts[host].uuid}'
        aggregate, since = self._since[host]
        other = TENANTS[aggregate == TENANTS[0]]
        found = self._made.adapter.get(url, microversion='1.28').json()
        body = {
            'resource_provider_generation': found['generation'],
            'aggregates': [named_uuid(other)],
        }
        began_at = time.monotonic()
        answer = self._made.adapter.put(
            f'{url}/aggregates', json=body, microversion='1.19'
        )
        if answer.status_code == 200:
            self.stays[host].append(Stay(aggregate, since, time.monotonic()))
            self._since[host] = other, began_at
        elif answer.status_code != 409:  # of a claim that came between
            # It may stand or not: from now on the host may be in both.
            self.stays[host].append(Stay(other, began_at, float('inf')))

    def was_in(self, host, aggregate, since, until):
        """Whether the host may have been in the aggregate at some time between."""
        last = Stay(*self._since[host], float('inf'))
        return any(
            stay.aggregate == aggregate and stay.since <= until and since <= stay.until
            for stay in (*self.stays[host], last)
        )


def by_database(made, url, adapter):
    engine = sa.create_engine(url, pool_size=10)
    made.stack.callback(engine.dispose)
    return DatabaseReader(Database(engine))


def by_api(made, url, adapter):
    return ApiReader(adapter, share=0.2)


@pytest.mark.exhaustive('minutes of writers for each way to read placement')
@pytest.mark.parametrize(
    ('server', 'reader'),
    [('mariadb', by_database), ('postgres', by_database), ('mariadb', by_api)],
)
def test_no_server_is_outside_of_the_aggregate_of_its_tenant(
    request, tmp_path, server, reader
):
    """Placement's database hears and says nothing for a quarter of the time."""
    seconds = scaled(120)
    database = request.getfixturevalue(server).create_database(f'of_{reader.__name__}')
    with contextlib.ExitStack() as stack:
        gate = TcpGate(sa.make_url(database).port)
        stack.callback(gate.stop)
        placement = Placement(tmp_path / 'p', gate.url(database))
        placement.start()
        stack.callback(placement.close)
        auth = token_endpoint.Token(placement.url, 'admin')
        adapter = Adapter(Session(auth=auth), service_type='placement', raise_exc=False)
        hosts = [
            Host(f'h{n}', zone=TENANTS[n % 2], vcpus=64, memory_mb=65536)
            for n in range(12)
        ]
        options = {'DEFAULT': {'service_down_time': 3600}}
        made = Cloud(tmp_path, adapter, hosts, options, stack, None, 'http://')
        moves = Moves(made)
        scheduler = made.copied(reader(made, gate.url(database), adapter))
        answers = run(made, scheduler, moves, gate, seconds)
        scheduler.copy.stop()
    outside = [
        each
        for each in answers
        if not moves.was_in(each.host, each.tenant, each.asked_at, each.answered_at)
    ]
    assert outside == []
    assert len(answers) > seconds
    assert scheduler.copy.void_picks


class Answer(NamedTuple):
    """A host for a server of a tenant, and the request's time."""

    tenant: str
    host: str
    asked_at: float
    answered_at: float


def run(made, scheduler, moves, gate, seconds):
    """Move and boot for so long; return the answers."""
    end = time.monotonic() + seconds
    answers = []

    def write(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            moves.move(f'h{rng.randrange(number, 12, WRITERS)}')

    def boot(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            (uuid,), tenant = new_uuids(), rng.choice(TENANTS)
            began_at = time.monotonic()
            with contextlib.suppress(errors.NoValidHost):
                [[host]] = made.ask(
                    scheduler, [uuid], availability_zone=tenant, **SMALL
                )
                answers.append(Answer(tenant, host, began_at, time.monotonic()))
            made.adapter.delete(f'/allocations/{uuid}')

    def look():
        while time.monotonic() < end:
            time.sleep(LOOK_EVERY_S)
            scheduler.copy.invalidate([])
            scheduler.copy.keep_up()

    def pause():
        time.sleep(3 * seconds / 8)
        gate.hold()
        time.sleep(seconds / 4)
        gate.let_go()

    with ThreadPoolExecutor(CLIENTS + WRITERS + 2) as threads:
        work = [threads.submit(write, number) for number in range(WRITERS)]
        work += [threads.submit(boot, number) for number in range(CLIENTS)]
        work += [threads.submit(look), threads.submit(pause)]
        for each in work:
            each.result()
    return answers
