# SPDX-License-Identifier: Apache-2.0
"""Which services are up, and how filters see them."""

import datetime

import pytest

from novasched.cluster.services import Services, Window, down_time
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import NOON, SECOND
from tests.support.databases.fake_databases import service
from tests.support.tables.cases import cases

WINDOW = Window.around(NOON, 60)


def utc(moment):
    return moment.replace(tzinfo=datetime.UTC)


@cases(
    'last_seen_up, created_at, up',
    ('heard from just now', NOON, NOON, True),
    ('as long ago as allowed', NOON - 60 * SECOND, NOON, True),
    ('too long ago', NOON - 61 * SECOND, NOON, False),
    ('by a clock that is ahead', NOON + 60 * SECOND, NOON, True),
    ('by one too far ahead', NOON + 61 * SECOND, NOON, False),
    ('never, but it is new', None, NOON, True),
    ('never, and it is old', None, NOON - 61 * SECOND, False),
    ('never, and nobody knows since when', None, None, False),
)
def test_a_service_is_up_within_the_window(last_seen_up, created_at, up):
    row = service(last_seen_up=last_seen_up, created_at=created_at)
    assert WINDOW.holds(row) == up
    assert Services().with_unavailable([row], WINDOW).is_up('h1') == up


@cases(
    'fields, up, disabled, unavailable',
    ('as usual', {}, True, False, False),
    ('forced down, whatever it says', {'forced_down': True}, False, False, True),
    ('disabled, but it may be up', {'disabled': True}, True, True, True),
)
def test_services_that_are_not_as_usual(fields, up, disabled, unavailable):
    services = Services().with_unavailable([service(**fields)], WINDOW)
    assert (services.is_up('h1'), services.is_disabled('h1')) == (up, disabled)
    assert bool(services.unavailable) == unavailable
    assert services.knows('h1') == unavailable


def test_a_service_is_known_by_its_host():
    assert Services().with_rows([service()]).knows('h1')
    assert not Services().knows(None)


@cases(
    'rows, deleted, known',
    ('nothing is new', [], [], {'h1': 1, 'h2': 2}),
    ('new', [service('h3', id=3)], [], {'h1': 1, 'h2': 2, 'h3': 3}),
    ('deleted', [], [1, 9], {'h2': 2}),
    ('deleted and made anew', [service('h1', id=3)], [1], {'h1': 3, 'h2': 2}),
    ('made anew without a word', [service('h1', id=3)], [], {'h1': 3, 'h2': 2}),
    ('known already', [service('h1', id=1, version=75)], [], {'h1': 1, 'h2': 2}),
)
def test_services_that_came_and_went_are_known(rows, deleted, known):
    services = Services().with_rows([service('h1', id=1), service('h2', id=2)])
    after = services.with_some(rows, deleted)
    assert {host: row.id for host, row in after.rows.items()} == known
    assert (after is services) == (known == {'h1': 1, 'h2': 2})


NORMAL = Services().with_rows([service()])


@cases(
    'other, same',
    ('a newer beat', NORMAL.with_rows([service(version=75)]), True),
    ('another host', NORMAL.with_rows([service('h2')]), False),
    (
        'it was disabled',
        NORMAL.with_unavailable([service(disabled=True)], WINDOW),
        False,
    ),
    ('nothing is wrong', NORMAL.with_unavailable([], WINDOW), True),
)
def test_services_look_alike_to_filters(other, same):
    assert NORMAL.looks_like(other) == same
    assert other.looks_like(NORMAL) == same


def test_a_service_is_described_with_all_of_its_row():
    described = NORMAL.describe('h1', WINDOW)
    assert described.keys() - service()._asdict().keys() == {'deleted', 'deleted_at'}
    assert described['last_seen_up'] == utc(NOON)
    assert described['created_at'] == utc(NOON - 3600 * SECOND)


def test_a_service_that_was_enabled_since_is_described_as_enabled():
    row = service(disabled=True, disabled_reason='broken', forced_down=True)
    described = Services().with_rows([row]).describe('h1', WINDOW)
    assert not described['disabled']
    assert described['disabled_reason'] is None
    assert not described['forced_down']


@cases(
    'last_seen_up',
    ('heard from when it was read', NOON),
    ('not yet heard from when it was read', None),
)
def test_a_service_that_still_beats_is_described_as_alive(last_seen_up):
    services = Services().with_rows([service(last_seen_up=last_seen_up)])
    later = Window.around(NOON + 3600 * SECOND, 60)
    seen = services.describe('h1', later)['last_seen_up']
    assert seen == utc(later.oldest)


def test_a_new_service_that_was_never_heard_from_is_described_so():
    row = service(last_seen_up=None, created_at=NOON)
    described = Services().with_rows([row]).describe('h1', WINDOW)
    assert described['last_seen_up'] is None


def test_an_unavailable_service_is_described_as_it_is():
    row = service(disabled=True, disabled_reason='broken', last_seen_up=None)
    described = NORMAL.with_unavailable([row], WINDOW).describe('h1', WINDOW)
    assert described['disabled_reason'] == 'broken'
    assert described['last_seen_up'] is None


@cases(
    'change',
    ('set an item', lambda d: d.__setitem__('disabled', True)),
    ('delete an item', lambda d: d.__delitem__('disabled')),
    ('clear', lambda d: d.clear()),
    ('pop', lambda d: d.pop('disabled')),
    ('popitem', lambda d: d.popitem()),
    ('update with nothing', lambda d: d.update()),
    ('update', lambda d: d.update(disabled=True)),
    ('setdefault of a new key', lambda d: d.setdefault('new', 1)),
    ('merge', lambda d: d.__ior__({'new': 1})),
)
def test_a_described_service_cannot_be_changed(change):
    described = NORMAL.describe('h1', WINDOW)
    before = dict(described)
    with pytest.raises(TypeError):
        change(described)
    assert described == before
    assert described.setdefault('host') == 'h1'


@cases(
    'service_down_time, report_interval, expected, warns',
    ('the defaults', 60, 10, 60, False),
    ('as short as the interval', 10, 10, 25, True),
    ('shorter than the interval', 10, 15, 37, True),
    ('no heartbeats', 60, 0, 60, False),
)
def test_down_time(service_down_time, report_interval, expected, warns):
    seconds, warning = down_time(service_down_time, report_interval)
    assert seconds == expected
    assert bool(warning) == warns


@cases(
    'driver, taken',
    ('the database', 'db', True),
    ('memcached, which is refused later', 'mc', True),
    ('what nova has no more', 'zk', False),
)
def test_servicegroup_driver_has_novas_choices(driver, taken):
    conf = make_conf()
    if taken:
        conf.set_override('servicegroup_driver', driver)
    else:
        with pytest.raises(ValueError, match=r'\[db, mc\]'):
            conf.set_override('servicegroup_driver', driver)
