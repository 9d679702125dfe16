# SPDX-License-Identifier: Apache-2.0
"""What a worker writes down of its claims, and when it is forgotten."""

import logging
import os
import threading

import pytest

from novasched.journal.store import FULL_AT, parse
from tests.support.tables.cases import cases

BEFORE = {'allocations': {'old': {'resources': {'VCPU': 4}}}, 'project_id': 'p'}


@pytest.fixture
def written(directory):
    """What stands in the journal: a state and a consumer for each line."""

    def read():
        return [
            (one.state.decode(), one.intent.consumer_uuid)
            for path in sorted(directory.glob('*.journal'))
            for one in parse(path.read_bytes()).records
        ]

    return read


def warnings(caplog):
    return [
        each.getMessage()
        for each in caplog.records
        if each.name.startswith('novasched') and each.levelno >= logging.WARNING
    ]


def test_an_intent_stands_there_before_its_claim(worker, intent, written):
    first, second = worker().intend([intent('a'), intent('b')])
    assert written() == [('o', 'a'), ('o', 'b')]
    first.answering()
    second.settle()
    assert written() == [('a', 'a'), ('s', 'b')]
    first.settle()
    assert written() == [('s', 'a'), ('s', 'b')]


def test_no_file_is_made_before_there_is_a_claim(worker, directory):
    worker().close()
    assert not directory.exists()


def test_a_worker_that_ends_well_leaves_no_file(worker, intent, directory):
    made = worker()
    made.intend([intent()])[0].settle()
    made.close()
    assert list(directory.iterdir()) == []


def test_open_entry_outlives_its_worker(worker, intent, written):
    made = worker()
    first, _ = made.intend([intent('a'), intent('b')])
    made.close()
    first.settle()
    assert written() == [('s', 'a'), ('o', 'b')]


def test_unremovable_file_is_logged(worker, intent, caplog, full):
    made = worker()
    made.intend([intent()])[0].settle()
    inner = made._file
    made._file = full(inner, ['remove'])
    made.close()
    assert len(warnings(caplog)) == 1
    inner.remove()


def test_a_full_file_is_removed_when_nothing_in_it_is_open(
    worker, intent, directory, written
):
    made = worker()
    (kept,) = made.intend([intent('kept')])
    (full,) = directory.iterdir()
    number = 0
    while full.stat().st_size <= FULL_AT:
        made.intend([intent(str(number))])[0].settle()
        number += 1
    assert written()[0] == ('o', 'kept')
    kept.settle()
    assert list(directory.iterdir()) == []
    made.intend([intent('next')])
    assert written() == [('o', 'next')]


