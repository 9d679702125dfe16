# SPDX-License-Identifier: Apache-2.0
"""Claims, answer by answer."""

from __future__ import annotations

import pytest
import requests

from novasched import errors
from novasched.placement.client import PlacementClient
from novasched.ports import Claimed, Refused, UndoUnanswered, Unknown

CONSUMER = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
URL = f'/allocations/{CONSUMER}'
CANDIDATE = {
    'allocations': {'new': {'resources': {'VCPU': 2}}},
    'mappings': {'': ['new']},
}
OWNER = {'project_id': 'project', 'user_id': 'user'}
OLD = {
    'allocations': {'old': {'resources': {'VCPU': 1}}},
    'project_id': 'p',
    'user_id': 'u',
}
SAVED = (204, '')
NOTHING = (200, {'allocations': {}})
LOST = requests.ReadTimeout('slow')
AWAY = requests.ConnectTimeout('slow')
FULL = (
    409,
    {
        'errors': [
            {
                'code': 'placement.undefined_code',
                'detail': 'Unable to allocate inventory',
            }
        ]
    },
)


def held(generation, **amounts):
    allocations = {
        provider: {'resources': {'VCPU': amount}, 'generation': 7}
        for provider, amount in amounts.items()
    }
    return 200, {
        'allocations': allocations,
        'consumer_generation': generation,
        'project_id': 'p',
        'user_id': 'u',
    }


def concurrent(detail):
    code = 'placement.concurrent_update'
    return 409, {'errors': [{'code': code, 'detail': detail}]}


CHANGED = concurrent('consumer generation conflict - expected 1 but got None')
BUSY = concurrent('Inventory and/or allocations changed while attempting to allocate')


def claim(adapter, context):
    client = PlacementClient(adapter)
    return client.claim(context, CONSUMER, CANDIDATE, '1.36', 'project', 'user')


@pytest.fixture
def claiming(scripted, context):
    """Return a function that claims with prepared answers, all of which it needs."""

    def run(*answers, **options):
        adapter, script = scripted(*answers, **options)
        outcome = claim(adapter, context)
        assert not script.answers
        return outcome, script

    return run


def test_a_claim_is_one_put(claiming):
    outcome, script = claiming(SAVED)
    assert outcome == Claimed(CONSUMER)
    assert script.asked == [f'PUT {URL}']
    assert script.body(0) == {**CANDIDATE, **OWNER, 'consumer_generation': None}
    version = script.requests[0].headers['OpenStack-API-Version']
    assert version == 'placement 1.36'


def test_what_the_consumer_holds_is_kept(claiming):
    outcome, script = claiming(CHANGED, held(3, old=1), SAVED)
    assert outcome == Claimed(CONSUMER, OLD)
    assert script.asked == [f'PUT {URL}', f'GET {URL}', f'PUT {URL}']
    version = script.requests[1].headers['OpenStack-API-Version']
    assert version == 'placement 1.28'
    assert script.body(2) == {
        'allocations': {**OLD['allocations'], **CANDIDATE['allocations']},
        **OWNER,
        'consumer_generation': 3,
    }


def test_old_amounts_of_a_provider_stay(claiming):
    _, script = claiming(CHANGED, held(3, new=1), SAVED)
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
    got, _ = claiming(*answers)
    assert isinstance(got, outcome)


@pytest.mark.parametrize(
    ('answers', 'before'),
    [
        pytest.param([LOST, NOTHING, SAVED], None, id='nothing'),
        pytest.param([LOST, NOTHING, LOST, LOST], None, id='nothing, unknown'),
        pytest.param([LOST, held(3, old=1), SAVED], OLD, id='something'),
        pytest.param([CHANGED, held(3, old=1), LOST, LOST], OLD, id='unknown'),
    ],
)
def test_what_was_held_before(claiming, answers, before):
    got, _ = claiming(*answers)
    assert got.before == before


def test_the_look_at_what_became_of_a_claim_is_short(claiming):
    _, script = claiming(LOST, held(1, new=2))
    assert [options['timeout'] for options in script.options] == [60, 10.0]


def test_the_first_conflict_of_a_consumer_is_no_warning(claiming, caplog):
    caplog.set_level('DEBUG', 'novasched.placement')
    claiming(CHANGED, held(3, old=1), BUSY, SAVED)
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
        claim(adapter, context)
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


