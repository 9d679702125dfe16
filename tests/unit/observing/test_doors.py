# SPDX-License-Identifier: Apache-2.0
"""Parts pass open doors as they are; at watched ones they work as before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from novasched.asking import Asking
from novasched.observing.doors import OPEN, WatchedDoors
from novasched.observing.health import PASS, Health
from novasched.ports import Candidates, Cell, Claimed
from tests.unit.fakes import FakeClock, FakePlacement
from tests.unit.observing.numbers import FakeNumbers

STAGE = 'novasched_framework_extension_point_duration_seconds'
CELL = Cell('a', 'cell1', None, None, False)


@pytest.fixture
def numbers():
    return FakeNumbers()


@pytest.fixture
def health():
    return Health(FakeClock())


@pytest.fixture
def doors(numbers, health):
    return WatchedDoors(
        numbers, health, FakeClock(), threads=1, patience_s=60, check_interval_s=60
    )


def view(refresh):
    cells = SimpleNamespace(enabled=lambda: [CELL], unavailable=list)
    return SimpleNamespace(refresh=refresh, cells=cells, asked_at=lambda: {'a': 0.0})


@pytest.mark.parametrize('door', ['api', 'services', 'placement', 'asking', 'view'])
def test_an_open_door_changes_nothing(door):
    part = object()
    assert getattr(OPEN, door)(part) is part
    assert OPEN.requests is None


def test_a_watched_view_is_measured_and_judged(doors, numbers, health):
    refreshed = []
    doors.view(view(lambda: refreshed.append(1))).refresh()
    assert refreshed == [1]
    assert len(numbers.observed[STAGE, 'Refresh']) == 1
    health.look_at(doors.looks)
    assert health.checks()['cluster_view'].status == PASS
    doors.measure(1000.0)
    assert numbers.gauges['novasched_cell_state_timestamp_seconds', 'cell1'] == 1000.0


def test_before_there_is_a_view_only_requests_are_measured(doors, numbers, health):
    doors.measure(1000.0)
    assert numbers.gauges == {
        ('novasched_request_threads',): 1,
        ('novasched_messages_waiting',): 0,
        ('novasched_oldest_waiting_message_seconds',): 0.0,
    }
    health.look_at(doors.looks)
    assert set(health.checks()) == {'requests'}


def test_decisions_go_on_to_who_wants_them(doors, numbers):
    told = []
    decision = SimpleNamespace(
        weighed=SimpleNamespace(weighings=()), took_s={}, steps=(), ranked=()
    )
    doors.decisions(told.append)(decision)
    assert told == [decision]
    assert sum(numbers.counts.values()) == 1


def test_the_other_parts_work_as_before(doors, numbers, health):
    inner = FakePlacement('p1')
    placement = doors.placement(inner)
    assert placement.candidates(None, '').requests == tuple(inner.offered)
    placement.undo(None, [Claimed('c')], 1.0)
    api = doors.api(SimpleNamespace(cells=lambda: [CELL]))
    assert api.cells() == [CELL]
    beats = doors.services(SimpleNamespace(beat=lambda *arguments: True))
    assert beats.beat(1, 2)
    assert set(health.checks()) == {'api_db', 'heartbeat', 'placement'}
    asking = doors.asking(Asking((), limit=7))
    assert (asking.limit, list(asking.prefilters)) == (7, [])
    asking.on_cut(Candidates((), '1.36', cut=True))
    assert numbers.counts['novasched_candidates_truncated_total',] == 1
