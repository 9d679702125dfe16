# SPDX-License-Identifier: Apache-2.0
"""The copy of placement: when it is read, what it answers, when it is not used."""

from __future__ import annotations

import logging
import threading

import pytest

from novasched import errors
from novasched.observability.health import PASS, WARN
from novasched.observability.instrumentation import Instrumentation
from novasched.observability.settings import Settings
from novasched.placement_copy.claims import PlacementWithCopy
from novasched.placement_copy.copy import CopyKeeper
from novasched.resources.query import Group, Query
from tests.support.clouds.fakes import FakePlacement
from tests.support.tables.cases import cases
from tests.unit.observability.recorder import FakeRecorder
from tests.unit.placement_copy.providers import ONE, FakeProviders, hosts, look


def test_candidates_come_from_the_copy(mirror):
    found = mirror.candidates(ONE)
    one = {'allocations': {'a': {'resources': {'VCPU': 1}}}, 'mappings': {'': ['a']}}
    assert list(found.requests) == ['a', 'b']
    assert found.requests['a'] == [one]
    assert found.copy == 1
    assert found.version == '1.36'
    assert found.summaries['a']['resources'] == {'VCPU': {'capacity': 4, 'used': 0}}
    assert set(found.summaries) == {'a', 'b'}
    assert len(found.summaries) == 2
    assert 'c' not in found.requests


def test_a_fallback_query_adds_to_the_candidates(mirror, store):
    store.take('a', 2)
    look(mirror)
    first = Query((Group(resources={'VCPU': 4}),), limit=1000, fallback=ONE)
    found = mirror.candidates(first)
    assert list(found.requests) == ['b', 'a']
    assert [len(found.requests[name]) for name in 'ba'] == [2, 1]


