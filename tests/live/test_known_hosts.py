# SPDX-License-Identifier: Apache-2.0
"""Hosts that computes and operators change while clients boot servers on them.

What is known of the hosts is up to a second old, as by default: no answer names one
that was unfit all the time of its request, and none gets a no while one is fit.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched import errors
from novasched.db import tables
from novasched.db.transactions import Database
from novasched.placement_copy.readers.database import DatabaseReader
from tests.functional.conftest import CELLS, Cloud, Host, new_uuids
from tests.live.servers.placement import Placement
from tests.support.clouds.computes import UNFIT, Computes
from tests.support.tables.examples import scaled

CLIENTS, WRITERS, HOSTS_EACH = 8, 2, 3
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


class Answer(NamedTuple):
    """The hosts of an answer, none of a no, and the time of its request."""

    hosts: tuple[str, ...]
    asked_at: float
    answered_at: float


@pytest.mark.exhaustive('minutes of writers')
@pytest.mark.scenario('F43', 'I6')
def test_no_answer_names_an_unfit_host_and_no_fit_host_is_missed(
    mariadb, postgres, tmp_path
):
    """The cells are in MariaDB and in PostgreSQL."""
    seconds = scaled(120)

    class OnServers(Cloud):
        urls = {
            name: server.create_database(f'known_hosts_{name}')
            for name, server in (
                ('api', mariadb),
                ('cell0', mariadb),
                (CELLS[0], mariadb),
                (CELLS[1], postgres),
            )
        }

        def url(self, name):
            return self.urls[name]

    with contextlib.ExitStack() as stack:
        database = mariadb.create_database('known_hosts_placement')
        placement = Placement(tmp_path / 'p', database)
        placement.start()
        stack.callback(placement.close)
        auth = token_endpoint.Token(placement.url, 'admin')
        adapter = Adapter(
            Session(auth=auth),
            service_type='placement',
            raise_exc=False,
            connect_retries=3,  # an idle connection may have been closed
        )
        hosts = [
            Host(f'h{n}', cell=CELLS[n % 2], zone=ZONE, vcpus=64, memory_mb=65536)
            for n in range(HOSTS_EACH * len(CELLS))
        ]
        options = {
            'DEFAULT': {'service_down_time': 3600},
            'filter_scheduler': {'enabled_filters': FILTERS},
            'novasched': {'heartbeat_grace': 0.0},
        }
        made = OnServers(tmp_path, adapter, hosts, options, stack, None, 'http://')
        engine = sa.create_engine(database, pool_size=10)
        stack.callback(engine.dispose)
        contents = DatabaseReader(Database(engine))
        scheduler = made.serve(providers=contents)
        lives = Lives(made)
        answers = run(made, scheduler, lives, seconds)
    given = [each for each in answers if each.hosts]
    wrong = [
        each
        for each in given
        if not all(lives.may_have_been_fit(h, *each[1:]) for h in each.hosts)
    ]
    missed = [
        each
        for each in answers
        if not each.hosts and any(lives.was_fit(h, *each[1:]) for h in lives.hosts)
    ]
    assert (wrong, missed) == ([], [])
    assert len(given) > seconds
    assert len(answers) > len(given)


def run(made, scheduler, lives, seconds):
    """Change hosts and boot servers for so long; return the answers."""
    end, answers, pause = time.monotonic() + seconds, [], threading.Event()

    def write(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            lives.change(rng.choice(lives.hosts[number::WRITERS]), rng)
            pause.wait(PAUSE_S)

    def boot(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            (uuid,), several = new_uuids(), rng.choice([True, False])
            found, asked_at = [[]], time.monotonic()
            with contextlib.suppress(errors.NoValidHost):
                found = made.ask(scheduler, [uuid], return_alternates=several, **WANTED)
            answers.append(Answer(tuple(found[0]), asked_at, time.monotonic()))
            made.adapter.delete(f'/allocations/{uuid}')

    with ThreadPoolExecutor(CLIENTS + WRITERS) as threads:
        work = [threads.submit(write, number) for number in range(WRITERS)]
        work += [threads.submit(boot, number) for number in range(CLIENTS)]
        for each in work:
            each.result()
    return answers
