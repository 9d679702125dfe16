# SPDX-License-Identifier: Apache-2.0
"""Claims, answer by answer."""

from __future__ import annotations

import pytest
import requests

from novasched import errors, http
from novasched.ports import Claimed, Refused, Unknown
from tests.unit.placement.answers import (
    AWAY,
    BUSY,
    CANDIDATE,
    CHANGED,
    CONSUMER,
    FULL,
    LOST,
    NOTHING,
    OLD,
    OWNER,
    SAVED,
    URL,
    claim,
    held,
)

NONE = {'allocations': {}, **OWNER}


def test_a_claim_is_one_put(claiming):
    outcome, script = claiming(SAVED)
    assert outcome == Claimed(CONSUMER)
    assert script.asked == [f'PUT {URL}']
    assert script.body(0) == {**CANDIDATE, **OWNER, 'consumer_generation': None}
    version = script.requests[0].headers['OpenStack-API-Version']
    assert version == 'placement 1.36'


def test_what_the_consumer_holds_is_kept(claiming):
    outcome, script = claiming(CHANGED, held(3, old=1), SAVED, adds=True)
    assert outcome == Claimed(CONSUMER)
    assert script.asked == [f'PUT {URL}', f'GET {URL}', f'PUT {URL}']
    version = script.requests[1].headers['OpenStack-API-Version']
    assert version == 'placement 1.28'
    assert script.body(2) == {
        'allocations': {**OLD['allocations'], **CANDIDATE['allocations']},
        **OWNER,
        'consumer_generation': 3,
    }


def test_old_amounts_of_a_provider_stay(claiming):
    _, script = claiming(CHANGED, held(3, new=1), SAVED, adds=True)
    assert script.body(2)['allocations'] == {'new': {'resources': {'VCPU': 1}}}


@pytest.mark.parametrize(
    ('answers', 'outcome'),
    [
        pytest.param([FULL], Refused, id='no room'),
        pytest.param([(503, '<html>sorry</html>'), NOTHING], Refused, id='not JSON'),
        pytest.param([(400, {'errors': [{}]})], Refused, id='an error without a code'),
        pytest.param([(500, {'oops': []}), NOTHING], Refused, id='JSON of another'),
        pytest.param([(500, ''), held(1, new=2)], Claimed, id='failed, but saved'),
        pytest.param([(503, ''), (500, '')], Unknown, id='failed, and unreadable'),
        pytest.param([(500, ''), held(3, old=1)], Refused, id='failed, held before'),
        pytest.param(
            [CHANGED, held(3, old=1), (500, ''), held(4, old=1, new=2)],
            Claimed,
            id='added to what was held, failed, but saved',
        ),
        pytest.param([BUSY, SAVED], Claimed, id='a provider changed once'),
        pytest.param([BUSY, BUSY], Refused, id='a provider changed twice'),
        pytest.param([BUSY, FULL], Refused, id='a provider changed and is full'),
        pytest.param([CHANGED, NOTHING, SAVED], Claimed, id='just removed'),
        pytest.param([CHANGED, (500, '')], Refused, id='changed, and unreadable'),
        pytest.param([CHANGED, (200, '?')], Refused, id='changed, and not JSON'),
        pytest.param([LOST, held(1, new=2)], Claimed, id='lost, and saved'),
        pytest.param([(504, ''), held(1, new=2)], Claimed, id='lost behind a gateway'),
        pytest.param([LOST, NOTHING, SAVED], Claimed, id='lost, and saved later'),
        pytest.param(
            [LOST, NOTHING, CHANGED, held(1, new=2)], Claimed, id='lost, saved too late'
        ),
        pytest.param([LOST, NOTHING, FULL], Unknown, id='lost, and no room'),
        pytest.param([LOST, held(3, old=1), FULL], Refused, id='lost and barred'),
        pytest.param(
            [CHANGED, held(3, old=1), LOST, held(3, old=1), FULL],
            Unknown,
            id='lost, not barred, and no room',
        ),
        pytest.param(
            [LOST, (200, {'allocations': ['x']})], Unknown, id='lost, and nonsense'
        ),
        pytest.param([LOST, held('x', new=2)], Unknown, id='lost, no generation'),
        pytest.param(
            [LOST, NOTHING, LOST, held(1, new=2)], Claimed, id='lost twice, and saved'
        ),
        pytest.param([LOST, NOTHING, LOST, NOTHING], Unknown, id='lost twice'),
        pytest.param(
            [LOST, NOTHING, (503, ''), NOTHING], Unknown, id='lost, then gone'
        ),
        pytest.param(
            [LOST, NOTHING, (503, ''), held(1, new=2)], Claimed, id='lost, then there'
        ),
        pytest.param([LOST, (500, '')], Unknown, id='lost, and unreadable'),
        pytest.param([LOST, LOST], Unknown, id='lost, and silent'),
        pytest.param(
            [LOST, NOTHING, CHANGED, (500, '')], Unknown, id='lost, changed, unreadable'
        ),
        pytest.param(
            [CHANGED, held(3, old=1), LOST, held(4, old=1, new=2)],
            Claimed,
            id='added to what was held, lost, and saved',
        ),
        pytest.param(
            [LOST, held(3, old=1), SAVED], Claimed, id='lost, and something was held'
        ),
        pytest.param(
            [CHANGED, held(1, old=1), BUSY, LOST, held(1, old=1), SAVED],
            Claimed,
            id='everything, once',
        ),
        pytest.param([AWAY, AWAY], Refused, id='placement is not there'),
        pytest.param(
            [LOST, NOTHING, AWAY, AWAY],
            Unknown,
            id='lost, then placement is not there',
        ),
    ],
)
def test_outcome(claiming, answers, outcome):
    got, _ = claiming(*answers, adds=True)
    assert isinstance(got, outcome)


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([CHANGED, held(1, old=1)], id='another host'),
        pytest.param([CHANGED, held(1, new=2)], id='the same, by another claim'),
        pytest.param([LOST, held(1, old=1)], id='another host, after a lost claim'),
        pytest.param([LOST, held(2, new=2)], id='the same, claimed again'),
    ],
)
def test_only_a_move_adds_to_what_is_held(scripted, context, answers):
    adapter, script = scripted(*answers)
    with pytest.raises(errors.AlreadyClaimed, match='delivered twice'):
        claim(adapter, context)
    assert script.asked == [f'PUT {URL}', f'GET {URL}']


