# SPDX-License-Identifier: Apache-2.0
"""The decisions of several machines, as those of one log."""

import base64
import dataclasses

import pytest

from novasched import errors
from novasched.decisions.counting import GROUPINGS
from novasched.decisions.primitives import head_of, packed, unpacked
from novasched.decisions.reading import Criteria
from novasched.decisions.record import encode
from novasched.inspection.questions.all_decisions import PAGE, AllDecisions
from novasched.inspection.questions.schedulers import OtherSchedulers
from novasched.rpc.inspection_client import InspectionReply
from tests.support.records.stored_records import NOON, SetClock, make_record, write
from tests.support.tables.cases import cases
from tests.unit.inspection.machines import log_of, merged

RECORDS = [
    make_record(NOON + place, host, worker=f'c{place % 3}:1', uuid=f'u{place % 4}')
    for place, host in enumerate(['a', 'b', None, 'a', None, None, 'c', 'b', 'a'])
]
IDS = [record.head.id for record in reversed(RECORDS)]
"""The newest first."""


@pytest.fixture
def decisions():
    """Three machines have a third of the records each, one of them is here."""
    here, there, yonder = (log_of(RECORDS[n::3]) for n in range(3))
    return merged(here, there=there, yonder=yonder)[0]


@pytest.fixture
def whole():
    """A log of all records."""
    return log_of(RECORDS)


def ids(heads):
    return [head.id for head in heads]


@pytest.mark.parametrize(
    'criteria',
    [
        Criteria(),
        Criteria(server='u1'),
        Criteria(result='unschedulable'),
        Criteria(host='a', since=int((NOON + 1) * 1e6)),
    ],
)
@pytest.mark.parametrize('limit', [1, 4, 50])
@pytest.mark.parametrize('before', [None, 0, 3, 8])
def test_lists_equal_the_lists_of_one_log(decisions, whole, criteria, limit, before):
    end = None if before is None else IDS[before]
    found = decisions.find(criteria, limit, end)
    assert found == whole.find(criteria, limit, end)


@pytest.mark.parametrize('by', GROUPINGS)
def test_counts_equal_the_counts_of_one_log(decisions, whole, by):
    assert decisions.count(by, Criteria()) == whole.count(by, Criteria())


def test_records_come_from_where_they_are(decisions, whole):
    for one in IDS:
        assert decisions.read(one) == whole.read(one)
    assert decisions.read('d-0000000000000') is None
    with pytest.raises(errors.AmbiguousDecision) as raised:
        decisions.read(IDS[0][:6])
    assert sorted(raised.value.found) == sorted(IDS)
    with pytest.raises(errors.DecisionNotFound):
        decisions.read('web')


def test_listed_record_is_read_from_its_machine_alone():
    decisions, machines = merged(there=log_of(RECORDS[:2]), yonder=log_of(RECORDS[2:]))
    decisions.find(Criteria())
    decisions.read(RECORDS[0].head.id)
    assert machines.asked == [['there', 'yonder'], ['there']]


def test_a_record_of_this_machine_needs_no_other():
    decisions, machines = merged(log_of(RECORDS), there=log_of())
    assert decisions.read(IDS[0]) is not None
    assert machines.asked == []


def test_before_may_be_the_beginning_of_an_id():
    one, other = make_record(NOON), make_record(NOON + 3 * 86400)
    decisions, _ = merged(log_of([one]), there=log_of([other]))
    assert ids(decisions.find(Criteria(), before=other.head.id[:12])) == [one.head.id]
    with pytest.raises(errors.DecisionNotFound):
        decisions.find(Criteria(), before='d-zzzzzz')


def test_servers_and_the_oldest(decisions, whole):
    heads = decisions.find(Criteria())
    assert decisions.servers_of(ids(heads)) == whole.servers_of(IDS)
    assert decisions.oldest_at() == RECORDS[0].head.at
    assert merged()[0].oldest_at() is None


def test_long_lists_come_page_by_page():
    records = [make_record(NOON + n / 10) for n in range(PAGE + 120)]
    decisions, machines = merged(there=log_of(records), yonder=log_of(records[:5]))
    found = decisions.find(Criteria(), PAGE + 100)
    assert ids(found) == [r.head.id for r in reversed(records)][: PAGE + 100]
    assert machines.asked == [['there', 'yonder'], ['there']]


