# SPDX-License-Identifier: Apache-2.0
"""Cells are asked side by side; those that fail or are late are left out."""

import logging
import threading
import time

import pytest

from novasched import errors
from novasched.cluster.cells import FAILURES, STEADY_S, Cells
from tests.support.databases.fake_databases import (
    CELL0,
    FakeCellStore,
    FakeCellStores,
    cell,
)
from tests.support.tables.cases import cases
from tests.unit.cluster.conftest import SHORT_S, TIMEOUT_S

DEADLINE_S = 30


@pytest.fixture
def stores():
    return FakeCellStores(a=FakeCellStore(), b=FakeCellStore(), c=FakeCellStore())


def hurry(cells):
    """Wait for a cell that hangs no longer than SHORT_S, once another has answered."""
    cells.timeout_s, cells.patience_s = SHORT_S, DEADLINE_S


@pytest.fixture
def cells(stores, clock):
    made = Cells(stores, clock, timeout_s=TIMEOUT_S, retry_interval_s=15, threads=3)
    made.replace([CELL0, cell('a'), cell('b')])
    yield made
    made.close()


def version(cell, store):
    return store.minimum_compute_version()


def lose(cells, store):
    """Let a cell fail until it is left out."""
    store.fail('refused')
    for _ in range(FAILURES):
        cells.ask(version, cells.all())


def uuids(found):
    return [cell.uuid for cell in found]


@cases(
    'unavailable, broken',
    ('it stops', 'the database', set()),
    ('it refuses a password', '', {'b'}),
)
def test_a_cell_is_broken_by_what_does_not_end_by_itself(
    cells, stores, unavailable, broken
):
    def refuse(name):
        raise errors.StoreFailed('a cell', 'refused', unavailable=unavailable)

    store = stores.stores['b']
    store.on_call = refuse
    for _ in range(FAILURES):
        assert cells.broken() == set()
        cells.ask(version, cells.all())
    assert cells.broken() == broken
    store.mend()
    cells.ask(version, cells.all(), probe=True, judges=False)
    assert cells.broken() == set()


def test_cell0_stands_apart(cells):
    assert uuids(cells.all()) == ['a', 'b']
    assert cells.cell0 == CELL0


def test_a_disabled_cell_is_known_but_not_enabled(cells):
    cells.replace([cell('a'), cell('b', disabled=True)])
    assert uuids(cells.all()) == ['a', 'b']
    assert uuids(cells.enabled()) == ['a']


@cases(
    'found, changed',
    ('the same cells', [CELL0, cell('a'), cell('b')], set()),
    ('a cell is gone', [CELL0, cell('a')], {'b'}),
    ('a cell is new', [CELL0, cell('a'), cell('b'), cell('c')], {'c'}),
    (
        'a cell has another database',
        [CELL0, cell('a', database_connection='sqlite://other'), cell('b')],
        {'a'},
    ),
    ('one is disabled', [CELL0, cell('a', disabled=True), cell('b')], {'a'}),
    (
        'cell0 has another database',
        [CELL0._replace(database_connection='x'), cell('a'), cell('b')],
        {CELL0.uuid},
    ),
)
def test_replace_tells_what_changed_and_closes_its_connections(
    cells, stores, found, changed
):
    stores.forgotten.clear()
    assert cells.replace(found) == changed
    assert stores.forgotten == ([changed] if changed else [])


def test_all_cells_answer_by_uuid(cells):
    assert cells.ask(lambda cell, store: cell.name, cells.all()) == {'a': 'a', 'b': 'b'}


def test_cells_are_asked_at_once(cells):
    both = threading.Barrier(2, timeout=DEADLINE_S)
    assert len(cells.ask(lambda cell, store: both.wait(), cells.all())) == 2


def test_a_cell_that_fails_is_named_and_asked_again_by_the_next(cells, stores, caplog):
    stores.stores['a'].fail('refused')
    assert cells.ask(version, cells.all()) == {'b': 0}
    assert cells.unavailable() == []
    assert 'Failed to get computes for cell a: a cell could not be asked' in caplog.text
    stores.stores['a'].mend()
    assert cells.ask(version, cells.all()) == {'a': 0, 'b': 0}


def test_a_cell_that_keeps_failing_is_left_out(cells, stores):
    lose(cells, stores.stores['a'])
    assert uuids(cells.unavailable()) == ['a']
    stores.stores['a'].calls.clear()
    assert cells.ask(version, cells.all()) == {'b': 0}
    assert stores.stores['a'].calls == []


def test_answer_resets_the_count_of_failures(cells, stores):
    for _ in range(FAILURES):
        stores.stores['a'].fail()
        for _ in range(FAILURES - 1):
            cells.ask(version, cells.all())
        stores.stores['a'].mend()
        cells.ask(version, cells.all())
    assert cells.unavailable() == []


def test_a_question_that_does_not_judge_leaves_no_cell_out(cells, stores, gate):
    stores.stores['a'].fail()
    for _ in range(FAILURES):
        assert cells.ask(version, cells.all(), judges=False) == {'b': 0}
    stores.stores['a'].on_call = lambda name: gate.wait(DEADLINE_S)
    hurry(cells)
    found = cells.ask(version, cells.all(), judges=False)
    assert found == {'b': 0}
    assert cells.unavailable() == []


