# SPDX-License-Identifier: Apache-2.0
"""Computes that all fall silent at once are told of, and kept for a while."""

import logging

import pytest

from novasched.cluster.cells import Cells
from novasched.cluster.heartbeat_grace import HeartbeatGrace
from novasched.cluster.view import ClusterView
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import (
    FakeApiStore,
    FakeCellStore,
    FakeCellStores,
    cell,
    node,
    service,
)
from tests.support.tables.cases import cases

ALL = [1, 2, 3, 4]


class Cloud:
    """Cell a with hosts 1 to 4, cell b with hosts 5 to 7, all up at noon."""

    def __init__(self):
        self.clock = FakeClock()
        self.stores = FakeCellStores(a=FakeCellStore(), b=FakeCellStore())
        self.a, self.b = self.stores.stores.values()
        for id_ in ALL:
            self.a.add_host(id_)
        self.api = FakeApiStore([cell('a')])
        self.view = self.new_view()

    def new_view(self, **options):
        view = ClusterView(
            self.api,
            Cells(self.stores, self.clock),
            self.clock,
            heartbeat_grace=HeartbeatGrace(self.clock, **options),
        )
        view.load()
        return view

    def with_b(self, **options):
        for id_ in (5, 6, 7):
            self.b.add_host(id_)
        self.api.found_cells.append(cell('b'))
        self.view.close()
        self.view = self.new_view(**options)

    def beat(self, store, *ids, after_s=0):
        for id_ in ids:
            seen = self.clock.utcnow() + after_s * SECOND
            found = store.services[f'h{id_}']
            store.services[f'h{id_}'] = found._replace(last_seen_up=seen)

    def set(self, id_, **fields):
        self.a.services[f'h{id_}'] = self.a.services[f'h{id_}']._replace(**fields)

    def up(self):
        self.view.refresh()
        hosts = self.view.hosts(None)
        return sorted(hosts.host[hosts.service_up].tolist())


@pytest.fixture
def cloud():
    made = Cloud()
    yield made
    made.view.close()


def names(*ids):
    return [f'h{id_}' for id_ in ids]


def told(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith('novasched') and record.levelno == logging.ERROR
    ]


def test_computes_up_at_the_last_heartbeat_stay_up_for_the_grace(cloud, caplog):
    cloud.clock.advance(61)
    for _ in range(3):
        assert cloud.up() == names(*ALL)
    fallen, kept = told(caplog)
    assert 'All computes of cell a have fallen silent at once, 4 that' in fallen
    assert str(NOON) in fallen
    assert 'The computes of cell a that were up' in kept
    cloud.clock.advance(298)
    assert cloud.up() == names(*ALL)
    cloud.clock.advance(2)
    assert cloud.up() == []
    assert cloud.up() == []
    (over,) = told(caplog)[2:]
    assert over == 'The computes of cell a count as down from now on'


def test_filters_see_that_they_are_kept(cloud):
    cloud.clock.advance(61)
    cloud.view.refresh()
    hosts = cloud.view.hosts(None)
    oldest = cloud.clock.utcnow() - 60 * SECOND
    seen = {row['last_seen_up'].replace(tzinfo=None) for row in hosts.service}
    assert seen == {oldest}


def test_compute_forced_down_during_the_grace_is_down(cloud):
    """As the read of a picked host shows before any look does."""
    cloud.clock.advance(61)
    assert cloud.up() == names(*ALL)
    seen = cloud.view.hosts(None).snapshot
    cloud.set(2, forced_down=True)
    uuids = {node(1).uuid, node(2).uuid}
    assert cloud.view.changed(uuids, seen) == {node(2).uuid}
    hosts = cloud.view.hosts(None)
    assert hosts.host[hosts.service_up].tolist() == names(1, 3, 4)
    assert cloud.up() == names(1, 3, 4)


def test_it_is_over_when_one_is_heard_of(cloud, caplog):
    caplog.set_level(logging.INFO)
    cloud.clock.advance(61)
    assert cloud.up() == names(*ALL)
    cloud.beat(cloud.a, 2)
    assert cloud.up() == ['h2']
    assert 'Computes of cell a send heartbeats again' in caplog.messages
    cloud.beat(cloud.a, *ALL)
    assert cloud.up() == names(*ALL)