class TestReading:
    def test_only_what_changed_is_read(self, mirror, store):
        store.take('a', 4)
        look(mirror)
        assert store.reads == [('changes', [])]
        assert hosts(mirror) == ['b']

    def test_a_quiet_database_is_not_read(self, mirror, store, clock):
        store.seen_mark = 'quiet'
        look(mirror)  # the mark was another one before
        store.reads.clear()
        clock.advance(5)
        look(mirror)
        assert store.reads == []
        assert mirror.age_s() == 0

    def test_but_now_and_then_all_the_same(self, mirror, store, clock):
        store.seen_mark = 'quiet'
        look(mirror)
        store.reads.clear()
        clock.advance(10)
        look(mirror)
        look(mirror)
        assert store.reads == [('changes', [])]

    def test_silent_change_is_found_by_a_thorough_read_in_time(
        self, mirror, store, clock
    ):
        mirror.assume({})
        store.take('a', 4)
        look(mirror)
        store.take('a', -4, silently=True)
        look(mirror)
        assert hosts(mirror) == ['b']
        clock.advance(10)
        look(mirror)
        assert hosts(mirror) == ['a', 'b']
        assert store.reads[-1] == ('thorough', [])

    def test_all_is_read_now_and_then_and_compared(self, mirror, store, clock, caplog):
        store.totals['a'] = 1
        look(mirror)
        assert hosts(mirror, 4) == ['a', 'b']
        clock.advance(375)
        look(mirror)
        assert hosts(mirror, 4) == ['b']
        assert mirror.differences == 1
        assert 'differed for 1 resource providers' in caplog.text

    def test_moved_provider_is_no_difference(self, mirror, store, clock):
        store.parents = {'b': 'a'}  # which changes no generation
        clock.advance(375)
        look(mirror)
        assert store.reads == [('all', [])]
        assert mirror.differences == 0

    def test_suspects_are_read_at_once_and_some_again(self, mirror, store, clock):
        mirror.invalidate(['a', 'unknown'])
        mirror.invalidate(['b'], recheck=True)
        mirror.keep_up()
        look(mirror)
        clock.advance(5)
        look(mirror)
        ids = [recheck for _, recheck in store.reads]
        assert ids == [[1], [], [2]]

    def test_after_a_failure_all_is_read(self, mirror, store):
        store.problem = errors.StoreFailed('Placement', 'it is away')
        look(mirror)
        store.problem = None
        mirror.invalidate(['a'])
        look(mirror)
        assert [how for how, _ in store.reads] == ['changes', 'all']
        assert mirror.differences == 0

    def test_problem_says_why_the_copy_is_not_used(self, store, clock):
        mirror = CopyKeeper(store, clock)
        why = 'the copy of its state was not read yet'
        assert mirror.problem() == why
        store.problem = errors.StoreFailed('Placement', 'Access denied')
        look(mirror)
        failure = 'Placement could not be asked: Access denied'
        assert mirror.problem() == f'{why}: {failure}'
        store.problem = None
        look(mirror)
        assert mirror.problem() == ''
        store.problem = errors.StoreFailed('Placement', 'Access denied')
        look(mirror)
        said = f'the copy cannot be brought up to date: {failure}'
        assert mirror.problem() == said
        store.problem = None
        look(mirror)
        clock.advance(61)
        assert mirror.problem() == 'the copy of its state is 61 s old'

    def test_an_empty_placement_is_not_believed(self, mirror, store, caplog):
        store.totals = {}
        look(mirror)
        assert 'no resource providers' in caplog.text
        assert 'no resource providers' in hosts(mirror)

    def test_a_read_that_hangs_is_waited_for_no_longer_than_that(self, mirror, store):
        entered, leave = threading.Event(), threading.Event()
        mirror._patience_s = 0.05

        def hang():
            entered.set()
            leave.wait(10)

        store.change_token = hang
        thread = threading.Thread(target=look, args=(mirror,))
        thread.start()
        assert entered.wait(10)
        answers = [mirror.candidates(ONE, fresh=True), hosts(mirror)]
        leave.set()
        thread.join()
        assert hosts(mirror) == ['a', 'b']
        assert 'did not answer within 0.05 s' in answers[0]
        assert 'cannot be brought up to date' in answers[1]
        assert mirror.fallbacks == {'unusable': 2}

    def test_those_who_ask_while_one_is_under_way_share_the_next(self, store, clock):
        mirror = CopyKeeper(store, clock, patience_s=0)
        mirror.keep_up()
        store.reads.clear()
        entered, leave = threading.Event(), threading.Event()

        def hang():
            entered.set()
            assert leave.wait(10)

        store.change_token = hang
        for _ in range(4):
            mirror._late = False  # as if all asked at once
            assert 'did not answer' in mirror.candidates(ONE, fresh=True)
            assert entered.wait(10)
        leave.set()
        mirror._next_read.result(10)
        assert [how for how, _ in store.reads] == ['thorough', 'thorough']
        assert list(mirror.candidates(ONE).requests) == ['a', 'b']

    def test_once_placement_answers_again_it_is_read(self, mirror, store):
        placement = PlacementWithCopy(FakePlacement(), mirror)
        assert placement.answers()
        assert store.reads == []  # nothing was wrong with it
        store.problem = errors.StoreFailed('Placement', 'it is away')
        look(mirror)
        assert isinstance(mirror.candidates(ONE), str)
        for problem in (store.problem, KeyError('a defect')):
            store.problem = problem
            assert placement.answers()  # to other questions
        store.problem = None
        assert placement.answers()
        assert mirror.candidates(ONE).requests

    def test_a_failure_is_said_once_and_its_end_once(self, mirror, store, caplog):
        caplog.set_level(logging.INFO)
        store.problem = errors.StoreFailed('Placement', 'it is away')
        for _ in range(2):
            look(mirror)
            assert isinstance(hosts(mirror, 5), str)
            assert 'it is away' in hosts(mirror)
        store.problem = None
        look(mirror)
        assert [record.levelname for record in caplog.records] == ['WARNING', 'INFO']

    def test_rows_that_do_not_fit_together_cost_no_copy_and_are_said_once(
        self, mirror, store, caplog
    ):
        store.parents = {'a': 'b', 'b': 'a'}
        for number in range(2):
            store.orphans = number + 1
            store.take('a', 1)
            look(mirror)
        assert hosts(mirror, 2) == ['a', 'b']
        said = [line.split(': ', 1)[1] for line in caplog.messages]
        assert said == [
            'allocations.resource_provider_id: 1 with ids that do not exist, '
            'such as 99',
            'resource_providers.parent_provider_id: 2 whose parent does not exist, '
            'is of another tree, or is below it, such as provider 1',
            'resource_providers.root_provider_id: 2 whose root has another root, '
            'such as provider 1',
        ]

    @cases(
        'max_age_s, look_s, load_s, pause_s',
        ('at least so long', 60, 0.01, 0.05, 1.0),
        ('twenty times as long', 60, 0.5, 1.0, 10.0),
        ('so that the copy stays young', 60, 4.0, 9.0, 22.0),
        ('also when all is read next', 60, 4.0, 40.0, 10.0),
        ('the next begins at once', 60, 26.5, 26.5, 1.0),
        ('or sooner', 60, 26.9, 26.9, 0.2),
        ('a small age', 1, 0.01, 0.3, 0.59),
        ('a small age and long looks', 1, 0.3, 0.45, 0.15),
    )
    def test_no_look_makes_the_copy_too_old(
        self, store, clock, max_age_s, look_s, load_s, pause_s
    ):
        mirror, ages = CopyKeeper(store, clock, max_age_s), []

        def slow():
            clock.advance(load_s if store.reads[-1][0] == 'all' else look_s)
            ages.append(mirror.age_s() or 0.0)

        store.slow = slow
        while [how for how, _ in store.reads].count('all') < 3:
            look(mirror)
            if store.reads[-1][0] != 'all':
                assert mirror._schedule.pause_s == pytest.approx(pause_s)
            clock.advance(mirror._schedule.pause_s)
        assert max(ages) <= max_age_s

    @cases(
        'look_s, load_s, pause_s',
        ('reading all takes too long', 1.0, 70.0, 20.0),
        ('every look does', 27.1, 27.1, 1.0),
    )
    def test_slow_reads_keep_their_pause(self, store, clock, look_s, load_s, pause_s):
        mirror = CopyKeeper(store, clock)
        for store.slow in (
            lambda: clock.advance(load_s),
            lambda: clock.advance(look_s),
        ):
            look(mirror)
        assert mirror._schedule.pause_s == pytest.approx(pause_s)

    def test_a_long_load_comes_seldom(self, mirror, store, clock):
        store.slow = lambda: clock.advance(40.0)
        clock.advance(375)
        look(mirror)
        assert store.reads[-1] == ('all', [])
        store.slow = lambda: None
        clock.advance(500)
        look(mirror)
        assert store.reads[-1] != ('all', [])
        clock.advance(600)
        look(mirror)
        assert store.reads[-1] == ('all', [])

    def test_failure_while_stopping_is_not_logged(self, mirror, caplog):
        mirror.stop()
        mirror.keep_up()
        assert not caplog.records


