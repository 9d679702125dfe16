# SPDX-License-Identifier: Apache-2.0
"""Hosts that are moved between the aggregates of tenants while these boot servers."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from novasched.db.transactions import Database
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from tests.functional.conftest import Host, named_uuid
from tests.live.busy_cloud import WRITERS, boot_and_change, busy_cloud
from tests.live.servers.tcp_gate import TcpGate
from tests.support.tables.examples import scaled

TENANTS = ('gold', 'silver')
SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
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
        generation = self._made.placement.get(url)['generation']
        body = {
            'resource_provider_generation': generation,
            'aggregates': [named_uuid(other)],
        }
        began_at = time.monotonic()
        status, _ = self._made.placement.send('PUT', f'{url}/aggregates', body)
        if status == 200:
            self.stays[host].append(Stay(aggregate, since, time.monotonic()))
            self._since[host] = other, began_at
        elif status != 409:  # of a claim that came between
            # It may stand or not: from now on the host may be in both.
            self.stays[host].append(Stay(other, began_at, float('inf')))

    def was_in(self, host, aggregate, since, until):
        """Whether the host may have been in the aggregate at some time between."""
        last = Stay(*self._since[host], float('inf'))
        return any(
            stay.aggregate == aggregate and stay.since <= until and since <= stay.until
            for stay in (*self.stays[host], last)
        )


def by_database(made, url):
    engine = sa.create_engine(url, pool_size=10)
    made.stack.callback(engine.dispose)
    return DatabaseReader(Database(engine))


def by_api(made, url):
    return ApiReader(made.adapter, share=0.2)


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
        hosts = [
            Host(f'h{n}', zone=TENANTS[n % 2], vcpus=64, memory_mb=65536)
            for n in range(12)
        ]
        options = {'DEFAULT': {'service_down_time': 3600}}
        made = stack.enter_context(
            busy_cloud(tmp_path, gate.url(database), hosts, options)
        )
        moves = Moves(made)
        scheduler = made.copied(reader(made, gate.url(database)))

        def wanted(rng):
            return {**SMALL, 'availability_zone': rng.choice(TENANTS)}

        def move(number, rng):
            moves.move(f'h{rng.randrange(number, 12, WRITERS)}')

        def look():
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(LOOK_EVERY_S)
                scheduler.copy.invalidate([])
                scheduler.copy.keep_up()

        def pause():
            time.sleep(3 * seconds / 8)
            gate.hold()
            time.sleep(seconds / 4)
            gate.let_go()

        answers = boot_and_change(made, scheduler, seconds, wanted, move, look, pause)
        scheduler.copy.stop()
    chosen = [each for each in answers if each.hosts]
    outside = [
        each
        for each in chosen
        if not moves.was_in(
            *each.hosts,
            each.wanted['availability_zone'],
            each.asked_at,
            each.answered_at,
        )
    ]
    assert outside == []
    assert len(chosen) > seconds
    assert scheduler.copy.void_picks
