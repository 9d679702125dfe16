# SPDX-License-Identifier: Apache-2.0
"""The overview of the last seconds of a log."""

import pytest

from novasched.decisions import overview
from novasched.decisions.body import RecordedView
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.reading import DecisionFiles
from novasched.decisions.writing import DecisionWriter
from tests.support.records.stored_records import NOON, SetClock, make_record, write


def log_of(records, most=1000):
    made = MemoryDecisions(clock=SetClock(NOON + 60), most=most)
    write(made, records)
    return made


def test_it_has_counts_times_and_the_newest():
    records = [
        make_record(NOON + n, None if n % 2 else f'cmp-{n}', uuid=f'server-{n}')
        for n in range(9)
    ]
    found = overview.summarize(log_of(records), 57.5)
    assert found.results == {'scheduled': 3, 'unschedulable': 3}
    (minute,) = found.minutes
    assert (minute['scheduled'], minute['unschedulable']) == (3, 3)
    assert minute['at'] <= NOON * 1e6 < minute['at'] + overview.MINUTE
    assert found.took_us == overview.TookSample(6 * 12_000, [12_000] * 6)
    assert found.reasons[0].value == 'RAMFilter'
    assert [head.id for head in found.newest] == [
        record.head.id for record in records[:2:-1]
    ]
    assert found.newest[0].picked == ['cmp-8']
    assert found.newest[0].server == 'server-8'


def test_records_that_were_lost_are_counted(tmp_path):
    clock = SetClock()
    writer = DecisionWriter(tmp_path, clock=clock)
    memory = MemoryDecisions(clock=clock)
    files = DecisionFiles(tmp_path, clock=clock)
    for lost in (2, 3, 0):
        clock.go_on(40)
        for store in (writer, memory):
            store.write_encoded([store.encoded(make_record(clock.time()))], lost)
    assert (
        overview.summarize(memory, 60).lost == overview.summarize(files, 60).lost == 3
    )
    assert overview.summarize(files, 600).lost == 5
    writer.close()


def test_of_nothing():
    found = overview.summarize(log_of([]), 60)
    assert (found.results, found.newest) == ({}, [])
    assert found.took_us == overview.TookSample(0, [])


def test_sampled_times_represent_many_requests():
    number = 3 * overview.MOST_TIMES
    records = [make_record(NOON + 30, took_us=n) for n in range(number)]
    found = overview.summarize(log_of(records, most=number), 60)
    assert found.results == {'scheduled': number}
    sample = found.took_us.sample
    assert overview.SAMPLE / 2 < len(sample) <= overview.SAMPLE
    assert sample == sorted(sample)
    assert sample[len(sample) // 2] == pytest.approx(number / 2, rel=0.02)


def test_bodies_are_read_of_the_newest_alone():
    claims = [{'outcome': 'yielded'}, {'outcome': 'claimed'}]
    view = {'left_out': ['cell3']}
    body = {'stages_ms': {'query': 16}, 'view': view, 'claims': claims}
    records = [make_record(NOON + 1 + n / 100, body=body) for n in range(30)]
    found = overview.summarize(log_of(records), 60)
    assert found.query_ms == [16] * overview.NEWEST
    assert found.view == RecordedView(['cell3'])
    newest = max(record.head.at for record in records)
    assert found.lost_claims == {
        'yielded': overview.LostCount(overview.NEWEST, newest),
        'overfull': overview.LostCount(),
        'conflict': overview.LostCount(),
    }
