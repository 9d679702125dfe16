# SPDX-License-Identifier: Apache-2.0
"""How fresh the host data of one request is, and when its rows need verification."""

import pytest

from novasched.cluster.freshness import RECENT_S, ViewFreshness
from novasched.scheduler.snapshot import Snapshot
from tests.support.clouds.fakes import FakeClock


class View:
    """Is read when it is made; records its calls."""

    def __init__(self, clock):
        self.clock = clock
        self.began_s = clock.monotonic()
        self.asked = []
        self.aggregates = self
        self.version = 1

    def known(self):
        self.asked.append('known')
        return self.began_s

    def refresh(self):
        self.asked.append('refresh')
        self.began_s = self.clock.monotonic()
        return self.began_s

    def current_aggregates(self):
        self.asked.append('aggregates')

    def changed(self, node_uuids, seen, **how):
        self.asked.append(('rows', how['with_rows']))
        return set()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def view(clock):
    return View(clock)


@pytest.fixture
def freshness(view, clock):
    clock.advance(0.1)
    came_s = clock.monotonic()
    return ViewFreshness(view, came_s, clock=clock, seen=Snapshot({}))


def test_cached_rows_are_verified(freshness, view):
    freshness.use_cached()
    freshness.stale_nodes(['n1'])
    assert (freshness.is_new, view.asked) == (False, ['known', ('rows', True)])


def test_rows_read_just_now_need_no_verification(freshness, view):
    freshness.refresh()
    freshness.use_cached()
    freshness.stale_nodes(['n1'])
    assert (freshness.is_new, view.asked) == (True, ['refresh'])


def test_own_read_is_verified_once_it_is_no_longer_recent(freshness, view, clock):
    freshness.refresh()
    clock.advance(RECENT_S + 0.1)
    freshness.stale_nodes(['n1'])
    freshness.use_cached()
    assert (freshness.is_new, view.asked) == (
        True,
        ['refresh', ('rows', True), 'known'],
    )


def test_no_valid_host_needs_the_aggregates_that_filters_read(freshness, view):
    freshness.refresh()
    freshness.reads_aggregates = True
    assert not freshness.is_current
    assert not freshness.refresh_if_stale()
    assert not freshness.refresh_if_stale()
    assert (freshness.is_current, view.asked) == (True, ['refresh', 'aggregates'])


def test_changed_aggregates_may_change_the_hosts(freshness, view):
    freshness.refresh()
    freshness.reads_aggregates = True
    view.current_aggregates = lambda: setattr(view, 'version', 2)
    assert freshness.refresh_if_stale()
