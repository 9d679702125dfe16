# SPDX-License-Identifier: Apache-2.0
"""Claims for one consumer and for several at once, answer by answer."""

from __future__ import annotations

import pytest

from novasched import errors, http
from novasched.placement.client import PlacementClient
from novasched.ports import Claimed, ClaimRefused, ClaimRequest, ClaimUnknown
from tests.support.tables.cases import cases
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


def test_claim_keeps_earlier_allocations_of_the_consumer(claiming):
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


@cases(
    'answers, outcome',
    ('no room', [FULL], ClaimRefused),
    ('not JSON', [(503, '<html>sorry</html>'), NOTHING], ClaimRefused),
    ('an error without a code', [(400, {'errors': [{}]})], ClaimRefused),
    ('JSON of another', [(500, {'oops': []}), NOTHING], ClaimRefused),
    ('failed, but saved', [(500, ''), held(1, new=2)], Claimed),
    ('failed, and unreadable', [(503, ''), (500, '')], ClaimUnknown),
    ('failed, held before', [(500, ''), held(3, old=1)], ClaimRefused),
    (
        'added to what was held, failed, but saved',
        [CHANGED, held(3, old=1), (500, ''), held(4, old=1, new=2)],
        Claimed,
    ),
    ('a provider changed once', [BUSY, SAVED], Claimed),
    ('a provider changed twice', [BUSY, BUSY], ClaimRefused),
    ('a provider changed and is full', [BUSY, FULL], ClaimRefused),
    ('just removed', [CHANGED, NOTHING, SAVED], Claimed),
    ('changed, and unreadable', [CHANGED, (500, '')], ClaimRefused),
    ('changed, and not JSON', [CHANGED, (200, '?')], ClaimRefused),
    ('lost, and saved', [LOST, held(1, new=2)], Claimed),
    ('lost behind a gateway', [(504, ''), held(1, new=2)], Claimed),
    ('lost, and saved later', [LOST, NOTHING, SAVED], Claimed),
    ('lost, saved too late', [LOST, NOTHING, CHANGED, held(1, new=2)], Claimed),
    (
        'lost, and being written',
        [LOST, NOTHING, CHANGED, NOTHING, CHANGED, NOTHING],
        ClaimUnknown,
    ),
    ('lost, and no room', [LOST, NOTHING, FULL], ClaimUnknown),
    ('lost and barred', [LOST, held(3, old=1), FULL], ClaimRefused),
    (
        'lost, not barred, and no room',
        [CHANGED, held(3, old=1), LOST, held(3, old=1), FULL],
        ClaimUnknown,
    ),
    ('lost, and nonsense', [LOST, (200, {'allocations': ['x']})], ClaimUnknown),
    ('lost, no generation', [LOST, held('x', new=2)], ClaimUnknown),
    ('lost twice, and saved', [LOST, NOTHING, LOST, held(1, new=2)], Claimed),
    ('lost twice', [LOST, NOTHING, LOST, NOTHING], ClaimUnknown),
    ('lost, then gone', [LOST, NOTHING, (503, ''), NOTHING], ClaimUnknown),
    ('lost, then there', [LOST, NOTHING, (503, ''), held(1, new=2)], Claimed),
    ('lost, and unreadable', [LOST, (500, '')], ClaimUnknown),
    ('lost, and silent', [LOST, LOST], ClaimUnknown),
    (
        'lost, changed, unreadable',
        [LOST, NOTHING, CHANGED, (500, '')],
        ClaimUnknown,
    ),
    (
        'added to what was held, lost, and saved',
        [CHANGED, held(3, old=1), LOST, held(4, old=1, new=2)],
        Claimed,
    ),
    ('lost, and something was held', [LOST, held(3, old=1), SAVED], Claimed),
    (
        'everything, once',
        [CHANGED, held(1, old=1), BUSY, LOST, held(1, old=1), SAVED],
        Claimed,
    ),
    ('placement is not there', [AWAY, AWAY], ClaimRefused),
    (
        'lost, then placement is not there',
        [LOST, NOTHING, AWAY, AWAY],
        ClaimUnknown,
    ),
)
def test_outcome(claiming, answers, outcome):
    got, _ = claiming(*answers, adds=True)
    assert isinstance(got, outcome)