class TestNoCandidates:
    def test_the_copy_is_brought_up_to_date_first(self, mirror, store):
        store.take('a', 4)
        store.take('b', 4)
        look(mirror)
        store.take('b', -4, silently=True)
        assert hosts(mirror) == ['b']
        assert store.reads[-1] == ('thorough', [])

    def test_none_is_an_answer_then(self, mirror, store):
        store.take('a', 4)
        store.take('b', 4)
        assert hosts(mirror, 5) == []

    def test_where_that_takes_long_placement_is_asked(self, mirror, store):
        store.reads_fast = False
        assert 'its copy by the API' in hosts(mirror, 5)

    def test_and_where_it_failed_the_time_before(self, mirror, store):
        store.problem = errors.StoreFailed('Placement', 'it is away')
        assert 'it is away' in hosts(mirror, 5)
        assert 'cannot be brought up to date' in hosts(mirror, 5)
        assert len(store.reads) == 1


class TestFallback:
    def test_before_the_first_read(self, store, clock):
        assert 'not read yet' in CopyKeeper(store, clock).candidates(ONE)

    def test_an_old_copy_is_said_once(self, mirror, clock, caplog):
        caplog.set_level(logging.INFO)
        clock.advance(61)
        assert mirror.problem() == 'the copy of its state is 61 s old'
        assert [mirror.candidates(ONE) for _ in range(2)] == [
            'the copy of its state is 61 s old'
        ] * 2
        look(mirror)
        assert hosts(mirror) == ['a', 'b']
        assert [record.levelname for record in caplog.records] == ['WARNING', 'INFO']
        assert mirror.fallbacks == {'unusable': 2}

    @pytest.mark.parametrize(
        'query',
        [
            Query((Group(resources={'UNKNOWN': 1}),)),
            Query((Group(resources={'VCPU': 1}, required=frozenset(['UNKNOWN'])),)),
            Query((Group(resources={'VCPU': 1}),), for_ports=True),
        ],
        ids=['a class', 'a trait', 'ports'],
    )
    def test_a_query_that_is_left_to_placement(self, mirror, caplog, query):
        assert isinstance(mirror.candidates(query), str)
        assert mirror.fallbacks == {'query': 1}
        assert not caplog.records


class Misfit:
    """A query that the search trips over."""

    fallback, for_ports, limit = None, False, None

    def __init__(self, defect):
        self._defect = defect

    def without_bare_group(self):
        raise self._defect


