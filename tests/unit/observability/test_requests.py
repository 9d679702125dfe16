# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured of requests."""

import random
from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.manager.candidate_query import QueryPolicy
from novasched.observability.health import FAIL, PASS, WARN
from novasched.observability.instrumentation import (
    PLUGINS_EVERY,
    Instrumentation,
    RequestTracker,
)
from novasched.observability.requests import check_outages
from novasched.outages import Outage
from novasched.resources import PrefilterContext
from novasched.resources.prefilters import run
from novasched.resources.requirements import Requirements
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.unit.observability.recorder import TickingClock

STAGE = 'novasched_framework_extension_point_duration_seconds'
PLUGIN = 'novasched_plugin_execution_duration_seconds'


@pytest.fixture
def stages(recorder):
    return Instrumentation(recorder, TickingClock())


class TestAttempts:
    @pytest.fixture
    def requests(self, recorder, clock):
        return RequestTracker(recorder, 2, 60.0, clock)

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
        self, requests, recorder, clock, problem, result
    ):
        def attempt():
            with requests.attempt():
                assert recorder.counts['novasched_requests_in_flight',] == 1
                clock.advance(3)
                if problem:
                    raise problem

        if problem:
            with pytest.raises(type(problem)):
                attempt()
        else:
            attempt()
        assert recorder.counts == {
            ('novasched_requests_in_flight',): 0,
            ('novasched_schedule_attempts_total', result): 1,
        }
        took = recorder.observed[
            'novasched_scheduling_attempt_duration_seconds', result
        ]
        assert took == [3.0]
        assert requests.finished() == 1

    def test_the_wait_of_a_message_is_measured(self, requests, recorder):
        requests.arrived(0.25)
        assert recorder.observed['novasched_queue_wait_seconds',] == [0.25]

    def test_servers_are_counted_not_only_requests(self, requests, recorder):
        requests.placed(8)
        requests.placed(1)
        assert recorder.counts['novasched_servers_placed_total',] == 9

    def test_messages_that_wait_for_a_thread_and_the_oldest_are_measured(
        self, requests, recorder, clock
    ):
        requests.queued(1, 5.0)
        clock.advance(2)
        requests.queued(2, 0.0)

        def measured():
            requests.measure()
            return list(recorder.gauges.values())

        assert measured() == [2, 2, 7.0]
        requests.taken(1)
        requests.taken(1)
        clock.advance(1)
        assert measured() == [2, 1, 1.0]
        requests.taken(2)
        assert measured() == [2, 0, 0.0]

    def test_abandoned_requests_warn_until_they_hold_all_threads(self, requests, clock):
        assert requests.check('now').status == PASS
        with requests.attempt():
            clock.advance(60)
            assert requests.check('now').status == PASS
            clock.advance(1)
            assert requests.check('now').status == WARN
            with requests.attempt():
                clock.advance(61)
                found = requests.check('now')
                assert found.status == FAIL
                assert found.output == (
                    '2 of 2 threads have worked on a request for over 60 s'
                )
        assert requests.check('now').status == PASS


class TestStages:
    def test_prefilters_are_measured_one_by_one_and_together(self, stages, recorder):
        def some_filter(request, facts):
            return Requirements(notes=('one',))

        def other_filter(request, facts):
            return None

        policy = stages.query_policy(QueryPolicy((some_filter, other_filter)))
        for _ in range(PLUGINS_EVERY):
            found = run(policy.prefilters, factories.request(), PrefilterContext())
            assert found == Requirements(notes=('one',))
        assert len(recorder.observed.pop((STAGE, 'PreFilter'))) == PLUGINS_EVERY
        assert recorder.observed == {
            (PLUGIN, 'some_filter', 'PreFilter'): [1.0],
            (PLUGIN, 'other_filter', 'PreFilter'): [1.0],
        }

    def test_a_stage_that_fails_is_measured(self, stages, recorder):
        with pytest.raises(errors.StoreFailed), stages.stage('Refresh'):
            raise errors.StoreFailed('nova', 'gone')
        assert recorder.observed == {(STAGE, 'Refresh'): [1.0]}

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

    def test_filters_and_weighers_are_summed_up_and_sampled(self, stages, recorder):
        took_s = {'NumInstancesFilter': 0.5, 'RAMWeigher': 0.25}
        decision = self.decision([1, 2], took_s)
        for _ in range(PLUGINS_EVERY):
            stages.decisions(lambda _: None)(decision)
        assert recorder.observed == {
            ('novasched_scheduling_algorithm_duration_seconds',): [0.75] * 10,
            (STAGE, 'Filter'): [0.5] * 10,
            (STAGE, 'Score'): [0.25] * 10,
            (PLUGIN, 'NumInstancesFilter', 'Filter'): [0.5],
            (PLUGIN, 'RAMWeigher', 'Score'): [0.25],
        }
        assert not recorder.counts

    @pytest.mark.parametrize(
        ('num_instances', 'plugin'), [([5, 6], 'NumInstancesFilter'), ([], 'none')]
    )
    def test_filter_that_took_the_last_host_is_counted(
        self, stages, recorder, num_instances, plugin
    ):
        stages.decisions(lambda _: None)(self.decision(num_instances, {}))
        name = 'novasched_unschedulable_decisions_total'
        assert recorder.counts == {(name, plugin): 1}
        assert not recorder.observed


@pytest.mark.parametrize(
    ('in_vain', 'status'), [((), PASS), ((0,), WARN), ((0, 2), FAIL)]
)
def test_outages_are_a_warning_until_the_time_of_some_is_over(in_vain, status):
    now = [Outage('placement', 'refused', 3.2, 5, number) for number in in_vain]
    check = check_outages(SimpleNamespace(now=lambda: now), 'noon')
    assert (check.status, check.time) == (status, 'noon')
    assert check.output == '; '.join(
        'placement has been unavailable for 3 s, 5 requests wait, '
        f'{number} timed out: refused'
        for number in in_vain
    )
