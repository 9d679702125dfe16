# SPDX-License-Identifier: Apache-2.0
"""The aggregates, as messages and full reads change them."""

import pytest

from novasched import errors
from novasched.cluster.aggregates import ATTEMPTS, AggregateReader, AggregateView
from novasched.ports import AggregatesMark
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import FakeApiStore, aggregate
from tests.support.tables.cases import cases


@pytest.fixture
def view():
    made = AggregateView()
    made.replace([aggregate(2, 'h1'), aggregate(1, 'h1', 'h2')])
    return made


def ids(aggregates):
    return [found.id for found in aggregates]


def test_a_host_has_its_aggregates_by_id(view):
    assert ids(view.all()) == [1, 2]
    assert ids(view.of_hosts(['h1'])[0]) == [1, 2]
    assert ids(view.of_hosts(['h2'])[0]) == [1]
    assert ids(view.of_hosts(['H1'])[0]) == []


def test_an_update_adds_hosts_and_takes_out_those_no_longer_listed(view):
    view.update([aggregate(1, 'h2', 'h3')])
    assert [ids(view.of_hosts([host])[0]) for host in ('h1', 'h2', 'h3')] == [
        [2],
        [1],
        [1],
    ]


def test_an_update_may_bring_a_new_aggregate(view):
    view.update([aggregate(3, 'h1')])
    assert ids(view.of_hosts(['h1'])[0]) == [1, 2, 3]


def test_a_deleted_aggregate_leaves_its_hosts(view):
    view.delete(1)
    assert ids(view.all()) == [2]
    assert ids(view.of_hosts(['h2'])[0]) == []


@cases(
    'change, grows',
    ('an unknown one is deleted', lambda v: v.delete(9), False),
    ('a known one is deleted', lambda v: v.delete(1), True),
    ('no news', lambda v: v.update([aggregate(2, 'h1')]), False),
    ('metadata', lambda v: v.update([aggregate(2, 'h1', ssd='true')]), True),
    ('all are gone', lambda v: v.replace([]), True),
)
def test_the_version_grows_with_every_change(view, change, grows):
    before = view.version
    change(view)
    assert (view.version > before) == grows


def test_a_read_that_may_be_older_than_a_message_is_not_taken(view):
    version = view.version
    view.update([aggregate(3, 'h1')])
    assert not view.replace([], version)
    assert ids(view.all()) == [1, 2, 3]
    assert view.replace([], view.version)
    assert view.all() == []


OVERLAP_S = 10
LONG_AGO = AggregatesMark(((0, 1),), NOON - 60 * SECOND)


class Cloud:
    """A database with one aggregate, which was read at the start."""

    def __init__(self, mark=LONG_AGO):
        self.api = FakeApiStore(aggregates=[aggregate(1, 'h1')])
        self.api.mark = mark
        self.view, self.clock = AggregateView(), FakeClock()
        self.reader = AggregateReader(self.api, self.view, self.clock, OVERLAP_S)
        self.reader.read()
        self.api.aggregates_read = 0

    def change(self, mark):
        self.api.found_aggregates = [aggregate(1, 'h2')]
        self.api.mark = mark


@cases(
    'mark',
    ('one was changed just now', LONG_AGO._replace(newest=NOON + SECOND)),
    ('one was deleted: no stamp is left', LONG_AGO._replace(counts=((0, 0),))),
)
def test_aggregates_that_have_changed_are_read_again(mark):
    cloud = Cloud()
    cloud.change(mark)
    assert cloud.reader.current() == [aggregate(1, 'h2')]


def test_aggregates_that_have_not_changed_are_not_read_again():
    cloud = Cloud()
    assert cloud.reader.current() == cloud.reader.current() == [aggregate(1, 'h1')]
    assert cloud.api.aggregates_read == 0


def test_a_second_change_within_the_second_is_seen():
    just_now = AggregatesMark(((0, 1),), NOON)
    cloud = Cloud(just_now)
    cloud.change(just_now)
    assert cloud.reader.current() == [aggregate(1, 'h2')]
    cloud.clock.advance(OVERLAP_S + 1)
    cloud.reader.current()
    assert cloud.api.aggregates_read == 2
    cloud.reader.current()
    assert cloud.api.aggregates_read == 2


def test_no_aggregates_have_no_stamps():
    cloud = Cloud(AggregatesMark(((0, 0),), None))
    cloud.reader.current()
    assert cloud.api.aggregates_read == 0


def test_database_overrides_what_a_message_said():
    cloud = Cloud()
    cloud.view.update([aggregate(1, 'h3')])
    assert cloud.reader.current() == [aggregate(1, 'h1')]


def test_aggregates_that_change_all_the_time_are_read_again_by_the_next():
    cloud = Cloud()
    cloud.change(LONG_AGO._replace(newest=None))
    numbers = iter(range(9))
    cloud.api.on_aggregates = lambda: cloud.view.update([aggregate(next(numbers))])
    cloud.reader.current()
    cloud.api.on_aggregates = lambda: None
    assert cloud.reader.current() == [aggregate(1, 'h2')]
    assert cloud.api.aggregates_read == ATTEMPTS + 1


def test_a_database_that_is_away_leaves_what_is_known(caplog):
    cloud = Cloud()
    cloud.api.mark = errors.StoreFailed('api', 'away')
    assert cloud.reader.current() == [aggregate(1, 'h1')]
    assert [r.levelname for r in caplog.records] == ['WARNING']