@pytest.fixture
def undoing(scripted, context):
    """Return a function that undoes with prepared answers, all of which it needs."""

    def run(claim, *answers):
        adapter, script = scripted(*answers)
        PlacementClient(adapter).undo(context, claim)
        assert not script.answers
        return script

    return run


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([SAVED], id='removed'),
        pytest.param([(404, '')], id='there is none'),
        pytest.param([(500, ''), SAVED], id='at the second time'),
        pytest.param([LOST, (404, '')], id='already at the first time'),
    ],
)
def test_undo(undoing, answers):
    script = undoing(Claimed(CONSUMER), *answers)
    assert set(script.asked) == {f'DELETE {URL}'}
    assert 'OpenStack-API-Version' not in script.requests[0].headers


def test_undo_restores(undoing):
    script = undoing(Claimed(CONSUMER, OLD), held(4, old=1, new=2), SAVED)
    assert script.asked == [f'GET {URL}', f'PUT {URL}']
    assert script.body(1) == {**OLD, 'consumer_generation': 4}


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([held(4, new=2), CHANGED, held(5, new=2), SAVED], id='changed'),
        pytest.param([(500, ''), held(5, new=2), SAVED], id='unreadable at first'),
        pytest.param([NOTHING], id='the instance is gone meanwhile'),
    ],
)
def test_undo_restores_in_the_end(undoing, answers):
    undoing(Claimed(CONSUMER, OLD), *answers)


@pytest.mark.parametrize(
    ('claim', 'answers'),
    [
        pytest.param(Claimed(CONSUMER), [(500, 'no'), (500, 'no')], id='removing'),
        pytest.param(Claimed(CONSUMER), [(403, 'no')], id='no use in trying again'),
        pytest.param(
            Claimed(CONSUMER, OLD), [LOST, (500, 'no')], id='reading what is held'
        ),
    ],
)
def test_undo_fails(undoing, caplog, claim, answers):
    with pytest.raises(errors.AllocationDeleteFailed, match='Error: no') as raised:
        undoing(claim, *answers)
    assert not isinstance(raised.value, UndoUnanswered)
    status = answers[-1][0]
    assert caplog.records[-1].message == (
        f'Unable to delete allocation for instance {CONSUMER}: ({status} no)'
    )


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([NOTHING], ['GET'], id='not claimed'),
        pytest.param([held(1, new=2), SAVED], ['GET', 'DELETE'], id='claimed'),
        pytest.param([held(1, old=1)], ['GET'], id='what was held all along stays'),
        pytest.param(
            [(500, ''), held(1, new=2), SAVED],
            ['GET', 'GET', 'DELETE'],
            id='unreadable',
        ),
    ],
)
def test_undo_what_nobody_knows(claiming, undoing, answers, asked):
    unknown, _ = claiming(LOST, (500, ''))
    script = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


def test_undo_gets_no_answer(undoing):
    with pytest.raises(UndoUnanswered):
        undoing(Claimed(CONSUMER), LOST, LOST)


def test_undo_has_an_end(scripted, context):
    adapter, script = scripted(LOST, LOST)
    client = PlacementClient(adapter)
    with pytest.raises(UndoUnanswered):
        client.undo(context, Claimed(CONSUMER, OLD), 0.0)
    assert script.asked == [f'GET {URL}']
    assert script.options[0]['timeout'] < 1


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(4, old=1, new=2), SAVED], ['GET', 'PUT'], id='claimed'),
        pytest.param([held(3, old=1), SAVED], ['GET', 'PUT'], id='bar a late one'),
        pytest.param([held(5, newer=3)], ['GET'], id='claimed anew by somebody else'),
    ],
)
def test_restore_after_what_nobody_knows(claiming, undoing, answers, asked):
    unknown, _ = claiming(CHANGED, held(3, old=1), LOST, (500, ''))
    assert isinstance(unknown, Unknown)
    script = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


def test_undo_what_was_claimed_by_the_word_of_a_journal(undoing):
    script = undoing(Unknown(CONSUMER, 'found in the journal'), SAVED)
    assert script.asked == [f'DELETE {URL}']


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(1, new=2), SAVED], ['GET', 'DELETE'], id='ours'),
        pytest.param([held(5, new=1)], ['GET'], id='claimed anew by somebody else'),
        pytest.param([NOTHING], ['GET'], id='removed already'),
        pytest.param([(500, ''), SAVED], ['GET', 'DELETE'], id='unreadable'),
    ],
)
def test_undo_only_what_we_claimed(claiming, undoing, answers, asked):
    claimed, _ = claiming(SAVED)
    script = undoing(claimed, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(4, old=1, new=2), SAVED], ['GET', 'PUT'], id='ours'),
        pytest.param([held(5, newer=2)], ['GET'], id='moved on by somebody else'),
    ],
)
def test_restore_only_after_what_we_claimed(claiming, undoing, answers, asked):
    claimed, _ = claiming(CHANGED, held(3, old=1), SAVED)
    script = undoing(claimed, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]