def test_a_question_that_does_not_judge_takes_no_cell_in(cells, stores):
    lose(cells, stores.stores['a'])
    stores.stores['a'].mend()
    found = cells.ask(version, cells.all(), probe=True, judges=False)
    assert found == {'a': 0, 'b': 0}
    assert uuids(cells.unavailable()) == ['a']


def test_a_cell_that_was_late_stays_out_when_its_retry_fails(cells, stores, gate):
    stores.stores['a'].on_call = lambda name: gate.wait(DEADLINE_S)
    hurry(cells)
    cells.ask(version, cells.all())
    gate.set()
    stores.stores['a'].fail()
    cells.ask(version, cells.all(), probe=True)
    assert uuids(cells.unavailable()) == ['a']


def test_a_cell_that_is_late_is_named_and_left_out(cells, stores, gate, caplog):
    stores.stores['a'].on_call = lambda name: gate.wait(DEADLINE_S)
    started = time.monotonic()
    cells.timeout_s = SHORT_S
    assert cells.ask(version, cells.all()) == {'b': 0}
    assert time.monotonic() - started < DEADLINE_S / 2
    assert uuids(cells.unavailable()) == ['a']
    assert 'Timeout getting computes for cell a' in caplog.text


def test_when_none_has_answered_the_first_is_waited_for(stores, clock):
    cells = Cells(stores, clock, SHORT_S, 15, 3, patience_s=DEADLINE_S)
    cells.replace([cell('a'), cell('b')])
    first = threading.Event()

    def slow(cell, store):
        if cell.uuid == 'a':
            first.wait(4 * SHORT_S)
            first.set()
        assert first.wait(DEADLINE_S)
        return cell.uuid

    assert cells.ask(slow, cells.all()) == {'a': 'a', 'b': 'b'}
    assert cells.unavailable() == []
    cells.close()


@cases(
    'late, fails, patience_s, found',
    ('it has an end', 'b', 'a', 1.0, {}),
    ('it is not for those who are behind others', 'a', None, DEADLINE_S, {'b': 0}),
)
def test_patience(stores, clock, gate, late, fails, patience_s, found):
    cells = Cells(stores, clock, SHORT_S, 15, 3, patience_s=patience_s)
    cells.replace([cell('a'), cell('b')])
    stores.stores[late].on_call = lambda name: gate.wait(DEADLINE_S)
    if fails:
        stores.stores[fails].fail()
    started = time.monotonic()
    assert cells.ask(version, cells.all()) == found
    least_s = SHORT_S if found else patience_s
    assert least_s <= time.monotonic() - started < DEADLINE_S / 2
    assert uuids(cells.unavailable()) == [late]
    gate.set()
    cells.close()


def test_left_out_cell_is_logged_once(cells, stores, caplog):
    lose(cells, stores.stores['a'])
    for _ in range(3):
        cells.ask(version, cells.all(), probe=True)
    told = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert [r.getMessage() for r in told] == [
        'Cell a(a) is left out of all decisions until it answers'
    ]
    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == FAILURES


def test_late_cell_is_asked_over_new_connections(cells, stores, gate):
    hangs = stores.stores['a']
    hangs.on_call = lambda name: gate.wait(DEADLINE_S)
    hurry(cells)
    cells.ask(version, cells.all())
    assert stores.forgotten[-1] == {'a'}
    stores.stores['a'] = FakeCellStore()
    cells.timeout_s = TIMEOUT_S
    assert cells.ask(version, cells.all(), probe=True) == {'a': 0, 'b': 0}
    assert not gate.is_set()


@cases('of', ('cell0', CELL0), ('a disabled cell', cell('c', disabled=True)))
def test_a_cell_that_gives_no_hosts_is_tried_again_too(cells, stores, clock, gate, of):
    stores.stores[CELL0.uuid] = FakeCellStore()
    cells.replace([CELL0, cell('a'), cell('c', disabled=True)])
    stores.stores[of.uuid].on_call = lambda name: gate.wait(DEADLINE_S)
    assert cells.ask(version, [of], timeout_s=0.1) == {}
    assert not cells.may_be_asked(of)
    assert cells.unavailable() == cells.due_for_retry() == []
    clock.advance(1)
    assert cells.due_for_retry() == [of]


def test_calls_that_hang_take_no_thread_of_another_cell(cells, stores, gate):
    stores.stores['a'].on_call = lambda name: gate.wait(DEADLINE_S)
    cells.timeout_s = SHORT_S
    for _ in range(5):
        found = cells.ask(version, cells.all(), probe=True)
        assert found == {'b': 0}
    cells.timeout_s = TIMEOUT_S
    gate.set()
    assert cells.ask(version, cells.all(), probe=True) == {'a': 0, 'b': 0}


