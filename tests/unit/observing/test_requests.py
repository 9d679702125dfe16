# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured of requests, and what it says of placement."""

from __future__ import annotations

import itertools
import random

import pytest

from novasched import errors
from novasched.observing.health import FAIL, PASS, WARN, Health
from novasched.observing.requests import (
    PLUGINS_EVERY,
    Stages,
    WatchedPlacement,
    WatchedRequests,
)
from novasched.ports import Candidates, Claimed, QueryFailed, Refused, Unknown
from novasched.resources import Facts
from novasched.resources.prefilters.requirements import Requirements
from novasched.scheduler.filters.num_instances import NumInstancesFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers.ram import RAMWeigher
from tests import factories
from tests.unit.fakes import VERSION, FakeClock, FakePlacement
from tests.unit.observing.numbers import FakeNumbers

STAGE = 'scheduler_framework_extension_point_duration_seconds'
PLUGIN = 'scheduler_plugin_execution_duration_seconds'


@pytest.fixture
def numbers():
    return FakeNumbers()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def health(clock):
    return Health(clock)


@pytest.fixture
def stages(numbers):
    ticks = itertools.count()
    return Stages(numbers, lambda: float(next(ticks)))


def status(health):
    return health.checks()['placement'].status


class TestAttempts:
    @pytest.fixture
    def requests(self, numbers, clock):
        return WatchedRequests(numbers, 2, 60.0, clock.monotonic)

    @pytest.mark.parametrize(
        ('problem', 'result'),
        [
            (None, 'scheduled'),
            (errors.NoValidHost(''), 'unschedulable'),
            (errors.InvalidRequest('nonsense'), 'error'),
            (ZeroDivisionError(), 'error'),
        ],
    )
    def test_an_attempt_is_counted_by_its_result(
        self, requests, numbers, clock, problem, result
    ):
        def attempt():
            with requests.attempt():
                assert numbers.counts['scheduler_requests_in_flight',] == 1
                clock.go_on(3)
                if problem:
                    raise problem

        if problem:
            with pytest.raises(type(problem)):
                attempt()
        else:
            attempt()
        assert numbers.counts == {
            ('scheduler_requests_in_flight',): 0,
            ('scheduler_schedule_attempts_total', result): 1,
        }
        took = numbers.observed['scheduler_scheduling_attempt_duration_seconds', result]
        assert took == [3.0]

    def test_the_wait_of_a_message_is_measured(self, requests, numbers):
        requests.arrived(0.25)
        assert numbers.observed['scheduler_queue_wait_seconds',] == [0.25]

    def test_requests_that_nobody_waits_for_warn_until_they_hold_all_threads(
        self, requests, clock
    ):
        assert requests.look('now').status == PASS
        with requests.attempt():
            clock.go_on(60)
            assert requests.look('now').status == PASS
            clock.go_on(1)
            assert requests.look('now').status == WARN
            with requests.attempt():
                clock.go_on(61)
                found = requests.look('now')
                assert found.status == FAIL
                assert found.output == (
                    '2 of 2 threads have worked on a request for over 60 s'
                )
        assert requests.look('now').status == PASS


class TestStages:
    def test_prefilters_are_measured_one_by_one_and_together(self, stages, numbers):
        def some_filter(request, facts):
            return Requirements(notes=('one',))

        def other_filter(request, facts):
            return None

        (measured,) = stages.prefilters((some_filter, other_filter))
        found = measured(factories.request(), Facts())
        assert found == Requirements(notes=('one',))
        for _ in range(PLUGINS_EVERY - 1):
            assert measured(factories.request(), Facts()) == found
        assert len(numbers.observed.pop((STAGE, 'PreFilter'))) == PLUGINS_EVERY
        assert numbers.observed == {
            (PLUGIN, 'some_filter', 'PreFilter'): [1.0],
            (PLUGIN, 'other_filter', 'PreFilter'): [1.0],
        }

    def test_a_stage_that_fails_is_measured(self, stages, numbers):
        def refresh():
            raise errors.StoreFailed('nova', 'gone')

        with pytest.raises(errors.StoreFailed):
            stages.refresh(refresh)()
        assert numbers.observed == {(STAGE, 'Refresh'): [1.0]}

    @staticmethod
    def decision(num_instances, took_s):
        profile = Profile([NumInstancesFilter(limit=5)], [RAMWeigher()])
        made = decide(
            profile,
            factories.hosts(num_instances=num_instances),
            factories.request(),
            random.Random(1),
        )
        return made.__class__(**{**vars(made), 'took_s': took_s})

    def test_filters_and_weighers_are_summed_up_and_sampled(self, stages, numbers):
        took_s = {'NumInstancesFilter': 0.5, 'RAMWeigher': 0.25}
        decision = self.decision([1, 2], took_s)
        for _ in range(PLUGINS_EVERY):
            stages.decided(decision)
        assert numbers.observed == {
            ('scheduler_scheduling_algorithm_duration_seconds',): [0.75] * 10,
            (STAGE, 'Filter'): [0.5] * 10,
            (STAGE, 'Score'): [0.25] * 10,
            (PLUGIN, 'NumInstancesFilter', 'Filter'): [0.5],
            (PLUGIN, 'RAMWeigher', 'Score'): [0.25],
        }
        assert not numbers.counts

    @pytest.mark.parametrize(
        ('num_instances', 'plugin'), [([5, 6], 'NumInstancesFilter'), ([], 'none')]
    )
    def test_who_took_the_last_host_is_counted(
        self, stages, numbers, num_instances, plugin
    ):
        stages.decided(self.decision(num_instances, {}))
        name = 'scheduler_unschedulable_decisions_total'
        assert numbers.counts == {(name, plugin): 1}
        assert not numbers.observed


