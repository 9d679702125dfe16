# SPDX-License-Identifier: Apache-2.0
"""What is written is read again: in files, and in memory."""

import contextlib
import os
import sqlite3
import stat
from dataclasses import replace
from decimal import Decimal

import pytest

from novasched import errors
from novasched.decisions import files
from novasched.decisions.body import RecordedDiagnosis
from novasched.decisions.files import StoreSettings
from novasched.decisions.memory import MOST_LISTENED, MemoryDecisions
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.writing import FILE_AGE_S, MOST_AT_ONCE, DecisionWriter
from novasched.runtime.typed_json import to_json
from tests.support.records.stored_records import NOON, SetClock, make_record, write
from tests.support.tables.cases import cases

HOSTS = ('cmp-1', 'cmp-2')
EVERYTHING = Criteria()


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / 'decisions'


@pytest.fixture
def make_writer(directory, clock):
    with contextlib.ExitStack() as stack:

        def make(**settings):
            writer = DecisionWriter(directory, StoreSettings(**settings), clock)
            stack.callback(writer.close)
            return writer

        yield make


@pytest.fixture
def reader(directory):
    return DecisionFiles(directory)


def whole():
    """A record that refers to a list of hosts and to a profile."""
    return make_record(
        body={
            'decisions': [{'host_list': 'abc', 'outcomes': b'\x01\x00', 'steps': []}],
            'profile': 'def',
        },
        host_lists={'abc': HOSTS},
        profiles={'def': {'filters': ['RAMFilter']}},
    )


def names_of(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith('.sqlite'))


def test_a_record_is_read_as_it_was_written(make_writer, reader):
    record = whole()
    write(make_writer(), [record])
    found = reader.read(record.head.id)
    assert found.head == record.head
    assert found.body == record.body
    assert {key: tuple(names) for key, names in found.host_lists.items()} == {
        'abc': HOSTS
    }
    assert found.profiles == record.profiles


def test_memory_serves_what_files_do():
    memory = MemoryDecisions(most=2)
    records = [whole() for _ in range(3)]
    write(memory, records)
    assert memory.find(EVERYTHING) == [records[2].head, records[1].head]
    assert memory.read(records[1].head.id).body == records[1].body
    assert memory.read(records[0].head.id) is None
    assert memory.find(Criteria(server=records[0].body.servers[0].uuid)) == []


def test_files_are_for_their_user_alone(make_writer, directory):
    write(make_writer(), [make_record()])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {0o600}


def test_lists_of_hosts_stand_once_in_a_file(make_writer, directory):
    writer = make_writer()
    write(writer, [whole(), whole()])
    write(make_writer(), [whole()])
    with files.opened_to_read(directory / '000001.sqlite') as connection:
        assert connection.execute('SELECT count(*) FROM host_lists').fetchone() == (1,)
        assert connection.execute('SELECT count(*) FROM profiles').fetchone() == (1,)


def test_a_record_is_not_written_twice(make_writer, reader):
    record = make_record()
    writer = make_writer()
    write(writer, [record])
    write(writer, [record, make_record(), record])
    assert len(reader.find(EVERYTHING)) == 2
    assert len(reader.find(Criteria(server=record.body.servers[0].uuid))) == 1


def test_records_beyond_one_statement_are_written(make_writer, reader):
    servers = [{'uuid': str(number), 'host': 'h1'} for number in range(1000)]
    records = [make_record(body={'servers': servers}) for _ in range(64)]
    write(make_writer(), records)
    assert len(reader.find(EVERYTHING, 100)) == 64
    assert len(reader.find(Criteria(server='999'), 100)) == 64


def test_all_of_a_batch_is_written_or_none(make_writer, reader):
    writer = make_writer()
    write(writer, [make_record()])
    good, bad = make_record(), make_record()
    broken = writer.encoded(bad)
    object.__setattr__(broken, 'body', object())
    with pytest.raises(errors.StoreFailed):
        writer.write_encoded([writer.encoded(good), broken])
    assert len(reader.find(EVERYTHING)) == 1
    write(writer, [good, bad])
    assert len(reader.find(EVERYTHING)) == 3