@pytest.mark.parametrize(
    ('answers', 'before', 'generation'),
    [
        pytest.param([SAVED], NONE, 1, id='nothing'),
        pytest.param([LOST, NOTHING, SAVED], NONE, 1, id='nothing, at the second time'),
        pytest.param([LOST, held(1, new=2)], NONE, 1, id='nothing, looked up'),
        pytest.param([LOST, NOTHING, LOST, LOST], NONE, 1, id='nothing, unknown'),
        pytest.param([LOST, held(3, old=1), SAVED], OLD, 4, id='something'),
        pytest.param([CHANGED, held(3, old=1), LOST, LOST], OLD, 4, id='unknown'),
    ],
)
def test_undoing_restores_what_was_held_at_the_generation_of_the_claim(
    claiming, answers, before, generation
):
    got, _ = claiming(*answers, adds=True)
    assert got.undo == {**before, 'consumer_generation': generation}


def test_the_look_at_what_became_of_a_claim_is_short(claiming):
    _, script = claiming(LOST, held(1, new=2))
    assert [options['timeout'] for options in script.options] == [60, 10.0]


def test_the_first_conflict_of_a_consumer_is_no_warning(claiming, caplog):
    caplog.set_level('DEBUG', 'novasched.placement')
    claiming(CHANGED, held(3, old=1), BUSY, SAVED, adds=True)
    said = [
        r.levelname for r in caplog.records if r.message.startswith('Failed to save')
    ]
    assert said == ['DEBUG', 'WARNING']


def test_placements_words_come_back(claiming, caplog):
    outcome, _ = claiming((503, 'sorry'), NOTHING)
    assert outcome == Refused(503, 'sorry')
    assert [r.message for r in caplog.records if r.levelname == 'WARNING'] == [
        f'Failed to save allocation for {CONSUMER}. Got HTTP 503: sorry'
    ]


EXCEEDS = (
    "Unable to create allocation for 'VCPU' on resource provider 'new'. "
    'The requested amount would exceed the capacity.'
)


@pytest.mark.parametrize(
    ('status', 'detail', 'exhausted'),
    [
        pytest.param(409, EXCEEDS, ('new', 'VCPU'), id='no room'),
        pytest.param(400, EXCEEDS, None, id='an error that looks like it'),
        pytest.param(
            409, "Inventory for 'VCPU' on resource provider 'new' invalid.", None
        ),
    ],
)
def test_who_has_no_room_is_told(claiming, status, detail, exhausted):
    error = {'code': 'placement.undefined_code', 'detail': detail}
    outcome, _ = claiming((status, {'errors': [error]}))
    assert (outcome.status, outcome.exhausted) == (status, exhausted)


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([CHANGED, held(3, old=1), CHANGED, held(4, old=1)], id='holds it'),
        pytest.param([CHANGED, NOTHING, CHANGED, NOTHING], id='holds nothing'),
    ],
)
def test_somebody_else_changes_the_consumer(scripted, context, answers):
    adapter, _ = scripted(*answers)
    with pytest.raises(errors.AllocationUpdateFailed) as caught:
        claim(adapter, context, adds=True)
    assert str(caught.value) == (
        f'Failed to update allocations for consumer {CONSUMER}. Error: another '
        f'process changed the consumer {CONSUMER} after the report client read the '
        'consumer state during the claim '
    )


def test_a_claim_that_keystoneauth_sent_twice_is_ours(claiming):
    outcome, _ = claiming(
        requests.ReadTimeout('slow'),
        CHANGED,
        held(1, new=2),
        connect_retries=1,
        connect_retry_delay=0.001,
    )
    assert outcome == Claimed(CONSUMER)


def test_one_that_may_have_been_sent_twice_is_not_refused_unread(claiming):
    options = {'connect_retries': 1, 'connect_retry_delay': 0.001}
    outcome, _ = claiming(LOST, CHANGED, (500, ''), **options)
    assert isinstance(outcome, Unknown)


def test_of_a_page_only_the_begin_is_kept(claiming, caplog):
    refused, _ = claiming((400, '<html>' + 10_000 * 'x'))
    assert len(refused.text) == http.LONGEST_EXCERPT
    assert len(caplog.records[-1].message) < 2 * http.LONGEST_EXCERPT