class ScriptedPlacement(FakePlacement):
    """Answers every call with the same."""

    def __init__(self, answer):
        super().__init__()
        self._answer = answer

    def _given(self, *arguments):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    candidates = claim = _given


class TestPlacement:
    @pytest.fixture
    def ask(self, numbers, stages, health):
        def make(answer):
            return WatchedPlacement(ScriptedPlacement(answer), numbers, stages, health)

        return make

    @pytest.mark.parametrize(
        ('answer', 'query', 'expected', 'truncated', 'well'),
        [
            pytest.param(
                Candidates(({}, {}), VERSION), 'limit=3', 'found', 0, PASS, id='some'
            ),
            pytest.param(
                Candidates(({}, {}), VERSION), 'a=b&limit=2', 'found', 1, PASS, id='cut'
            ),
            pytest.param(
                Candidates(({}, {}), VERSION), 'a=b', 'found', 0, PASS, id='no limit'
            ),
            pytest.param(
                Candidates((), VERSION), 'limit=2', 'none', 0, PASS, id='none'
            ),
            pytest.param(
                QueryFailed(400, 'odd'), 'limit=2', 'failed', 0, PASS, id='a refusal'
            ),
            pytest.param(
                QueryFailed(401, 'who?'), 'limit=2', 'failed', 0, WARN, id='no token'
            ),
            pytest.param(
                QueryFailed(503, 'away'), 'limit=2', 'failed', 0, WARN, id='an error'
            ),
            pytest.param(
                QueryFailed(0, 'gone'), 'limit=2', 'failed', 0, WARN, id='no answer'
            ),
        ],
    )
    def test_queries_are_counted_and_tell_how_placement_is(
        self, ask, numbers, health, answer, query, expected, truncated, well
    ):
        assert ask(answer).candidates(None, query) is answer
        assert numbers.counts['scheduler_candidate_queries_total', expected] == 1
        assert numbers.counts['scheduler_candidates_truncated_total',] == truncated
        assert numbers.observed[STAGE, 'Query'] == [1.0]
        assert status(health) == well

    def test_candidates_are_measured(self, ask, numbers):
        ask(Candidates(({}, {}), VERSION)).candidates(None, '')
        assert numbers.observed['scheduler_candidates',] == [2]

    @pytest.mark.parametrize(
        ('answer', 'expected', 'well'),
        [
            (Claimed('c'), 'claimed', PASS),
            (Refused(409, 'no room'), 'conflict', PASS),
            (Refused(400, 'odd'), 'refused', PASS),
            (Refused(500, 'odd'), 'refused', WARN),
            (Unknown('c', 'no answer'), 'unknown', WARN),
        ],
    )
    def test_claims_are_counted_by_their_outcome(
        self, ask, numbers, health, answer, expected, well
    ):
        placement = ask(answer)
        assert placement.claim(None, 'c', {}, VERSION, None, None) is answer
        assert numbers.counts == {('scheduler_claims_total', expected): 1}
        assert numbers.observed[STAGE, 'Claim'] == [1.0]
        assert status(health) == well

    def test_a_claim_that_raises_is_an_error(self, ask, numbers):
        problem = errors.AllocationUpdateFailed('c', 'changed')
        with pytest.raises(errors.AllocationUpdateFailed):
            ask(problem).claim(None, 'c', {}, VERSION, None, None)
        assert numbers.counts == {('scheduler_claims_total', 'error'): 1}

    def test_taking_back_is_measured(self, numbers, stages, health):
        inner = FakePlacement()
        watched = WatchedPlacement(inner, numbers, stages, health)
        watched.undo(None, Claimed('c'))
        assert inner.undone == [('c', None)]
        assert numbers.observed[STAGE, 'Undo'] == [1.0]