def test_a_full_file_is_followed_by_the_next(make_writer, reader, directory):
    writer, other = (make_writer(file_bytes=1 << 20) for _ in range(2))
    records = [
        make_record(body={'notes': [os.urandom(60_000).hex()]}) for _ in range(40)
    ]
    for record in records:
        write(writer, [record])
    last = make_record()
    write(other, [last])
    assert names_of(directory) == ['000001.sqlite', '000002.sqlite', '000003.sqlite']
    expected = [each.head for each in [last, *reversed(records)]]
    assert reader.find(EVERYTHING, limit=100) == expected


def test_a_day_has_its_file(make_writer, directory, clock):
    writer = make_writer()
    write(writer, [make_record(at_s=clock.time())])
    clock.go_on(FILE_AGE_S - 1)
    write(writer, [make_record(at_s=clock.time())])
    assert names_of(directory) == ['000001.sqlite']
    clock.go_on(2)
    write(writer, [make_record(at_s=clock.time())])
    write(writer, [make_record(at_s=clock.time())])
    assert names_of(directory) == ['000001.sqlite', '000002.sqlite']


def test_of_two_that_begin_a_file_one_does(make_writer, directory):
    write(make_writer(), [make_record()])
    begun = [files.begin(directory, 1, NOON) for _ in range(2)]
    assert begun == [directory / '000002.sqlite'] * 2


def test_a_file_whose_maker_was_killed_is_finished(make_writer, directory, reader):
    directory.mkdir()
    (directory / '000001.sqlite').touch()
    assert reader.find(EVERYTHING) == []
    write(make_writer(), [make_record()])
    assert len(reader.find(EVERYTHING)) == 1
    assert names_of(directory) == ['000001.sqlite']


def test_a_file_of_a_later_release_is_left_alone(make_writer, directory):
    said = []
    write(make_writer(), [make_record()])
    with contextlib.closing(sqlite3.connect(directory / '000001.sqlite')) as later:
        later.execute('PRAGMA user_version = 2')
    record = make_record()
    write(make_writer(), [record])
    found = DecisionFiles(directory, said.append).find(EVERYTHING)
    assert found == [record.head]
    assert said == [f'{directory}/000001.sqlite was written by a later release']


@pytest.mark.parametrize(
    ('keep', 'kept'), [('all', [True, True]), ('failed', [False, True])]
)
def test_an_operator_chooses_what_is_kept(make_writer, reader, keep, kept):
    records = [make_record(uuid='s'), make_record(host=None, uuid='s')]
    write(make_writer(keep=keep), records)
    read = [reader.read(record.head.id).body for record in records]
    assert [not body.is_of_head for body in read] == kept
    assert len(reader.find(Criteria(server='s'))) == 2
    assert [(s.uuid, s.host) for s in read[0].servers] == [('s', 'cmp-1')]


def test_nothing_may_be_kept(make_writer, directory):
    write(make_writer(keep='none'), [make_record()])
    assert not directory.exists()


def test_odd_values_are_written_as_well_as_can_be(make_writer, reader):
    record = make_record(flavor='\udcff', took_us=2**70, body={'notes': ['\udcff']})
    write(make_writer(), [record, make_record(body={'notes': [object()]})])
    (no_body, head) = reader.find(EVERYTHING)
    assert (head.flavor, head.took_us) == ('?', 2**63 - 1)
    assert reader.read(head.id).body.notes == ['?']
    assert reader.read(no_body.id).body.is_of_head


@cases(
    'odd',
    ('profile', {'profiles': {'abc': {'RAMWeigher': Decimal(1)}}}),
    ('list of hosts', {'host_lists': {'abc': [Decimal(1)]}}),
)
def test_an_odd_value_that_a_record_refers_to_costs_its_body(make_writer, reader, odd):
    record = make_record(**odd)
    write(make_writer(), [record, make_record()])
    assert len(reader.find(EVERYTHING)) == 2
    assert reader.read(record.head.id).body.is_of_head


def test_without_its_body_a_record_waits_for_no_diagnosis(make_writer, reader):
    record = make_record(host=None, diagnosis='waiting', body={'notes': [object()]})
    writer = make_writer()
    write(writer, [record])
    assert reader.read(record.head.id).head.diagnosis == ''
    assert writer.waiting() == []