def test_one_who_comes_later_grants_no_more(cloud):
    cloud.clock.advance(200)
    late = cloud.new_view()
    late.refresh()
    assert late.hosts(None).service_up.all()
    cloud.clock.advance(161)
    late.refresh()
    assert not late.hosts(None).service_up.any()
    late.close()


def test_our_clock_may_be_the_one_that_is_wrong(cloud):
    cloud.clock.set_back(7200)
    assert cloud.up() == names(*ALL)
    cloud.clock.advance(299)
    assert cloud.up() == names(*ALL)
    cloud.clock.advance(2)
    assert cloud.up() == []


def test_silence_is_only_logged_without_a_grace(cloud, caplog):
    cloud.view.close()
    cloud.view = cloud.new_view(grace_s=0)
    cloud.clock.advance(61)
    assert cloud.up() == []
    (fallen,) = told(caplog)
    assert 'have fallen silent at once' in fallen


NEVER = {'last_seen_up': None, 'created_at': None}
OUT = {**NEVER, 'disabled': True}


def seen(after_s):
    return {'last_seen_up': NOON + after_s * SECOND}


@cases(
    'changes, kept',
    ('one is disabled', {3: {'disabled': True}}, ALL),
    ('one is forced down', {3: {'forced_down': True}}, [1, 2, 4]),
    ('one was down', {3: seen(-100)}, [1, 2, 4]),
    ('one is ahead', {3: seen(9000)}, [1, 2, 4]),
    ('one was never heard of', {3: NEVER}, [1, 2, 4]),
    ('they went one by one', {2: seen(-100), 3: seen(-200)}, []),
    ('none was ever heard of', dict.fromkeys(ALL, OUT), []),
)
def test_grace_covers_only_computes_that_were_up_at_the_last_heartbeat(
    cloud, changes, kept
):
    for id_, fields in changes.items():
        cloud.set(id_, **fields)
    cloud.clock.advance(61)
    assert cloud.up() == names(*kept)


def test_a_disabled_compute_that_beats_shows_that_heartbeats_arrive(cloud, caplog):
    cloud.set(3, disabled=True)
    cloud.clock.advance(61)
    cloud.beat(cloud.a, 3)
    assert cloud.up() == ['h3']
    assert told(caplog) == []


def test_two_computes_may_well_end_at_once(cloud, caplog):
    for id_ in (3, 4):
        del cloud.a.services[f'h{id_}']
    cloud.view.read_services()
    cloud.clock.advance(61)
    assert cloud.up() == []
    assert told(caplog) == []


def test_no_cell_is_kept_while_computes_of_another_are_up(cloud, caplog):
    cloud.with_b()
    cloud.clock.advance(61)
    cloud.beat(cloud.b, 5, 6, 7)
    assert cloud.up() == names(5, 6, 7)
    (fallen,) = told(caplog)
    assert 'All computes of cell a have fallen silent' in fallen


def test_cells_that_are_all_silent_are_kept_together(cloud):
    cloud.with_b()
    cloud.clock.advance(61)
    assert cloud.up() == names(*ALL, 5, 6, 7)


def test_a_cell_may_be_kept_by_itself(cloud):
    cloud.with_b(for_each_cell=True)
    cloud.clock.advance(61)
    cloud.beat(cloud.b, 5, 6)
    assert cloud.up() == names(*ALL, 5, 6)


def test_a_cell_that_is_gone_is_forgotten(cloud, caplog):
    caplog.set_level(logging.INFO)
    cloud.with_b(for_each_cell=True)
    cloud.clock.advance(61)
    cloud.beat(cloud.b, 5, 6, 7)
    assert cloud.up() == names(*ALL, 5, 6, 7)
    cloud.api.found_cells = [cell('b')]
    cloud.view.check()
    assert cloud.up() == names(5, 6, 7)
    assert 'send heartbeats again' not in caplog.text


def test_a_new_service_is_not_silent(cloud):
    cloud.clock.advance(61)
    assert cloud.up() == names(*ALL)
    cloud.a.add_host(9)
    cloud.a.services['h9'] = service(
        'h9', created_at=cloud.clock.utcnow(), last_seen_up=None
    )
    cloud.a.change(9, cloud.clock.utcnow())
    assert cloud.up() == ['h9']
