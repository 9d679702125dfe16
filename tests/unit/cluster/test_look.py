# SPDX-License-Identifier: Apache-2.0
"""What one request knows of the cells, and for how long that needs no verification."""

import contextlib

import pytest

from novasched.cluster.look import RECENT_S, ClusterLook
from novasched.scheduler.snapshot import Snapshot
from tests.fakes import FakeClock


class View:
    """Was looked at when it was made; counts what is asked of it."""

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
def look(view, clock):
    clock.advance(0.1)
    made = ClusterLook.of_now(view, lambda name: contextlib.nullcontext(), clock)
    made.seen = Snapshot({})
    return made


def test_what_was_known_before_is_verified(look, view):
    look.at_known()
    look.changed(['n1'])
    assert (look.is_new, view.asked) == (False, ['known', ('rows', True)])


def test_what_was_looked_at_just_now_is_not(look, view):
    look.refresh()
    look.at_known()
    look.changed(['n1'])
    assert (look.is_new, view.asked) == (True, ['refresh'])


def test_a_look_of_a_while_ago_is_verified_though_it_was_made_for_the_request(
    look, view, clock
):
    look.refresh()
    clock.advance(RECENT_S + 0.1)
    look.changed(['n1'])
    look.at_known()
    assert (look.is_new, view.asked) == (True, ['refresh', ('rows', True), 'known'])


def test_a_no_needs_the_aggregates_that_filters_read(look, view):
    look.refresh()
    look.reads_aggregates = True
    assert not look.shows_all
    assert not look.renew()
    assert not look.renew()
    assert (look.shows_all, view.asked) == (True, ['refresh', 'aggregates'])


def test_hosts_may_be_others_where_aggregates_are(look, view):
    look.refresh()
    look.reads_aggregates = True
    view.current_aggregates = lambda: setattr(view, 'version', 2)
    assert look.renew()
