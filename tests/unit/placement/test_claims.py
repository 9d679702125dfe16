# SPDX-License-Identifier: Apache-2.0
"""Claims for one consumer and for several at once, answer by answer."""

from __future__ import annotations

import pytest
import requests

from novasched import errors, http
from novasched.placement.client import PlacementClient
from novasched.ports import Claimed, ClaimRefused, ClaimRequest, ClaimUnknown
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
        pytest.param([FULL], ClaimRefused, id='no room'),
        pytest.param(
            [(503, '<html>sorry</html>'), NOTHING], ClaimRefused, id='not JSON'
        ),
        pytest.param(
            [(400, {'errors': [{}]})], ClaimRefused, id='an error without a code'
        ),
        pytest.param(
            [(500, {'oops': []}), NOTHING], ClaimRefused, id='JSON of another'
        ),
        pytest.param([(500, ''), held(1, new=2)], Claimed, id='failed, but saved'),
        pytest.param([(503, ''), (500, '')], ClaimUnknown, id='failed, and unreadable'),
        pytest.param(
            [(500, ''), held(3, old=1)], ClaimRefused, id='failed, held before'
        ),
        pytest.param(
            [CHANGED, held(3, old=1), (500, ''), held(4, old=1, new=2)],
            Claimed,
            id='added to what was held, failed, but saved',
        ),
        pytest.param([BUSY, SAVED], Claimed, id='a provider changed once'),
        pytest.param([BUSY, BUSY], ClaimRefused, id='a provider changed twice'),
        pytest.param([BUSY, FULL], ClaimRefused, id='a provider changed and is full'),
        pytest.param([CHANGED, NOTHING, SAVED], Claimed, id='just removed'),
        pytest.param([CHANGED, (500, '')], ClaimRefused, id='changed, and unreadable'),
        pytest.param([CHANGED, (200, '?')], ClaimRefused, id='changed, and not JSON'),
        pytest.param([LOST, held(1, new=2)], Claimed, id='lost, and saved'),
        pytest.param([(504, ''), held(1, new=2)], Claimed, id='lost behind a gateway'),
        pytest.param([LOST, NOTHING, SAVED], Claimed, id='lost, and saved later'),
        pytest.param(
            [LOST, NOTHING, CHANGED, held(1, new=2)], Claimed, id='lost, saved too late'
        ),
        pytest.param([LOST, NOTHING, FULL], ClaimUnknown, id='lost, and no room'),
        pytest.param([LOST, held(3, old=1), FULL], ClaimRefused, id='lost and barred'),
        pytest.param(
            [CHANGED, held(3, old=1), LOST, held(3, old=1), FULL],
            ClaimUnknown,
            id='lost, not barred, and no room',
        ),
        pytest.param(
            [LOST, (200, {'allocations': ['x']})], ClaimUnknown, id='lost, and nonsense'
        ),
        pytest.param([LOST, held('x', new=2)], ClaimUnknown, id='lost, no generation'),
        pytest.param(
            [LOST, NOTHING, LOST, held(1, new=2)], Claimed, id='lost twice, and saved'
        ),
        pytest.param([LOST, NOTHING, LOST, NOTHING], ClaimUnknown, id='lost twice'),
        pytest.param(
            [LOST, NOTHING, (503, ''), NOTHING], ClaimUnknown, id='lost, then gone'
        ),
        pytest.param(
            [LOST, NOTHING, (503, ''), held(1, new=2)], Claimed, id='lost, then there'
        ),
        pytest.param([LOST, (500, '')], ClaimUnknown, id='lost, and unreadable'),
        pytest.param([LOST, LOST], ClaimUnknown, id='lost, and silent'),
        pytest.param(
            [LOST, NOTHING, CHANGED, (500, '')],
            ClaimUnknown,
            id='lost, changed, unreadable',
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
        pytest.param([AWAY, AWAY], ClaimRefused, id='placement is not there'),
        pytest.param(
            [LOST, NOTHING, AWAY, AWAY],
            ClaimUnknown,
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
    assert outcome == ClaimRefused(503, 'sorry')
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
    assert isinstance(outcome, ClaimUnknown)


def test_of_a_page_only_the_begin_is_kept(claiming, caplog):
    refused, _ = claiming((400, '<html>' + 10_000 * 'x'))
    assert len(refused.text) == http.LONGEST_EXCERPT
    assert len(caplog.records[-1].message) < 2 * http.LONGEST_EXCERPT


A, B = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab')
JOINT_TEXT = (
    'Unable to allocate inventory: Unable to create allocation for '
    "'VCPU' on resource provider 'one'. The requested amount would exceed the capacity."
)


def problem(code, detail):
    return 409, {'errors': [{'code': f'placement.{code}', 'detail': detail}]}


JOINT_FULL = problem('undefined_code', JOINT_TEXT)
JOINT_CHANGED = problem(
    'concurrent_update', 'consumer generation conflict - expected 1'
)
JOINT_BUSY = problem('concurrent_update', 'Inventory and/or allocations changed while')


def candidate(provider):
    return {
        'allocations': {provider: {'resources': {'VCPU': 2}}},
        'mappings': {'': [provider]},
    }


WANTED = [ClaimRequest(A, candidate('one')), ClaimRequest(B, candidate('two'))]


def holds(provider, amount=2):
    return 200, {
        'allocations': {provider: {'resources': {'VCPU': amount}, 'generation': 1}},
        'consumer_generation': 1,
        'project_id': 'p',
        'user_id': 'u',
    }


BOTH = [holds('one'), holds('two')]


@pytest.fixture
def claiming_all(scripted, context):
    """Return a function that claims with prepared answers, all of which it needs."""

    def run(*answers, **options):
        adapter, script = scripted(*answers, **options)
        client = PlacementClient(adapter)
        outcome = client.claim_all(context, WANTED, '1.36', 'project', 'user')
        assert not script.answers
        return outcome, script

    return run


def test_it_is_one_post(claiming_all):
    outcome, script = claiming_all(SAVED)
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


ALL_CLAIMED, NONE_CLAIMED, UNKNOWN_CLAIMED = 'all', 'none', 'unknown'


def kind(outcome):
    if isinstance(outcome, ClaimRefused):
        return NONE_CLAIMED
    kinds = {type(claim) for claim in outcome}
    assert len(kinds) == 1
    return ALL_CLAIMED if kinds == {Claimed} else UNKNOWN_CLAIMED


@pytest.mark.parametrize(
    ('answers', 'expected'),
    [
        pytest.param([JOINT_FULL], NONE_CLAIMED, id='no room'),
        pytest.param(
            [JOINT_CHANGED], NONE_CLAIMED, id='a consumer that holds something'
        ),
        pytest.param([AWAY, AWAY], NONE_CLAIMED, id='placement is not there'),
        pytest.param([AWAY, SAVED], ALL_CLAIMED, id='placement is there again'),
        pytest.param([(503, '<html>'), NOTHING], NONE_CLAIMED, id='not JSON'),
        pytest.param([(500, 'oops'), BOTH[0]], ALL_CLAIMED, id='failed, but saved'),
        pytest.param(
            [(500, 'oops'), (500, '')], UNKNOWN_CLAIMED, id='failed, unreadable'
        ),
        pytest.param(
            [LOST, NOTHING, (500, ''), NOTHING], UNKNOWN_CLAIMED, id='lost, then failed'
        ),
        pytest.param([JOINT_BUSY, SAVED], ALL_CLAIMED, id='a provider changed once'),
        pytest.param(
            [JOINT_BUSY, JOINT_BUSY], NONE_CLAIMED, id='a provider changed twice'
        ),
        pytest.param([LOST, *BOTH], ALL_CLAIMED, id='lost, and saved'),
        pytest.param([(504, ''), *BOTH], ALL_CLAIMED, id='lost behind a gateway'),
        pytest.param([LOST, NOTHING, SAVED], ALL_CLAIMED, id='lost, and saved later'),
        pytest.param(
            [LOST, NOTHING, JOINT_CHANGED, *BOTH], ALL_CLAIMED, id='saved too late'
        ),
        pytest.param(
            [LOST, (500, ''), SAVED], ALL_CLAIMED, id='lost, unreadable, saved'
        ),
        pytest.param(
            [LOST, holds('one'), NOTHING, SAVED],
            ALL_CLAIMED,
            id='lost, and partly seen',
        ),
        pytest.param(
            [LOST, NOTHING, LOST, *BOTH], ALL_CLAIMED, id='lost twice, and saved'
        ),
        pytest.param([LOST, NOTHING, LOST, NOTHING], UNKNOWN_CLAIMED, id='lost twice'),
        pytest.param(
            [LOST, NOTHING, JOINT_FULL], UNKNOWN_CLAIMED, id='lost, and no room'
        ),
        pytest.param(
            [LOST, NOTHING, AWAY, AWAY], UNKNOWN_CLAIMED, id='lost, then not there'
        ),
        pytest.param(
            [LOST, NOTHING, JOINT_CHANGED, holds('one', 1)],
            UNKNOWN_CLAIMED,
            id='somebody else',
        ),
    ],
)
def test_joint_outcome(claiming_all, answers, expected):
    outcome, _ = claiming_all(*answers)
    assert kind(outcome) == expected


def test_a_refusal_for_want_of_room_names_the_provider(claiming_all):
    outcome, _ = claiming_all(JOINT_FULL)
    assert (outcome.status, outcome.exhausted) == (409, ('one', 'VCPU'))


def test_what_keystoneauth_sent_twice_is_ours(claiming_all):
    options = {'connect_retries': 1, 'connect_retry_delay': 0.001}
    outcome, _ = claiming_all(LOST, JOINT_CHANGED, *BOTH, **options)
    assert outcome == [Claimed(A), Claimed(B)]


def test_what_may_have_been_sent_twice_is_not_refused_unread(claiming_all):
    options = {'connect_retries': 1, 'connect_retry_delay': 0.001}
    outcome, _ = claiming_all(LOST, JOINT_CHANGED, holds('one'), (500, ''), **options)
    assert kind(outcome) == UNKNOWN_CLAIMED
