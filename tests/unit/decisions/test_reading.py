# SPDX-License-Identifier: Apache-2.0
"""Lists, counts and single records, over several files."""

import contextlib
import os
import sqlite3

import pytest

from novasched import errors
from novasched.decisions import files, overview
from novasched.decisions.comparison import Verdict
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.reading import Criteria, DecisionFiles, Mark, whole_id
from novasched.decisions.writing import DecisionWriter
from tests.support.records.compared_records import compared_record, comparison
from tests.support.records.stored_records import NOON, SetClock, make_record, write

EVERYTHING = Criteria()
RECORDS = [
    make_record(
        NOON + number,
        None if number % 2 else f'cmp-{number}',
        uuid=f'server-{number % 3}',
    )
    for number in range(9)
]
HEADS = [record.head for record in RECORDS]


@pytest.fixture
def said():
    return []


def filled(directory, records=RECORDS, to_a_file=3):
    """Put records into files, so many into each."""
    for start in range(0, len(records), to_a_file):
        if start:
            files.begin(directory, start // to_a_file, NOON)
        writer = DecisionWriter(directory, clock=SetClock())
        write(writer, records[start : start + to_a_file])
        writer.close()


@pytest.fixture
def reader(tmp_path, said):
    filled(tmp_path)
    return DecisionFiles(tmp_path, said.append, SetClock(NOON + 60))


def test_records_are_listed_in_the_order_of_writing(tmp_path):
    records = [make_record(at_s) for at_s in (NOON, NOON - 3600, NOON + 30 * 86400)]
    filled(tmp_path, records, to_a_file=2)
    reader = DecisionFiles(tmp_path)
    assert reader.find(EVERYTHING) == [record.head for record in reversed(records)]


@pytest.mark.parametrize('limit', [1, 3, 4, 9, 100])
def test_pages_are_all_of_it(reader, limit):
    found, before = [], None
    while page := reader.find(EVERYTHING, limit, before):
        assert len(page) <= limit
        found += page
        before = page[-1].id
    assert found == HEADS[::-1]


def test_pages_begin_with_a_decision_that_is_known(reader):
    with pytest.raises(errors.DecisionNotFound):
        reader.find(EVERYTHING, before='odd!')
    with pytest.raises(errors.AmbiguousDecision):
        reader.find(EVERYTHING, before=HEADS[0].id[:7])


def test_pages_begin_with_a_decision_of_another_machine(reader):
    assert reader.find(EVERYTHING, before='d-0000000000000') == []
    later = f'{HEADS[3].id[:-1]}z'
    assert later != HEADS[3].id
    assert reader.find(EVERYTHING, 1, later) == [HEADS[3]]


def test_new_ones_are_found_after_a_place(reader, tmp_path):
    found, mark = reader.newer(EVERYTHING, Mark(), limit=4)
    assert found == HEADS[:4]
    found, mark = reader.newer(EVERYTHING, mark)
    assert found == HEADS[4:]
    assert reader.newer(EVERYTHING, mark) == ([], mark)
    assert mark == reader.end()
    files.begin(tmp_path, 3, NOON)
    assert reader.newer(EVERYTHING, mark) == ([], mark)
    record = make_record()
    with contextlib.closing(DecisionWriter(tmp_path)) as writer:
        write(writer, [record])
    assert reader.newer(EVERYTHING, mark)[0] == [record.head]
    assert reader.newer(Criteria(flavor='other'), mark)[0] == []


VERDICTS = (
    [Verdict.EQUAL],
    [Verdict.WORSE],
    [Verdict.ALIKE, Verdict.UNKNOWN],
    [Verdict.EQUAL, Verdict.NOVA_ONLY],
)
SHADOWED = [
    compared_record(
        NOON + place,
        *(comparison(each, server=f's{n}') for n, each in enumerate(verdicts)),
    )
    for place, verdicts in enumerate(VERDICTS)
]


def test_decisions_that_nova_made_otherwise_are_found_and_counted(tmp_path, said):
    filled(tmp_path, [make_record(NOON - 1), *SHADOWED], to_a_file=2)
    reader = DecisionFiles(tmp_path, said.append, SetClock(NOON + 60))
    differing = [SHADOWED[3].head, SHADOWED[1].head]
    criteria = Criteria(differs=True)
    assert reader.find(criteria) == differing
    assert reader.newer(criteria, Mark())[0] == differing[::-1]
    assert [each.count for each in reader.count('result', criteria)] == [2]
    assert reader.find(Criteria(differs=False)) == reader.find(EVERYTHING)
    assert [each.server for each in reader.compared(0)] == [
        *('s0', 's1', 's0', 's1', 's0', 's0')
    ]
    assert reader.has_compared()
    assert said == []


def test_log_of_a_scheduler_has_nothing_compared(reader, said):
    assert reader.find(Criteria(differs=True)) == []
    assert reader.newer(Criteria(differs=True), reader.end()) == ([], reader.end())
    assert reader.count('result', Criteria(differs=True)) == []
    assert list(reader.compared(0)) == []
    assert reader.listened(0) == []
    assert not reader.has_compared()
    assert said == []


def test_times_of_tapping_end_with_the_last_that_was_written(tmp_path):
    with contextlib.closing(DecisionWriter(tmp_path, clock=SetClock())) as writer:
        for since, until in ((10, 20), (30, 35), (30, 50)):
            writer.write_listened(since, until)
    listened = [(10_000_000, 20_000_000), (30_000_000, 50_000_000)]
    assert DecisionFiles(tmp_path).listened(0) == listened
    assert DecisionFiles(tmp_path).listened(20_000_001) == listened[1:]


def test_unmatched_records_are_read_once(reader):
    found, mark = reader.newer(Criteria(flavor='other'), Mark())
    assert (found, mark) == ([], reader.end())
    found, mark = reader.newer(Criteria(result='scheduled'), Mark(), limit=2)
    assert found == [HEADS[0], HEADS[2]]
    assert mark == Mark(1, 3)


def test_a_server_has_its_decisions(reader):
    assert reader.find(Criteria(server='server-1')) == [HEADS[7], HEADS[4], HEADS[1]]
    assert reader.find(Criteria(server='server-1'), limit=1) == [HEADS[7]]
    assert reader.find(Criteria(server='other')) == []


def test_the_beginning_of_a_uuid_finds_the_server(reader):
    assert reader.find(Criteria(server='server')) == HEADS[::-1]
    assert reader.find(Criteria(server='server-10')) == []


def test_servers_and_the_hosts_that_were_picked(reader):
    ids = [head.id for head in HEADS]
    assert reader.servers_of(ids) == {
        head.id: ([f'server-{number % 3}'], [f'cmp-{number}'] * (number % 2 == 0))
        for number, head in enumerate(HEADS)
    }
    assert reader.servers_of([]) == {}


def test_a_record_is_read_by_the_beginning_of_its_id(tmp_path):
    first, second = make_record(NOON), make_record(NOON + 3600)
    filled(tmp_path, [first, second], to_a_file=1)
    reader = DecisionFiles(tmp_path)
    for typed in (first.head.id, first.head.id[2:].upper(), first.head.id[:10]):
        assert reader.read(typed).head == first.head
    assert reader.read('d-zzzzzz') is None


@pytest.mark.parametrize('hours', [-1, 0, 1])
def test_times_of_files_only_say_where_to_look_first(reader, tmp_path, hours):
    for number, path in enumerate(sorted(tmp_path.glob('*.sqlite'))):
        written = NOON + 3 * (1 - number if hours else number) + hours * 3600
        os.utime(path, (written, written))
    assert [reader.read(head.id).head for head in HEADS] == HEADS


def test_a_beginning_of_several_is_not_enough(reader):
    with pytest.raises(errors.AmbiguousDecision, match='Type more of it') as problem:
        reader.read(HEADS[0].id[:7])
    assert set(problem.value.found) == {head.id for head in HEADS}


@pytest.mark.parametrize(
    'typed', ['', 'd-', 'd-012', 'd-0123*', 'web-7-xyz', 'd-' + 20 * 'z']
)
def test_invalid_id_is_not_found(reader, typed):
    with pytest.raises(errors.DecisionNotFound, match='No record is kept'):
        reader.read(typed)


def test_letters_that_look_alike_are_taken_for_each_other():
    assert whole_id('D-O1lI00000000U') == 'd-011100000000v'


def test_the_oldest_is_known(reader, tmp_path):
    assert reader.oldest_at() == HEADS[0].at
    assert DecisionFiles(tmp_path / 'none').oldest_at() is None


def test_a_broken_file_is_left_out(reader, said, tmp_path):
    (tmp_path / '000002.sqlite').write_bytes(b'garbage' * 1000)
    assert reader.find(EVERYTHING) == HEADS[:5:-1] + HEADS[2::-1]
    assert said == [f'{tmp_path}/000002.sqlite cannot be read: file is not a database']
    assert sum(each.count for each in reader.count('result', EVERYTHING)) == 6


def test_an_answer_that_takes_too_long_is_interrupted(tmp_path, said):
    filled(tmp_path)

    class Fast(SetClock):
        """A clock on which two minutes pass between two looks."""

        seconds = 0.0

        def monotonic(self):
            self.seconds += 120.0
            return self.seconds

    def count(connection, _):
        numbers = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n '
        limited = f'{numbers} LIMIT 1000000) SELECT count(*) FROM n'
        return connection.execute(limited).fetchone()

    assert list(DecisionFiles(tmp_path, said.append, Fast()).each(count, [1])) == []
    assert said == [f'{tmp_path}/000001.sqlite cannot be read: interrupted']
    assert list(DecisionFiles(tmp_path).each(count, [1])) == [(1_000_000,)]


def test_a_number_that_no_database_takes_is_nothing_found(reader, said):
    assert reader.find(Criteria(since=10**30)) == []
    assert 'too large' in said[0]


def test_a_file_that_is_gone_is_nothing_to_tell(reader, said, tmp_path):
    class Removing(DecisionFiles):
        """The oldest file is removed once the list is made."""

        def _numbers(self):
            found = super()._numbers()
            (tmp_path / '000001.sqlite').unlink(missing_ok=True)
            return found

    late = Removing(tmp_path, said.append)
    assert late.find(EVERYTHING) == HEADS[:2:-1]
    assert said == []


def test_unreadable_body_is_logged(reader, said, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / '000001.sqlite')) as database:
        database.execute("UPDATE bodies SET body = X'00'")
        database.commit()
    assert reader.read(HEADS[0].id) is None
    assert 'not a record' in said[0]
    assert reader.find(EVERYTHING)[-1] == HEADS[0]


def test_reading_goes_on_beside_a_writer(tmp_path):
    writer = DecisionWriter(tmp_path)
    reader = DecisionFiles(tmp_path)
    for number in range(3):
        write(writer, [RECORDS[number]])
        assert len(reader.find(EVERYTHING)) == number + 1
    writer.close()


def test_memory_counts_and_finds_as_files_do(reader):
    memory = MemoryDecisions(clock=SetClock(NOON + 60))
    write(memory, RECORDS)
    for by in ('plugin', 'result', 'host', 'hour'):
        assert memory.count(by, EVERYTHING) == reader.count(by, EVERYTHING)
    assert memory.find(Criteria(host='cmp-2')) == [HEADS[2]]
    assert overview.summarize(memory, 57.5) == overview.summarize(reader, 57.5)
    assert memory.newer(EVERYTHING, Mark())[0] == HEADS
