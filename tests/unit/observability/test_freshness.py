# SPDX-License-Identifier: Apache-2.0
"""Old views and cells that are left out are seen."""

from types import SimpleNamespace

import pytest

from novasched.observability.health import FAIL, PASS, WARN
from novasched.observability.instrumentation import Freshness
from novasched.ports import Cell
from tests.support.tables.cases import cases
from tests.unit.observability.recorder import FakeRecorder

TIME = 'novasched_cell_state_timestamp_seconds'
OUT = 'novasched_cell_left_out'


def cell(uuid, name=None):
    return Cell(uuid, name, None, None, False)


class FakeCells:
    def __init__(self):
        self.known = [cell('a', 'cell1'), cell('b')]
        self.out = []

    def enabled(self):
        return self.known

    def unavailable(self):
        return [each for each in self.known if each.uuid in self.out]


@pytest.fixture
def cells():
    return FakeCells()


@pytest.fixture
def asked_at():
    return {'a': 0.0, 'b': 0.0}


@pytest.fixture
def freshness(cells, clock, asked_at):
    view = SimpleNamespace(cells=cells, asked_at=lambda: asked_at)
    return Freshness(view, clock, 60.0)


def statuses(freshness):
    return {name: check.status for name, check in freshness.check('now').items()}


def test_without_cells_there_is_nothing_to_judge(freshness, cells):
    cells.known = []
    assert freshness.check('now') == {}


@cases(
    'out, expected',
    ('none is left out', '', (PASS, PASS)),
    ('one of two', 'b', (PASS, WARN)),
    ('all', 'ab', (FAIL, FAIL)),
)
def test_cells_that_are_left_out_warn_and_fail_if_it_is_all(
    freshness, cells, out, expected
):
    cells.out = out
    found = statuses(freshness)
    assert (found['cell_db:a'], found['cell_db:b']) == expected


@cases(
    'later_s, asked, expected',
    ('three checks ago', 180, {}, PASS),
    ('all are older', 181, {}, FAIL),
    ('one is older', 181, {'a': 100.0}, WARN),
)
def test_a_view_that_is_not_kept_up_is_seen(
    freshness, clock, asked_at, later_s, asked, expected
):
    clock.advance(later_s)
    asked_at.update(asked)
    assert statuses(freshness)['cluster_view'] == expected


@cases(
    'later_s, status, output',
    ('a new view', 10, WARN, '2 of 2 cells were not read yet'),
    ('an old view', 181, FAIL, '2 of 2 cells were not read for over 180 s'),
)
def test_cells_that_were_never_read_are_as_old_as_the_view(
    freshness, clock, asked_at, later_s, status, output
):
    asked_at.clear()
    clock.advance(later_s)
    found = freshness.check('now')['cluster_view']
    assert (found.status, found.output) == (status, output)


def test_the_times_of_cells_are_measured_by_name_or_else_by_uuid(
    freshness, cells, clock
):
    recorder = FakeRecorder()
    clock.advance(5)
    cells.out = 'b'
    freshness.measure(recorder, 1000.0)
    assert recorder.gauges == {
        (TIME, 'cell1'): 995.0,
        (OUT, 'cell1'): False,
        (TIME, 'b'): 995.0,
        (OUT, 'b'): True,
    }


def test_a_cell_that_is_gone_has_no_time_any_more(freshness, cells, asked_at):
    recorder = FakeRecorder()
    freshness.measure(recorder, 1000.0)
    cells.known = cells.known[:1]
    del asked_at['b']
    freshness.measure(recorder, 1001.0)
    assert recorder.gauges[TIME, 'b'] == 0
    assert recorder.gauges[TIME, 'cell1'] == 1001.0


def test_a_new_cell_that_was_not_read_yet_has_no_time(freshness, asked_at):
    recorder = FakeRecorder()
    asked_at.clear()
    freshness.measure(recorder, 1000.0)
    assert (TIME, 'cell1') not in recorder.gauges