class TestDefects:
    def test_placement_is_asked_and_the_traceback_logged_once(
        self, mirror, clock, caplog
    ):
        answers = [mirror.candidates(Misfit(IndexError('5 of 4'))) for _ in range(2)]
        assert answers == ['IndexError: 5 of 4'] * 2
        assert mirror.fallbacks == {'defect': 2}
        (record,) = caplog.records
        assert record.levelname == 'ERROR'
        assert record.exc_info[1].args == ('5 of 4',)
        assert mirror.problem() == 'IndexError: 5 of 4'
        assert hosts(mirror) == ['a', 'b']
        clock.advance(59)
        look(mirror)
        assert mirror.problem()
        clock.advance(242)
        look(mirror)
        assert not mirror.problem()

    def test_health_warns_and_it_is_counted(self, mirror, clock):
        recorder = FakeRecorder()
        instrumentation = Instrumentation(recorder, clock, Settings(threads=1))
        instrumentation.watch_copy(mirror, 'mirror')
        assert instrumentation.health.checks()['mirror'].status == PASS
        mirror.candidates(Misfit(IndexError('5 of 4')))
        check = instrumentation.health.checks()['mirror']
        assert (check.status, check.output) == (
            WARN,
            'falling back to placement for candidates: IndexError: 5 of 4',
        )
        instrumentation.measure(0.0)
        assert recorder.counts['novasched_mirror_fallbacks_total', 'defect'] == 1

    def test_one_of_another_place_is_logged_too(self, mirror, caplog):
        mirror.candidates(Misfit(IndexError()))
        mirror.candidates(object())
        assert len(caplog.records) == 2

    def test_want_of_memory_is_none(self, mirror):
        with pytest.raises(MemoryError):
            mirror.candidates(Misfit(MemoryError()))

    def test_after_one_of_reading_all_is_read(self, mirror, store):
        store.problem = IndexError('5 of 4')
        with pytest.raises(IndexError):
            look(mirror)
        assert 'cannot be brought up to date' in hosts(mirror, 5)
        store.problem = None
        look(mirror)
        assert [how for how, _ in store.reads] == ['changes', 'all']


class TestNestedNodes:
    def test_candidates_are_made_at_once_where_a_node_is_below_another(
        self, store, clock
    ):
        store.parents = {'b': 'a'}
        nodes = {'a': 0}
        mirror = CopyKeeper(store, clock, nodes=nodes.keys)
        mirror.keep_up()
        assert list(mirror.candidates(ONE).requests) == ['a']
        nodes['b'] = 1
        found = mirror.candidates(ONE).requests
        assert [list(each['allocations']) for each in found] == [['a'], ['b']]

    def test_but_not_where_one_names_itself_as_its_parent(self, clock):
        store = FakeProviders(a=4, b=4, c=4)
        store.parents = {'b': 'b', 'c': 'a'}
        mirror = CopyKeeper(store, clock, nodes={'a': 0, 'b': 0}.keys)
        mirror.keep_up()
        assert list(mirror.candidates(ONE).requests) == ['a', 'b']


def test_the_report_says_what_there_is(mirror, store, clock):
    assert mirror.state()['providers'] == 2
    assert CopyKeeper(store, clock).state()['read seconds ago'] == 'never'


NOT_YET = (
    'falling back to placement for candidates: the copy of its state was not read yet'
)
LOST = (
    'falling back to placement for candidates: the copy cannot be brought up to date: '
    'Placement could not be asked: away'
)


@cases(
    'mode, reads, status, said',
    ('a copy', 'auto', 1, PASS, 'by a copy of placement, read from its database'),
    ('none yet', 'auto', 0, PASS, NOT_YET),
    ('none any more', 'auto', 2, WARN, LOST),
    ('none where there must be one', 'mirror', 0, WARN, NOT_YET),
    (
        'none is wanted',
        'placement',
        1,
        PASS,
        'placement is asked for candidates: it is so set',
    ),
)
def test_health_says_where_candidates_come_from(
    store, clock, mode, reads, status, said
):
    mirror = CopyKeeper(store, clock)
    instrumentation = Instrumentation(FakeRecorder(), clock, Settings(threads=1))
    instrumentation.watch_copy(mirror, mode)
    for number in range(reads):
        if number:
            store.problem = errors.StoreFailed('Placement', 'away')
        look(mirror)
    check = instrumentation.health.checks()['mirror']
    assert (check.status, check.output) == (status, said)