def test_a_file_in_which_something_is_always_open_is_followed_by_another(
    worker, intent, directory
):
    made = worker()
    last = made.intend([intent('0')])[0]
    for number in range(10 * FULL_AT // 100):
        more = made.intend([intent(str(number))])[0]
        last.settle()
        last = more
    assert sum(path.stat().st_size for path in directory.iterdir()) < 2 * FULL_AT
    last.settle()


def test_earlier_allocation_replaces_the_line_of_the_claim(
    worker, intent, directory, written
):
    made = worker()
    (entry,) = made.intend([intent()])
    made.held('a', None, None)
    made.held('other', BEFORE, 7)
    made.held('a', BEFORE, 7)
    made.held('a', BEFORE, 7)
    assert written() == [('s', 'a'), ('o', 'a')]
    (path,) = directory.iterdir()
    lines = [one.intent for one in parse(path.read_bytes()).records]
    assert [(one.before, one.generation) for one in lines] == [
        (None, None),
        (BEFORE, 7),
    ]
    entry.settle()
    assert written() == [('s', 'a'), ('s', 'a')]


def test_end_of_an_earlier_claim_does_not_end_a_later_one(worker, intent):
    """One thread makes both for one consumer; the first was left to recovery."""
    made = worker()
    (first,) = made.intend([intent()])
    first.undo_later(0.0)
    (second,) = made.intend([intent()])
    first.settle()
    made.held('a', BEFORE, 7)
    assert second.record.intent.before == BEFORE


def test_the_line_that_takes_the_place_of_another_is_as_old(
    worker, intent, uptime, directory
):
    made = worker()
    (entry,) = made.intend([intent()])
    since = uptime()
    uptime.seconds += 60
    made.held('a', BEFORE, 7)
    (path,) = directory.iterdir()
    assert [one.written for one in parse(path.read_bytes()).records] == [since] * 2
    entry.settle()


def test_a_line_is_open_until_another_takes_its_place(worker, intent):
    class Told:
        """Tells what is done to a file."""

        def __init__(self, inner):
            self.inner = inner
            self.done = []

        def __getattr__(self, name):
            self.done += [name] * (name in ('write', 'mark'))
            return getattr(self.inner, name)

    made = worker()
    (entry,) = made.intend([intent()])
    made._file = entry.file = told = Told(entry.file)
    made.held('a', BEFORE, 7)
    assert told.done == ['write', 'mark']
    entry.settle()


def test_another_generation_takes_the_place_of_the_line(worker, intent, written):
    made = worker()
    (entry,) = made.intend([intent()])
    made.held('a', BEFORE, 7)
    made.held('a', BEFORE, 8)
    assert written() == [('s', 'a'), ('s', 'a'), ('o', 'a')]
    assert entry.record.intent.generation == 8


def test_another_threads_claim_for_the_same_consumer_is_another(worker, intent):
    made = worker()
    (entry,) = made.intend([intent()])
    other = threading.Thread(target=made.held, args=('a', BEFORE, 7))
    other.start()
    other.join()
    assert entry.record.intent.before is None


def test_interrupted_claim_stays_open(worker, intent, written):
    made = worker()
    (entry,) = made.intend([intent()])
    entry.leave()
    made.held('a', BEFORE, 7)
    made.close()
    assert written() == [('o', 'a')]


# -- a disk that does not take it


def test_unusable_directory_is_logged_once(worker, intent, tmp_path, caplog):
    (tmp_path / 'file').touch()
    made = worker(tmp_path / 'file' / 'journal')
    for _ in range(2):
        (entry,) = made.intend([intent()])
        made.held('a', BEFORE, 7)
        entry.answering()
        entry.settle()
    (said,) = warnings(caplog)
    assert 'cannot be written' in said


def test_full_disk_is_logged_each_time_it_begins(worker, intent, written, caplog, full):
    made = worker()
    made.intend([intent('a')])
    inner = made._file
    for consumer in 'bc':
        made._file = full(inner, ['write'])
        for _ in range(2):
            made.intend([intent('lost')])[0].settle()
        made._file = inner
        made.intend([intent(consumer)])
    assert len(warnings(caplog)) == 2
    assert written() == [('o', 'a'), ('o', 'b'), ('o', 'c')]


@pytest.mark.parametrize('fails', [['mark'], ['mark', 'remove']])
def test_a_file_that_takes_no_state_is_not_acted_upon(
    worker, intent, directory, caplog, fails, full
):
    made = worker()
    (entry,) = made.intend([intent()])
    inner = entry.file
    made._file = entry.file = full(inner, fails)
    entry.answering()
    assert len(list(directory.iterdir())) == ('remove' in fails)
    assert ('Remove' in warnings(caplog)[-1]) == ('remove' in fails)
    made.intend([intent()])
    inner.remove()


@cases(
    'again',
    ('at the next claim', lambda made, intent: made.intend([intent])),
    ('at the end', lambda made, intent: made.close()),
)
def test_a_file_that_could_not_be_removed_is_when_the_disk_is_back(
    worker, intent, caplog, again, full
):
    made = worker()
    first, second = made.intend([intent('a'), intent('b')])
    inner, fails = first.file, ['mark', 'remove']
    made._file = first.file = second.file = full(inner, fails)
    first.answering()
    second.answering()
    made._remove_doomed()
    assert sum('Remove' in line for line in warnings(caplog)) == 1
    assert os.path.exists(inner.path)
    fails.clear()
    again(made, intent('c'))
    assert not os.path.exists(inner.path)


def test_last_request_of_a_journal_that_has_ended_removes_its_file(
    worker, intent, files
):
    journal = worker()
    (entry,) = journal.intend([intent('a')])
    file = entry.file
    journal.close()
    assert len(files()) == 1
    entry.settle()
    assert files() == []
    assert file._descriptor < 0


def test_entry_that_is_settled_after_its_file_was_handed_over_harms_no_other(
    worker, intent, written, said
):
    journal = worker()
    entries = journal.intend([intent('a'), intent('b')])
    for entry in entries:
        entry.undo_later(0.0)
    (first, _) = journal.to_undo()
    journal.close()
    first.settle()
    assert [state for state, _ in written()][-1:] == ['o']
    assert said() == []