def test_a_page_is_whole_where_others_decided_at_the_same_time():
    made = [make_record(NOON) for _ in range(6)]
    other = made.pop(3)
    found = log_of(made).find(Criteria(), 2, other.head.id)
    assert found == [made[2].head, made[1].head]


def test_schedulers_that_share_a_log_count_once(whole):
    decisions, _ = merged(whole, trial=whole)
    assert decisions.count('result', Criteria()) == whole.count('result', Criteria())
    assert decisions.overview(60).schedulers == ['here']


def test_new_record_is_followed_once():
    here, there = log_of(RECORDS[:2]), log_of(RECORDS[2:4])
    decisions, _ = merged(here, there=there)
    mark = decisions.end()
    found, mark = decisions.newer(Criteria(), mark)
    assert found == []
    soon = [make_record(NOON + 99), make_record(NOON + 98, None)]
    write(here, soon[:1])
    write(there, soon[1:])
    found, mark = decisions.newer(Criteria(), mark)
    assert ids(found) == [soon[1].head.id, soon[0].head.id]
    assert decisions.newer(Criteria(), mark)[0] == []


def test_records_of_a_silent_machine_are_followed_later():
    clock = SetClock(NOON)
    there, yonder = log_of(), log_of()
    decisions, machines = merged(clock=clock, there=there, yonder=yonder)
    mark = decisions.end()
    machines.logs['yonder'] = 'did not answer within 2 s'
    told = []
    for _ in range(4):
        clock.go_on(15)
        write(yonder, [make_record(clock.time_s)])
        write(there, [make_record(clock.time_s)])
        found, mark = decisions.newer(Criteria(), mark)
        told += ids(found)
    machines.logs['yonder'] = yonder
    clock.go_on(30)
    for _ in range(2):
        found, mark = decisions.newer(Criteria(), mark)
        told += ids(found)
        assert len(mark.read) == 2
        assert all(len(heard.ids) == 0 for heard in mark.read.values())
    every = [*there.find(Criteria()), *yonder.find(Criteria())]
    assert sorted(told) == sorted(ids(every))


def test_more_than_a_page_may_be_new():
    there = log_of()
    decisions, _ = merged(there=there)
    mark = decisions.end()
    write(there, [make_record(NOON + 100 + n / 1000) for n in range(PAGE + 20)])
    found, mark = decisions.newer(Criteria(), mark)
    assert len(found) == PAGE + 20
    assert decisions.newer(Criteria(), mark)[0] == []


def test_silent_machine_is_named():
    decisions, _ = merged(
        there=log_of(RECORDS), yonder='did not answer within 2 s', old=None
    )
    assert ids(decisions.find(Criteria())) == IDS
    assert (decisions.unanswered, decisions.without_log) == (['yonder'], ['old'])
    assert decisions.warnings == [
        'yonder did not answer within 2 s; decisions that it made are not seen',
        'old runs nova-scheduler, which keeps no decisions',
    ]
    overview = decisions.overview(60)
    assert overview.unanswered == ['yonder']
    assert overview.without_log == ['old']


def test_a_record_travels_whole():
    record = make_record(body={'outcomes': b'\x00\xff'}, host_lists={'h': ['a', 'b']})
    assert unpacked(packed(record)) == record


def test_unknown_field_of_a_head_is_ignored():
    head = RECORDS[0].head
    assert head_of({**dataclasses.asdict(head), 'news': 1}) == head


@cases(
    'sent',
    ('no record', 'bm9uc2Vuc2U='),
    ('no body', base64.b64encode(encode({'head': {}})).decode()),
)
def test_nonsense_is_said_of_who_sends_it(sent):
    class Odd:
        def ask(self, hosts, method, **arguments):
            answer = {'ids': [IDS[0]], 'record': sent}
            yield InspectionReply('odd', answer, 'odd:/log')

        def close(self): ...

    others = OtherSchedulers(lambda: ['odd'], Odd)
    decisions = AllDecisions(None, others)
    assert decisions.read(IDS[0]) is None
    assert decisions.unanswered == ['odd']


def test_it_is_closed():
    decisions, machines = merged(there=log_of())
    decisions.close()
    assert machines.is_open  # nothing was asked
    decisions.find(Criteria())
    decisions.close()
    assert not machines.is_open
