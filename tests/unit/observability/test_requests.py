# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured of requests."""

from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.observability.health import FAIL, PASS, WARN
from novasched.observability.instrumentation import (
    RequestTracker,
)
from novasched.observability.requests import check_outages
from novasched.outages import Outage


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
