# SPDX-License-Identifier: Apache-2.0
"""The rules of the health: what is well, what warns, what fails, and for how long."""

import json

import pytest

from novasched.observability.health import (
    FAIL,
    PASS,
    READY,
    WARN,
    Check,
    Health,
    answer,
    overall,
)
from novasched.observability.settings import Settings
from tests.support.tables.cases import cases

NOON = '2026-11-21T12:00:00+00:00'


@pytest.fixture
def health(clock):
    return Health(clock, ttl_s=300)


def test_good_news_pass_at_their_time(health):
    health.good('api_db')
    assert health.checks() == {'api_db': Check(PASS, NOON)}


def test_the_first_bad_news_warn_and_the_second_fail(health):
    health.good('placement')
    health.bad('placement', 'HTTP 503')
    assert health.checks()['placement'] == Check(WARN, NOON, 'HTTP 503')
    health.bad('placement', 'HTTP 503')
    assert health.checks()['placement'].status == FAIL
    health.good('placement')
    assert health.checks()['placement'].status == PASS


def test_lasting_failure_fails_at_once(health):
    health.bad('heartbeat', 'gone', FAIL)
    assert health.checks()['heartbeat'] == Check(FAIL, NOON, 'gone')


def test_news_expire(health, clock):
    health.good('api_db')
    clock.advance(300)
    assert health.checks()['api_db'].status == PASS
    clock.advance(1)
    expected = Check(WARN, NOON, 'no news for 301 s')
    assert health.checks()['api_db'] == expected


def test_without_a_time_to_live_news_never_expire(clock):
    health = Health(clock, ttl_s=0)
    health.good('api_db')
    clock.advance(1e6)
    assert health.checks()['api_db'].status == PASS
    assert not health.wants_news('api_db')


def test_news_are_wanted_when_they_are_bad_or_half_expired(health, clock):
    assert health.wants_news('placement')
    health.good('placement')
    assert not health.wants_news('placement')
    clock.advance(150)
    assert health.wants_news('placement')
    health.bad('placement', 'away')
    assert health.wants_news('placement')


def test_looks_are_made_when_somebody_asks(health):
    health.checkers.append(lambda: {'cluster_view': Check(PASS, 'now')})
    health.good('api_db')
    assert list(health.checks()) == ['api_db', 'cluster_view']


@cases(
    'checks, expected',
    ('nothing is known', [], WARN),
    ('all is well', [Check(PASS, '')], PASS),
    ('one warns', [Check(PASS, ''), Check(WARN, '')], WARN),
    ('one fails', [Check(FAIL, ''), Check(WARN, '')], FAIL),
)
def test_the_whole_is_as_the_worst_part(checks, expected):
    assert overall(checks) == expected


@cases(
    'status, max_age_s, code, control',
    ('well', PASS, 300, 200, 'max-age=300'),
    ('a warning', WARN, 300, 200, 'max-age=300'),
    ('a failure is never kept', FAIL, 300, 503, 'no-cache'),
    ('no header', PASS, 0, 200, None),
    ('not to be kept', PASS, -1, 200, 'no-cache'),
)
def test_the_answer_has_the_form_of_the_specification(status, max_age_s, code, control):
    found = answer(
        Settings('ctl1', 'nova-scheduler', max_age_s=max_age_s),
        {
            'api_db': Check(status, NOON, '' if status == PASS else 'away'),
            READY: Check(PASS, NOON),
        },
        'an-id',
    )
    check = {'status': status, 'time': NOON}
    if status != PASS:
        check['output'] = 'away'
    assert json.loads(found.body) == {
        'status': status,
        'version': '1.0',
        'serviceId': 'an-id',
        'description': 'nova-scheduler',
        'notes': {'host': 'ctl1'},
        'checks': {'api_db': check, 'ready': {'status': 'pass', 'time': NOON}},
    }
    assert (found.status, found.content_type) == (code, 'application/health+json')
    assert found.headers.get('Cache-Control') == control