def test_a_cell_is_due_for_a_retry_soon_then_later_and_later(
    cells, stores, clock, caplog
):
    caplog.set_level(logging.INFO)
    lose(cells, stores.stores['a'])
    for wait_s in (1, 2, 4, 8, 15, 15):
        clock.advance(wait_s - 0.5)
        assert cells.due_for_retry() == []
        clock.advance(0.5)
        assert uuids(cells.due_for_retry()) == ['a']
        cells.ask(version, cells.due_for_retry(), probe=True)
    clock.advance(15)
    stores.stores['a'].mend()
    assert cells.ask(version, cells.due_for_retry(), probe=True) == {'a': 0}
    assert cells.unavailable() == []
    assert 'Cell a answers again' in caplog.text


def answer_again(cells, store):
    store.mend()
    cells.ask(version, cells.due_for_retry(), probe=True)
    assert cells.unavailable() == []


@cases(
    'steady_s, second_s',
    ('it answered for a moment', 2, 2),
    ('it has answered for long', STEADY_S, 1),
)
def test_a_cell_that_is_left_out_again_waits_longer_unless_that_is_long_ago(
    cells, stores, clock, steady_s, second_s
):
    lose(cells, stores.stores['a'])
    clock.advance(1)
    answer_again(cells, stores.stores['a'])
    clock.advance(steady_s)
    lose(cells, stores.stores['a'])
    clock.advance(second_s - 0.5)
    assert cells.due_for_retry() == []
    clock.advance(0.5)
    assert uuids(cells.due_for_retry()) == ['a']


def test_when_no_cell_is_left_each_is_tried_every_second(cells, stores, clock):
    lose(cells, stores.stores['a'])
    clock.advance(1)
    lose(cells, stores.stores['b'])
    for _ in range(4):
        cells.ask(version, cells.due_for_retry(), probe=True)
        assert cells.due_for_retry() == []
        clock.advance(1)
        assert uuids(cells.due_for_retry()) == ['a', 'b']


@cases(
    'found',
    ('it is disabled', [cell('a', disabled=True), cell('b')]),
    ('it is mended', [cell('a', database_connection='x'), cell('b')]),
)
def test_a_cell_that_is_mapped_otherwise_is_asked_at_once(cells, stores, found):
    lose(cells, stores.stores['a'])
    stores.stores['a'].mend()
    cells.replace(found)
    assert set(cells.ask(version, cells.all())) == {'a', 'b'}


def test_a_cell_that_is_no_longer_as_it_was_is_opened_as_it_is(cells, stores):
    (old, _) = cells.all()
    cells.replace([cell('a', database_connection='new'), cell('b')])
    cells.ask(version, [old])
    assert stores.opened[-1].database_connection == 'new'


def test_a_cell_without_a_mapping_is_not_opened(cells, stores, caplog):
    assert cells.ask(version, [cell('c')]) == {}
    assert stores.opened == []
    assert 'no such cell' in caplog.text


@cases(
    'problem',
    ('a defect', LookupError('a defect')),
    ('not UTF-8', UnicodeDecodeError('utf-8', b'\xff', 0, 1, 'a defect')),
)
def test_a_defect_in_one_cell_leaves_the_answers_of_the_others(cells, caplog, problem):
    def defective(cell, store):
        if cell.uuid == 'a':
            raise problem
        return 5

    for _ in range(FAILURES):
        assert cells.unavailable() == []
        assert cells.ask(defective, cells.all()) == {'b': 5}
    assert uuids(cells.unavailable()) == ['a']
    assert 'Failed to get computes for cell a' in caplog.text
    assert 'Traceback' in caplog.text


def test_closing_may_wait_for_the_threads(stores, clock):
    cells = Cells(stores, clock)
    cells.replace([cell('joined-a', name='a')])
    stores.stores['joined-a'] = FakeCellStore()
    cells.ask(version, cells.all())
    (thread,) = (t for t in threading.enumerate() if t.name == 'cell joined-a')
    cells.close(join_s=DEADLINE_S)
    assert not thread.is_alive()


def test_closing_waits_no_longer_than_it_may(stores, clock, gate):
    cells = Cells(stores, clock)
    cells.replace([cell('a')])
    stores.stores['a'].on_call = lambda name: gate.wait(DEADLINE_S)
    cells.ask(version, cells.all(), timeout_s=0.1)
    started = time.monotonic()
    cells.close(join_s=0.1)
    assert time.monotonic() - started < DEADLINE_S / 2


def test_nothing_is_asked_after_closing(cells, stores):
    cells.close()
    assert cells.ask(version, cells.all()) == {}
    assert stores.forgotten[-1] is None


def test_queued_call_is_not_made_after_closing(cells, stores, gate):
    found = stores.stores['a']
    found.on_call = lambda name: gate.wait(DEADLINE_S)
    asking = [
        threading.Thread(
            target=cells.ask,
            args=(version, [cell('a')]),
            kwargs={'timeout_s': DEADLINE_S},
        )
        for _ in range(4)
    ]
    for number, thread in enumerate(asking[:3], 1):
        thread.start()
        while len(stores.opened) < number:
            assert thread.is_alive()
    asking[3].start()
    while cells._executors['a']._calls.empty():
        assert asking[3].is_alive()
    cells.close()
    gate.set()
    for thread in asking:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert len(stores.opened) == 3
