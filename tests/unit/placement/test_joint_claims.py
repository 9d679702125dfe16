# SPDX-License-Identifier: Apache-2.0
"""Claims for several consumers at once, answer by answer."""

from __future__ import annotations

import pytest
import requests

from novasched.placement.client import PlacementClient
from novasched.ports import Claimed, Refused, Wanted

A, B = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab')
SAVED = (204, '')
NOTHING = (200, {'allocations': {}})
LOST = requests.ReadTimeout('slow')
AWAY = requests.ConnectTimeout('slow')
TEXT = (
    'Unable to allocate inventory: Unable to create allocation for '
    "'VCPU' on resource provider 'one'. The requested amount would exceed the capacity."
)


def problem(code, detail):
    return 409, {'errors': [{'code': f'placement.{code}', 'detail': detail}]}


FULL = problem('undefined_code', TEXT)
CHANGED = problem('concurrent_update', 'consumer generation conflict - expected 1')
BUSY = problem('concurrent_update', 'Inventory and/or allocations changed while')


def candidate(provider):
    return {
        'allocations': {provider: {'resources': {'VCPU': 2}}},
        'mappings': {'': [provider]},
    }


WANTED = [Wanted(A, candidate('one')), Wanted(B, candidate('two'))]


def holds(provider, amount=2):
    return 200, {
        'allocations': {provider: {'resources': {'VCPU': amount}, 'generation': 1}},
        'consumer_generation': 1,
        'project_id': 'p',
        'user_id': 'u',
    }


BOTH = [holds('one'), holds('two')]


@pytest.fixture
def claiming(scripted, context):
    """Return a function that claims with prepared answers, all of which it needs."""

    def run(*answers, **options):
        adapter, script = scripted(*answers, **options)
        client = PlacementClient(adapter)
        outcome = client.claim_all(context, WANTED, '1.36', 'project', 'user')
        assert not script.answers
        return outcome, script

    return run


def test_it_is_one_post(claiming):
    outcome, script = claiming(SAVED)
    assert outcome == [Claimed(A), Claimed(B)]
    assert script.asked == ['POST /allocations']
    assert script.body(0) == {
        one.consumer_uuid: {
            **one.candidate,
            'project_id': 'project',
            'user_id': 'user',
            'consumer_generation': None,
        }
        for one in WANTED
    }
    version = script.requests[0].headers['OpenStack-API-Version']
    assert version == 'placement 1.36'


ALL, NONE, UNKNOWN = 'all', 'none', 'unknown'


def kind(outcome):
    if isinstance(outcome, Refused):
        return NONE
    kinds = {type(claim) for claim in outcome}
    assert len(kinds) == 1
    return ALL if kinds == {Claimed} else UNKNOWN


@pytest.mark.parametrize(
    ('answers', 'expected'),
    [
        pytest.param([FULL], NONE, id='no room'),
        pytest.param([CHANGED], NONE, id='a consumer that holds something'),
        pytest.param([AWAY, AWAY], NONE, id='placement is not there'),
        pytest.param([AWAY, SAVED], ALL, id='placement is there again'),
        pytest.param([(503, '<html>'), NOTHING], NONE, id='not JSON'),
        pytest.param([(500, 'oops'), BOTH[0]], ALL, id='failed, but saved'),
        pytest.param([(500, 'oops'), (500, '')], UNKNOWN, id='failed, unreadable'),
        pytest.param(
            [LOST, NOTHING, (500, ''), NOTHING], UNKNOWN, id='lost, then failed'
        ),
        pytest.param([BUSY, SAVED], ALL, id='a provider changed once'),
        pytest.param([BUSY, BUSY], NONE, id='a provider changed twice'),
        pytest.param([LOST, *BOTH], ALL, id='lost, and saved'),
        pytest.param([(504, ''), *BOTH], ALL, id='lost behind a gateway'),
        pytest.param([LOST, NOTHING, SAVED], ALL, id='lost, and saved later'),
        pytest.param([LOST, NOTHING, CHANGED, *BOTH], ALL, id='saved too late'),
        pytest.param([LOST, (500, ''), SAVED], ALL, id='lost, unreadable, saved'),
        pytest.param(
            [LOST, holds('one'), NOTHING, SAVED], ALL, id='lost, and partly seen'
        ),
        pytest.param([LOST, NOTHING, LOST, *BOTH], ALL, id='lost twice, and saved'),
        pytest.param([LOST, NOTHING, LOST, NOTHING], UNKNOWN, id='lost twice'),
        pytest.param([LOST, NOTHING, FULL], UNKNOWN, id='lost, and no room'),
        pytest.param([LOST, NOTHING, AWAY, AWAY], UNKNOWN, id='lost, then not there'),
        pytest.param(
            [LOST, NOTHING, CHANGED, holds('one', 1)], UNKNOWN, id='somebody else'
        ),
    ],
)
def test_outcome(claiming, answers, expected):
    outcome, _ = claiming(*answers)
    assert kind(outcome) == expected


def test_a_refusal_for_want_of_room_names_the_provider(claiming):
    outcome, _ = claiming(FULL)
    assert (outcome.status, outcome.exhausted) == (409, ('one', 'VCPU'))


def test_what_keystoneauth_sent_twice_is_ours(claiming):
    options = {'connect_retries': 1, 'connect_retry_delay': 0.001}
    outcome, _ = claiming(LOST, CHANGED, *BOTH, **options)
    assert outcome == [Claimed(A), Claimed(B)]


def test_what_may_have_been_sent_twice_is_not_refused_unread(claiming):
    options = {'connect_retries': 1, 'connect_retry_delay': 0.001}
    outcome, _ = claiming(LOST, CHANGED, holds('one'), (500, ''), **options)
    assert kind(outcome) == UNKNOWN
