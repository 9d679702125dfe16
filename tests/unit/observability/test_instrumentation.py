# SPDX-License-Identifier: Apache-2.0
"""Components that are measured work as before."""

from types import SimpleNamespace

import pytest

from novasched.cluster.assumed import AssumedInstances
from novasched.observability.health import PASS
from novasched.observability.instrumentation import Instrumentation
from novasched.observability.settings import Settings
from novasched.ports import Cell, Claimed
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock, FakePlacement

STAGE = 'novasched_framework_extension_point_duration_seconds'
CELL = Cell('a', 'cell1', None, None, False)


@pytest.fixture
def instrumentation(recorder):
    return Instrumentation(recorder, FakeClock(), Settings(threads=1))


@pytest.fixture
def health(instrumentation):
    return instrumentation.health


def view():
    cells = SimpleNamespace(enabled=lambda: [CELL], unavailable=list)
    return SimpleNamespace(cells=cells, asked_at=lambda: {'a': 0.0})


def test_a_watched_view_is_measured_and_judged(instrumentation, recorder, health):
    instrumentation.watch(view())
    with instrumentation.refresh():
        assert not recorder.observed
    assert len(recorder.observed[STAGE, 'Refresh']) == 1
    assert health.checks()['cluster_view'].status == PASS
    instrumentation.measure(1000.0)
    assert recorder.gauges['novasched_cell_state_timestamp_seconds', 'cell1'] == 1000.0


def test_before_there_is_a_view_only_requests_are_measured(
    instrumentation, recorder, health
):
    instrumentation.measure(1000.0)
    assert recorder.gauges == {
        ('novasched_request_threads',): 1,
        ('novasched_messages_waiting',): 0,
        ('novasched_oldest_waiting_message_seconds',): 0.0,
        ('novasched_decision_store_bytes',): 0,
    }
    assert set(health.checks()) == {'decision_store', 'outages', 'requests'}


def test_picks_that_wait_for_a_row_are_measured(instrumentation, recorder, health):
    clock = FakeClock()
    picks = instrumentation.picks
    picks.assumed = AssumedInstances(clock=clock)
    hosts = factories.hosts()
    view = picks.assumed.see(lambda: hosts)
    picks.assumed.add(hosts.state(0), view.base, factories.request())
    clock.advance(7.0)
    picks.count('sent', 1)
    instrumentation.measure(1000.0)
    assert recorder.counts['novasched_picks_total', 'sent'] == 1
    assert recorder.gauges['novasched_picks_assumed',] == 1
    assert recorder.gauges['novasched_oldest_pick_seconds',] == 7.0
    assert health.checks()['picks'].output == (
        '1 picks are assumed, the oldest unseen for 7 s'
    )


def test_the_other_parts_work_as_before(instrumentation, recorder, health):
    inner = FakePlacement('p1')
    placement = instrumentation.placement(inner)
    instrumentation.answered(placement.candidates(None, ''))
    placement.undo(None, [Claimed('c')], 1.0)
    assert inner.undone == [('c', {})]
    api = instrumentation.api(SimpleNamespace(cells=lambda: [CELL]))
    assert api.cells() == [CELL]
    beats = instrumentation.services(SimpleNamespace(beat=lambda *arguments: True))
    assert beats.beat(1, 2)
    assert set(health.checks()) == {
        'api_db',
        'decision_store',
        'heartbeat',
        'outages',
        'placement',
        'requests',
    }
