# SPDX-License-Identifier: Apache-2.0
"""Clocks that differ from ours are named once."""

import logging

import pytest

from novasched.cluster.cells import Cells
from novasched.cluster.clock_skew import ClockSkew
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import FakeCellStore, FakeCellStores, cell
from tests.support.tables.cases import cases


@pytest.fixture
def store():
    made = FakeCellStore()
    for id_ in range(1, 8):
        made.add_host(id_)
    return made


@pytest.fixture
def clock_skew(store):
    clock = FakeClock()
    cells = Cells(FakeCellStores(a=store), clock)
    cells.replace([cell('a')])
    yield ClockSkew(cells, clock, bound_s=10)
    cells.close()


def ahead(store, id_, seconds):
    row = store.services[f'h{id_}']
    store.services[f'h{id_}'] = row._replace(last_seen_up=NOON + seconds * SECOND)


@cases(
    'seconds, told',
    ('by as much as it may', 10, []),
    ('ahead', 11, ['The clock of the database of cell a is 11 s ahead of ours']),
    ('behind', -11, ['The clock of the database of cell a is 11 s behind ours']),
)
def test_the_clock_of_a_database(clock_skew, store, caplog, seconds, told):
    store.ahead = seconds * SECOND
    clock_skew.check()
    clock_skew.check()
    assert caplog.messages == told


def test_corrected_clock_is_logged(clock_skew, store, caplog):
    caplog.set_level(logging.INFO)
    for seconds in (60, 0, 0, 60):
        store.ahead = seconds * SECOND
        clock_skew.check()
    assert [message.rpartition(' is ')[2] for message in caplog.messages] == [
        '60 s ahead of ours',
        'right again',
        '60 s ahead of ours',
    ]


def test_the_time_that_a_question_takes_is_no_difference(clock_skew, store, caplog):
    clock = clock_skew._clock
    store.clock = clock
    store.on_call = lambda name: clock.advance(30)
    clock_skew.check()
    assert caplog.messages == []


def test_heartbeats_from_the_future_are_named_once(clock_skew, store, caplog):
    ahead(store, 1, 10)
    ahead(store, 2, 11)
    clock_skew.check()
    clock_skew.check()
    assert caplog.messages == [
        'Heartbeats of 1 computes of cell a are from the future, up to 11 s by our '
        'clock: h2'
    ]
    caplog.clear()
    for id_ in range(1, 8):
        ahead(store, id_, 20 + id_)
    clock_skew.check()
    assert caplog.messages == [
        'Heartbeats of 6 computes of cell a are from the future, up to 27 s by our '
        'clock: h1, h3, h4, h5, h6, ...'
    ]


def test_a_cell_that_does_not_answer_is_not_judged(clock_skew, store, caplog):
    ahead(store, 2, 11)
    clock_skew.check()
    caplog.clear()
    store.fail()
    clock_skew.check()
    store.mend()
    clock_skew.check()
    assert [r for r in caplog.messages if 'from the future' in r] == []