def test_a_diagnosis_is_added(make_writer, reader):
    writer = make_writer()
    waits, gives_up = [
        make_record(host=None, diagnosis='waiting', body={'placement': None})
        for _ in range(2)
    ]
    write(writer, [waits, make_record(), gives_up])
    assert [head.id for head, _ in writer.waiting()] == [
        gives_up.head.id,
        waits.head.id,
    ]
    assert writer.waiting()[1][1]['asked'] == to_json(waits.body.asked)
    other = make_writer()
    diagnoses = {waits.head.id: {'age_s': 1.5}, gives_up.head.id: None}
    assert writer.complete({**diagnoses, 'd-0000000000000': None}) == set(diagnoses)
    assert writer.waiting() == []
    # Another worker had read them, too, and found out less.
    assert other.complete(dict.fromkeys(diagnoses)) == set()
    found = reader.read(waits.head.id)
    assert (found.head.diagnosis, found.body.placement) == (
        'made',
        RecordedDiagnosis(1.5),
    )
    found = reader.read(gives_up.head.id)
    assert (found.head.diagnosis, found.body.placement) == ('', None)


def test_the_newest_that_wait_come_first_and_some_at_a_time(make_writer):
    writer = make_writer()
    made = [
        make_record(host=None, diagnosis='waiting', body={'placement': None})
        for _ in range(MOST_AT_ONCE + 2)
    ]
    write(writer, made)
    newest = [record.head.id for record in reversed(made[2:])]
    assert [head.id for head, _ in writer.waiting()] == newest
    writer.complete(dict.fromkeys(newest))
    assert [head.id for head, _ in writer.waiting()] == [
        made[1].head.id,
        made[0].head.id,
    ]


def test_a_body_that_cannot_be_read_is_empty(make_writer, directory):
    writer = make_writer()
    record = make_record(host=None, diagnosis='waiting', body={'placement': None})
    write(writer, [record])
    path = directory / '000001.sqlite'
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as later:
        later.execute("UPDATE bodies SET body = x'00'")
    assert writer.waiting() == [(record.head, {})]
    assert writer.complete({record.head.id: None}) == {record.head.id}


def test_a_malformed_file_is_set_aside(make_writer, reader, directory):
    writer = make_writer()
    write(writer, [make_record()])
    writer.close()
    (directory / '000001.sqlite').write_bytes(b'garbage' * 1000)
    record = make_record()
    with pytest.raises(errors.StoreFailed, match=r'kept as .*/000001\.sqlite\.broken'):
        write(writer, [record])
    write(writer, [record])
    assert names_of(directory) == ['000002.sqlite']
    assert reader.find(EVERYTHING) == [record.head]


def test_only_the_file_that_is_malformed_is_set_aside(make_writer, directory, clock):
    writer = make_writer()
    write(writer, [make_record()])
    clock.time_s += FILE_AGE_S + 1
    write(writer, [make_record()])
    (directory / '000001.sqlite').write_bytes(b'garbage' * 1000)
    with pytest.raises(errors.StoreFailed, match=r'kept as .*/000001\.sqlite\.broken'):
        writer.waiting()
    assert writer.waiting() == []
    assert names_of(directory) == ['000002.sqlite']


def test_nothing_waits_where_nothing_was_written(make_writer, directory):
    assert make_writer().waiting() == []
    assert make_writer().complete({'d-0000000000000': None}) == set()
    assert not directory.exists()


def test_memory_keeps_no_request_whole(clock):
    memory = MemoryDecisions(clock=clock)
    record = replace(make_record(), whole=b'1')
    write(memory, [record])
    assert memory.read(record.head.id).body == record.body
    assert memory.whole(record.head.id) is None


def test_memory_forgets_the_oldest_tapped_times(clock):
    memory = MemoryDecisions(clock=clock)
    for since_s in range(MOST_LISTENED + 2):
        memory.write_listened(since_s, since_s + 0.5)
    kept = memory.listened(0)
    assert (len(kept), kept[0]) == (MOST_LISTENED, (2_000_000, 2_500_000))


def test_file_of_no_shadow_has_no_table_of_whole_requests(make_writer, reader):
    record = make_record()
    write(make_writer(), [record])
    assert reader.whole(record.head.id) is None
    assert [*reader.select("SELECT 1 FROM sqlite_master WHERE name LIKE 'whole%'")] == [
        []
    ]
