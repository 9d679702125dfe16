# SPDX-License-Identifier: Apache-2.0
"""Which services are up, and how filters see them."""

from __future__ import annotations

import datetime

import pytest

from novasched.cluster.services import Services, Window, down_time
from tests.configuration import make_conf
from tests.fake_databases import service
from tests.fakes import NOON, SECOND

WINDOW = Window.around(NOON, 60)


def utc(moment):
    return moment.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ('last_seen_up', 'created_at', 'up'),
    [
        pytest.param(NOON, NOON, True, id='heard from just now'),
        pytest.param(NOON - 60 * SECOND, NOON, True, id='as long ago as allowed'),
        pytest.param(NOON - 61 * SECOND, NOON, False, id='too long ago'),
        pytest.param(NOON + 60 * SECOND, NOON, True, id='by a clock that is ahead'),
        pytest.param(NOON + 61 * SECOND, NOON, False, id='by one too far ahead'),
        pytest.param(None, NOON, True, id='never, but it is new'),
        pytest.param(None, NOON - 61 * SECOND, False, id='never, and it is old'),
        pytest.param(None, None, False, id='never, and nobody knows since when'),
    ],
)
def test_a_service_is_up_within_the_window(last_seen_up, created_at, up):
    row = service(last_seen_up=last_seen_up, created_at=created_at)
    assert WINDOW.holds(row) == up
    assert Services().with_unavailable([row], WINDOW).is_up('h1') == up


def test_a_service_that_is_not_unavailable_is_up_and_enabled():
    services = Services().with_rows([service()])
    assert services.knows('h1')
    assert services.is_up('h1')
    assert not services.is_disabled('h1')


def test_a_service_that_is_forced_down_is_down_whatever_it_says():
    row = service(forced_down=True, last_seen_up=NOON)
    services = Services().with_unavailable([row], WINDOW)
    assert not services.is_up('h1')
    assert not services.is_disabled('h1')


def test_a_disabled_service_may_be_up():
    services = Services().with_unavailable([service(disabled=True)], WINDOW)
    assert services.is_disabled('h1')
    assert services.is_up('h1')


def test_a_service_that_is_only_among_the_unavailable_is_known():
    row = service('h9', disabled=True)
    assert Services().with_unavailable([row], WINDOW).knows('h9')
    assert not Services().knows(None)


def test_a_service_that_is_as_usual_is_not_among_the_unavailable():
    rows = [service('h1'), service('h2', disabled=True)]
    assert set(Services().with_unavailable(rows, WINDOW).unavailable) == {'h2'}


@pytest.mark.parametrize(
    ('rows', 'deleted', 'known'),
    [
        pytest.param([], [], {'h1': 1, 'h2': 2}, id='nothing is new'),
        pytest.param([service('h3', id=3)], [], {'h1': 1, 'h2': 2, 'h3': 3}, id='new'),
        pytest.param([], [1, 9], {'h2': 2}, id='deleted'),
        pytest.param(
            [service('h1', id=3)], [1], {'h1': 3, 'h2': 2}, id='deleted and made anew'
        ),
        pytest.param(
            [service('h1', id=3)], [], {'h1': 3, 'h2': 2}, id='made anew without a word'
        ),
        pytest.param(
            [service('h1', id=1, version=75)],
            [],
            {'h1': 1, 'h2': 2},
            id='known already',
        ),
    ],
)
def test_services_that_came_and_went_are_known(rows, deleted, known):
    services = Services().with_rows([service('h1', id=1), service('h2', id=2)])
    after = services.with_some(rows, deleted)
    assert {host: row.id for host, row in after.rows.items()} == known
    assert (after is services) == (known == {'h1': 1, 'h2': 2})


NORMAL = Services().with_rows([service()])


@pytest.mark.parametrize(
    ('other', 'same'),
    [
        pytest.param(NORMAL.with_rows([service(version=75)]), True, id='a newer beat'),
        pytest.param(NORMAL.with_rows([service('h2')]), False, id='another host'),
        pytest.param(
            NORMAL.with_unavailable([service(disabled=True)], WINDOW),
            False,
            id='it was disabled',
        ),
        pytest.param(NORMAL.with_unavailable([], WINDOW), True, id='nothing is wrong'),
    ],
)
def test_services_look_alike_to_filters(other, same):
    assert NORMAL.looks_like(other) == same
    assert other.looks_like(NORMAL) == same


def test_a_service_is_described_with_all_of_its_row():
    described = NORMAL.describe('h1', WINDOW)
    assert described.keys() == service()._asdict().keys()
    assert described['last_seen_up'] == utc(NOON)
    assert described['created_at'] == utc(NOON - 3600 * SECOND)


def test_a_service_that_was_enabled_since_is_described_as_enabled():
    row = service(disabled=True, disabled_reason='broken', forced_down=True)
    described = Services().with_rows([row]).describe('h1', WINDOW)
    assert not described['disabled']
    assert described['disabled_reason'] is None
    assert not described['forced_down']


@pytest.mark.parametrize(
    'last_seen_up',
    [
        pytest.param(NOON, id='heard from when it was read'),
        pytest.param(None, id='not yet heard from when it was read'),
    ],
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


@pytest.mark.parametrize(
    'change',
    [
        pytest.param(lambda d: d.__setitem__('disabled', True), id='set an item'),
        pytest.param(lambda d: d.__delitem__('disabled'), id='delete an item'),
        pytest.param(lambda d: d.clear(), id='clear'),
        pytest.param(lambda d: d.pop('disabled'), id='pop'),
        pytest.param(lambda d: d.popitem(), id='popitem'),
        pytest.param(lambda d: d.update(), id='update with nothing'),
        pytest.param(lambda d: d.update(disabled=True), id='update'),
        pytest.param(lambda d: d.setdefault('new', 1), id='setdefault of a new key'),
        pytest.param(lambda d: d.__ior__({'new': 1}), id='merge'),
    ],
)
def test_a_described_service_cannot_be_changed(change):
    described = NORMAL.describe('h1', WINDOW)
    before = dict(described)
    with pytest.raises(TypeError):
        change(described)
    assert described == before
    assert described.setdefault('host') == 'h1'


@pytest.mark.parametrize(
    ('service_down_time', 'report_interval', 'expected', 'warns'),
    [
        pytest.param(60, 10, 60, False, id='the defaults'),
        pytest.param(10, 10, 25, True, id='as short as the interval'),
        pytest.param(10, 15, 37, True, id='shorter than the interval'),
        pytest.param(60, 0, 60, False, id='no heartbeats'),
    ],
)
def test_down_time(service_down_time, report_interval, expected, warns):
    seconds, warning = down_time(service_down_time, report_interval)
    assert seconds == expected
    assert bool(warning) == warns


@pytest.mark.parametrize(
    ('driver', 'taken'),
    [
        pytest.param('db', True, id='the database'),
        pytest.param('mc', True, id='memcached, which is refused later'),
        pytest.param('zk', False, id='what nova has no more'),
    ],
)
def test_the_choices_of_servicegroup_driver_are_those_of_nova(driver, taken):
    conf = make_conf()
    if taken:
        conf.set_override('servicegroup_driver', driver)
    else:
        with pytest.raises(ValueError, match=r'\[db, mc\]'):
            conf.set_override('servicegroup_driver', driver)