@cases(
    'answers',
    ('another host', [LOST, held(1, old=1)]),
    ('the same, twice', [LOST, held(2, new=2)]),
    ('another host, at the second time', [LOST, NOTHING, CHANGED, held(1, old=1)]),
)
def test_allocations_read_after_a_lost_claim_do_not_settle_it(
    scripted, context, answers
):
    """What is held may be undone before the lost claim arrives."""
    adapter, script = scripted(*answers)
    assert isinstance(claim(adapter, context), ClaimUnknown)
    assert script.asked == [f'PUT {URL}', f'GET {URL}'] * (len(answers) // 2)


@cases(
    'answers',
    ('another host', [CHANGED, held(1, old=1)]),
    ('the same, by another claim', [CHANGED, held(1, new=2)]),
)
def test_only_a_move_adds_to_what_is_held(scripted, context, answers):
    adapter, script = scripted(*answers)
    with pytest.raises(errors.AlreadyClaimed, match='delivered twice'):
        claim(adapter, context)
    assert script.asked == [f'PUT {URL}', f'GET {URL}']


@cases(
    'answers, before, generation',
    ('nothing', [SAVED], NONE, 1),
    ('nothing, at the second time', [LOST, NOTHING, SAVED], NONE, 1),
    ('nothing, looked up', [LOST, held(1, new=2)], NONE, 1),
    ('nothing, unknown', [LOST, NOTHING, LOST, LOST], NONE, 1),
    ('something', [LOST, held(3, old=1), SAVED], OLD, 4),
    ('unknown', [CHANGED, held(3, old=1), LOST, LOST], OLD, 4),
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
    assert outcome == ClaimRefused(503, 'sorry', is_unavailable=True)
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
def test_refusal_names_the_exhausted_provider(claiming, status, detail, exhausted):
    error = {'code': 'placement.undefined_code', 'detail': detail}
    outcome, _ = claiming((status, {'errors': [error]}))
    assert (outcome.status, outcome.exhausted) == (status, exhausted)


@cases(
    'answers',
    ('holds it', [CHANGED, held(3, old=1), CHANGED, held(4, old=1)]),
    ('holds nothing', [CHANGED, NOTHING, CHANGED, NOTHING]),
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


def test_an_earlier_claim_that_arrives_between_two_looks_is_found(scripted, context):
    adapter, _ = scripted(CHANGED, NOTHING, CHANGED, held(1, old=1))
    with pytest.raises(errors.AlreadyClaimed):
        claim(adapter, context)


AGAIN = {'connect_retries': 1, 'connect_retry_delay': 0.001}


@cases(
    'answers, outcome',
    ('it is ours', [LOST, CHANGED, held(1, new=2)], Claimed),
    ('it is not refused unread', [LOST, CHANGED, (500, '')], ClaimUnknown),
)
def test_a_claim_that_keystoneauth_may_have_sent_twice(claiming, answers, outcome):
    got, _ = claiming(*answers, **AGAIN)
    assert isinstance(got, outcome)


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


@cases(
    'answers, expected',
    ('no room', [JOINT_FULL], NONE_CLAIMED),
    ('a consumer that holds something', [JOINT_CHANGED], NONE_CLAIMED),
    ('placement is not there', [AWAY, AWAY], NONE_CLAIMED),
    ('placement is there again', [AWAY, SAVED], ALL_CLAIMED),
    ('not JSON', [(503, '<html>'), NOTHING], NONE_CLAIMED),
    ('failed, but saved', [(500, 'oops'), BOTH[0]], ALL_CLAIMED),
    ('failed, unreadable', [(500, 'oops'), (500, '')], UNKNOWN_CLAIMED),
    ('lost, then failed', [LOST, NOTHING, (500, ''), NOTHING], UNKNOWN_CLAIMED),
    ('a provider changed once', [JOINT_BUSY, SAVED], ALL_CLAIMED),
    ('a provider changed twice', [JOINT_BUSY, JOINT_BUSY], NONE_CLAIMED),
    ('lost, and saved', [LOST, *BOTH], ALL_CLAIMED),
    ('lost behind a gateway', [(504, ''), *BOTH], ALL_CLAIMED),
    ('lost, and saved later', [LOST, NOTHING, SAVED], ALL_CLAIMED),
    ('saved too late', [LOST, NOTHING, JOINT_CHANGED, *BOTH], ALL_CLAIMED),
    ('lost, unreadable, saved', [LOST, (500, ''), SAVED], ALL_CLAIMED),
    ('lost, and partly seen', [LOST, holds('one'), NOTHING, SAVED], ALL_CLAIMED),
    ('lost twice, and saved', [LOST, NOTHING, LOST, *BOTH], ALL_CLAIMED),
    ('lost twice', [LOST, NOTHING, LOST, NOTHING], UNKNOWN_CLAIMED),
    ('lost, and no room', [LOST, NOTHING, JOINT_FULL], UNKNOWN_CLAIMED),
    ('lost, then not there', [LOST, NOTHING, AWAY, AWAY], UNKNOWN_CLAIMED),
    (
        'somebody else',
        [LOST, NOTHING, JOINT_CHANGED, holds('one', 1)],
        UNKNOWN_CLAIMED,
    ),
)
def test_joint_outcome(claiming_all, answers, expected):
    outcome, _ = claiming_all(*answers)
    assert kind(outcome) == expected


def test_a_refusal_for_want_of_room_names_the_provider(claiming_all):
    outcome, _ = claiming_all(JOINT_FULL)
    assert (outcome.status, outcome.exhausted) == (409, ('one', 'VCPU'))


@cases(
    'answers, expected',
    ('they are ours', [LOST, JOINT_CHANGED, *BOTH], ALL_CLAIMED),
    (
        'they are not refused unread',
        [LOST, JOINT_CHANGED, holds('one'), (500, '')],
        UNKNOWN_CLAIMED,
    ),
)
def test_joint_claim_sent_twice_by_keystoneauth_is_recognised(
    claiming_all, answers, expected
):
    outcome, _ = claiming_all(*answers, **AGAIN)
    assert kind(outcome) == expected
