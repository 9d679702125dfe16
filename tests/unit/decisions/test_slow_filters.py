# SPDX-License-Identifier: Apache-2.0
"""Filters that are slow to say why are not asked for ever."""

import pytest

from novasched.decisions.fault import Level
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.reasons import Code, Reason
from tests.support.clouds import factories
from tests.support.records.recordings import Recorded

A = 'c0000000-0000-4000-8000-00000000000a'


class Slow(BaseHostFilter):
    """Rejects all, and takes its time to say why."""

    codes = (Code.TOO_MANY_INSTANCES, Code.REJECTED)

    def __init__(self, clock, seconds):
        self.clock = clock
        self.seconds = seconds
        self.asked = 0

    def host_passes(self, host_state, spec_obj):
        return False

    def why(self, host, request):
        self.asked += 1
        self.clock.advance(self.seconds)
        return Reason(Code.TOO_MANY_INSTANCES, 'too many')


class Passes(Slow):
    """Passes all but the first host."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host != 'h1'


def reasons(recorded, step=0):
    """Code and count of the reasons of a filter in the last record."""
    (decision,) = recorded.record.body.decisions
    return [(reason.code, reason.hosts) for reason in decision.steps[step].reasons]


def test_slow_filter_is_not_asked_for_reasons_again(clock, caplog):
    slow = Slow(clock, 0.3)
    recorded = Recorded(factories.hosts(count=10), filters=[slow], clock=clock)
    recorded.refused()
    assert slow.asked == 4
    assert reasons(recorded) == [('too-many-instances', 4), ('not-asked', 6)]
    recorded.refused()
    assert slow.asked == 4
    assert reasons(recorded) == [('not-asked', 10)]
    warnings = [
        r.getMessage() for r in caplog.records if 'took 1.2 s' in r.getMessage()
    ]
    assert [text.partition(' took')[0] for text in warnings] == ['Filter Slow']
    assert (recorded.record.head.blocker, recorded.record.head.plugin) == (
        'filters',
        'Slow',
    )


def test_a_filter_that_hangs_is_asked_once(clock):
    hangs = Slow(clock, 10)
    recorded = Recorded(factories.hosts(count=5), filters=[hangs], clock=clock)
    recorded.refused()
    recorded.refused()
    assert hangs.asked == 1


def test_the_seconds_of_several_records_are_not_added_up(clock):
    filter_ = Slow(clock, 0.3)
    recorded = Recorded(factories.hosts(count=3), filters=[filter_], clock=clock)
    for _ in range(5):
        recorded.refused()
    assert filter_.asked == 15


def test_other_filters_are_asked_on(clock):
    hangs, quick = Passes(clock, 10), Slow(clock, 0)
    recorded = Recorded(factories.hosts(count=4), filters=[hangs, quick], clock=clock)
    recorded.refused()
    recorded.refused()
    assert (hangs.asked, quick.asked) == (1, 6)
    assert reasons(recorded, 1) == [('too-many-instances', 3)]


def test_a_reload_asks_again(clock):
    hangs = Slow(clock, 10)
    for _ in range(2):
        recorded = Recorded(factories.hosts(count=5), filters=[hangs], clock=clock)
        recorded.refused()
    assert hangs.asked == 2


@pytest.mark.parametrize('level', [Level.USER, Level.ADMIN])
def test_the_error_counts_those_that_were_not_asked(clock, level):
    hangs = Slow(clock, 10)
    recorded = Recorded(
        factories.hosts(count=5), filters=[hangs], clock=clock, level=level
    )
    text = recorded.refused([A])
    assert 'not-asked 4' in text
    assert hangs.asked == 1
