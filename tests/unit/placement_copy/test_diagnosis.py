# SPDX-License-Identifier: Apache-2.0
"""Diagnoses of empty answers: at once where the copy says, or when it has caught up."""

import dataclasses
from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.diagnosis import JUST_BEFORE_S, PlacementDiagnosis
from novasched.resources.query import Group, Query
from novasched.scheduler.reasons import Code
from tests.support.tables.cases import cases
from tests.unit.placement_copy.providers import FakeProviders, look

AZ1 = '00000000-0000-0000-0000-000000000001'


class OfApi(FakeProviders):
    """One host, whose aggregates are known as far as they were asked for."""

    reads_fast = False

    def read(self, hints):
        known = frozenset(hints.aggregates())
        return dataclasses.replace(super().read(), members=known)

    def read_since(self, before, include_unversioned, recheck, hints):
        contents = super().read_since(before, True)
        known = frozenset(hints.aggregates())
        return dataclasses.replace(contents, members=known)


class Log:
    """Records that wait, by id: when they were made, and what they asked."""

    def __init__(self, **made):
        self.made = made
        self.completed = {}
        self.problem = None

    def waiting(self):
        return [
            (SimpleNamespace(id=id_, at=int(at * 1e6)), {'asked': [{'query': query}]})
            for id_, (at, query) in self.made.items()
            if id_ not in self.completed
        ]

    def complete(self, diagnoses):
        if self.problem:
            raise errors.StoreFailed('the log', self.problem)
        self.completed |= diagnoses
        return set(diagnoses)


@pytest.fixture
def store():
    return OfApi(h1=8)


@pytest.fixture
def mirror(store, clock):
    return CopyKeeper(store, clock)


@pytest.fixture
def hosts():
    return {'h1': 'cmp-1'}


@pytest.fixture
def diagnosing(hosts, mirror, clock):
    return PlacementDiagnosis(lambda: hosts, clock, mirror)


def query(amount, *aggregates):
    members = tuple(frozenset([uuid]) for uuid in aggregates)
    return Query((Group(resources={'VCPU': amount}, member_of=members),))


def test_a_request_gets_its_diagnosis_where_a_copy_is_at_hand(
    clock, diagnosing, mirror
):
    assert diagnosing(query(9)) is None
    look(mirror)
    clock.advance(7)
    found = diagnosing(query(9))
    assert (found['age_s'], found['source'], found['offered']) == (7, 'api', 0)
    assert found['reasons'][0]['code'] == Code.AMOUNT_NOT_ALLOWED
    assert diagnosing(query(1)) is None  # placement offered nothing
    assert diagnosing(query(9, AZ1)) is None
    clock.advance(JUST_BEFORE_S)
    assert diagnosing(query(9)) is None


def test_a_copy_that_was_just_brought_up_to_date_is_believed(clock):
    mirror = CopyKeeper(FakeProviders(h1=8), clock)
    look(mirror)
    hosts = {'h1': 'cmp-1'}
    found = PlacementDiagnosis(lambda: hosts, clock, mirror)(query(1))
    assert (found['offered'], found['source']) == (1, 'mirror')


def test_records_that_wait_are_completed_by_one_copy(clock, diagnosing, mirror):
    now = clock.time()
    log = Log(
        one=(now, query(9).encode()),
        two=(now, query(9, AZ1).encode()),
        old=(now - 3601, query(9).encode()),
        broken=(now, 'resources=...'),
    )
    clock.advance(12)
    assert diagnosing.complete(log) == {'none': 2}
    look(mirror)
    assert diagnosing.complete(log) == {'made': 1}
    look(mirror)  # which has heard of the aggregate
    assert diagnosing.complete(log) == {'made': 1}
    assert log.completed.pop('old') is log.completed.pop('broken') is None
    assert {id_: d['age_s'] for id_, d in log.completed.items()} == {
        'one': -12,
        'two': -12,
    }


@cases(
    'amount, age_s, more, before, after',
    ('refused already: as old as it is', 9, 7, {}, 7, 0),
    ('offered: out of date', 1, 7, {}, None, -20),
    ('without a host that is new', 9, 7, {'h2': 'cmp-2'}, None, -20),
    ('too old', 9, 11, {}, None, -20),
)
def test_a_copy_from_before_the_request(
    clock, diagnosing, hosts, mirror, amount, age_s, more, before, after
):
    look(mirror)
    hosts |= more
    clock.advance(age_s)
    at_once = diagnosing(query(amount))
    log = Log(late=(clock.time(), query(amount).encode()))
    diagnosing.complete(log)
    found = log.completed.get('late')
    assert found == at_once
    assert (found and found['age_s']) == before
    if found is None:
        clock.advance(20)
        look(mirror)
        diagnosing.complete(log)
        assert log.completed['late']['age_s'] == after


def test_a_diagnosis_that_cannot_be_made_costs_no_other(clock, mirror, caplog):
    seen = []

    def hosts():
        seen.append(1)
        if len(seen) == 1:
            raise KeyError('a defect')
        return {'h1': 'cmp-1'}

    look(mirror)
    diagnosing = PlacementDiagnosis(hosts, clock, mirror)
    log = Log(
        one=(clock.time(), query(9).encode()), other=(clock.time(), query(10).encode())
    )
    assert diagnosing.complete(log) == {'made': 1, 'none': 1}
    (odd,) = [each for each, found in log.completed.items() if found is None]
    assert f'No diagnosis can be made for record {odd}' in caplog.text


def test_a_log_that_cannot_be_written_is_logged_once(clock, caplog, diagnosing, mirror):
    caplog.set_level('INFO')
    look(mirror)
    log = Log(late=(clock.time(), query(9).encode()))
    log.problem = 'disk full'
    assert [diagnosing.complete(log) for _ in range(2)] == [{}, {}]
    assert caplog.text.count('cannot be recorded') == 1
    log.problem = None
    assert diagnosing.complete(log) == {'made': 1}
    assert caplog.text.count('can be recorded again') == 1


def test_many_that_ask_the_same_are_judged_once(clock, mirror):
    asked = []

    def hosts():
        asked.append(clock.time())
        return {'h1': 'cmp-1'}

    look(mirror)
    diagnosing = PlacementDiagnosis(hosts, clock, mirror)
    first = diagnosing(query(9))
    clock.advance(5)
    assert diagnosing(query(9)) == {**first, 'age_s': 5}
    assert diagnosing(query(10)) is not None
    mirror.assume({'c1': {'h1': {'VCPU': 1}}})
    assert diagnosing(query(9))['reasons'] == first['reasons']
    assert len(asked) == 3
