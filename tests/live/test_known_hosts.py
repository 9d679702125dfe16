# SPDX-License-Identifier: Apache-2.0
"""Hosts that computes and operators change while clients boot servers on them.

What is known of the hosts is up to a second old, as by default: no answer names one
that was unfit all the time of its request, and none gets a no while one is fit.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from novasched.db import tables
from novasched.db.transactions import Database
from novasched.placement_copy.readers.database import DatabaseReader
from tests.functional.conftest import CELLS, Host
from tests.live.busy_cloud import WRITERS, boot_and_change, busy_cloud
from tests.support.clouds.computes import UNFIT, Computes
from tests.support.tables.examples import scaled

HOSTS_EACH = 3
ZONE = 'az1'
WANTED = {
    'vcpus': 1,
    'memory_mb': 64,
    'root_gb': 1,
    'extra_specs': {'aggregate_instance_extra_specs:availability_zone': ZONE},
}
FILTERS = ['ComputeFilter', 'NumInstancesFilter', 'AggregateInstanceExtraSpecsFilter']
PAUSE_S = 0.05
"""Between two changes of a writer: often no host is fit, and often one is."""


class Change(NamedTuple):
    """A host is fit, or unfit, from a moment between these two on."""

    began_at: float
    ended_at: float
    is_fit: bool


class Lives:
    """Changes hosts, and remembers when each was fit."""

    def __init__(self, made):
        self._made = made
        self._computes = Computes(made)
        self._changes = {name: [Change(0.0, 0.0, True)] for name in made.hosts}
        self.hosts = tuple(made.hosts)
        self._lock = threading.Lock()  # two who delete there lock each other out

    def change(self, host, rng):
        is_fit = not self._changes[host][-1].is_fit
        began_at = time.monotonic()
        if is_fit:
            self._computes.restore(host)
            self._aggregate(host, joins=True)
        elif (happens := rng.choice([*UNFIT, None])) is not None:
            happens(self._computes, host)
        else:
            self._aggregate(host, joins=False)
        self._changes[host].append(Change(began_at, time.monotonic(), is_fit))

    def _aggregate(self, host, *, joins):
        members = tables.aggregate_hosts
        api = self._made.databases['api'].api
        with self._lock, api.begin() as connection:
            connection.execute(sa.delete(members).where(members.c.host == host))
            if joins:
                row = {'aggregate_id': 1, 'host': host}
                connection.execute(sa.insert(members).values(row))

    def _spans(self, host):
        """Each time that a host was fit: the last change before it, the one after."""
        never = Change(float('inf'), float('inf'), False)
        changes = [*self._changes[host], never]
        return [
            (first, then) for first, then in itertools.pairwise(changes) if first.is_fit
        ]

    def may_have_been_fit(self, host, since, until):
        """Whether it may have been fit at some time between."""
        return any(
            first.began_at <= until and since <= then.ended_at
            for first, then in self._spans(host)
        )

    def was_fit(self, host, since, until):
        """Whether it was fit all the time between."""
        return any(
            first.ended_at <= since and until <= then.began_at
            for first, then in self._spans(host)
        )


@pytest.mark.exhaustive('minutes of writers')
@pytest.mark.scenario('F43', 'I6')
def test_no_answer_names_an_unfit_host_and_no_fit_host_is_missed(
    mariadb, postgres, tmp_path
):
    """The cells are in MariaDB and in PostgreSQL."""
    seconds = scaled(120)

    urls = {
        name: server.create_database(f'known_hosts_{name}')
        for name, server in (
            ('api', mariadb),
            ('cell0', mariadb),
            (CELLS[0], mariadb),
            (CELLS[1], postgres),
        )
    }
    database = mariadb.create_database('known_hosts_placement')
    hosts = [
        Host(f'h{n}', cell=CELLS[n % 2], zone=ZONE, vcpus=64, memory_mb=65536)
        for n in range(HOSTS_EACH * len(CELLS))
    ]
    options = {
        'DEFAULT': {'service_down_time': 3600},
        'filter_scheduler': {'enabled_filters': FILTERS},
        'novasched': {'heartbeat_grace': 0.0},
    }
    with busy_cloud(tmp_path, database, hosts, options, urls) as made:
        engine = sa.create_engine(database, pool_size=10)
        made.stack.callback(engine.dispose)
        scheduler = made.serve(providers=DatabaseReader(Database(engine)))
        lives, pause = Lives(made), threading.Event()

        def wanted(rng):
            return {**WANTED, 'return_alternates': rng.choice([True, False])}

        def change(number, rng):
            lives.change(rng.choice(lives.hosts[number::WRITERS]), rng)
            pause.wait(PAUSE_S)

        answers = boot_and_change(made, scheduler, seconds, wanted, change)
    given = [each for each in answers if each.hosts]
    wrong = [
        each
        for each in given
        if not all(lives.may_have_been_fit(h, *each[2:]) for h in each.hosts)
    ]
    missed = [
        each
        for each in answers
        if not each.hosts and any(lives.was_fit(h, *each[2:]) for h in lives.hosts)
    ]
    assert (wrong, missed) == ([], [])
    assert len(given) > seconds
    assert len(answers) > len(given)
