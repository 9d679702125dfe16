# SPDX-License-Identifier: Apache-2.0
"""Exactly what the journal names is taken back, or nothing."""

from __future__ import annotations

import email.utils

import pytest
import requests

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import claim_recovery
from novasched.ports import UndoOutcome, UndoUnanswered
from tests.unit.placement import answers

CONSUMER = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
URL = f'/allocations/{CONSUMER}'
HOLDS = {'new': {'VCPU': 2}}
BEFORE = {
    'allocations': {'old': {'resources': {'VCPU': 1}}},
    'project_id': 'p',
    'user_id': 'u',
}
SAVED = (204, '')
NOTHING = (200, {'allocations': {}})
LOST = requests.ReadTimeout('slow')


def held(age_s=None, **amounts):
    status, body, headers = answers.held(3, age_s, **amounts)
    return status, {**body, 'project_id': 'project', 'user_id': 'user'}, headers


def undo(adapter, holds=HOLDS, before=None, generation=2, ages_s=(0.0, 30.0)):
    recovery = claim_recovery(adapter)
    return recovery.undo(CONSUMER, holds, before, generation, ages_s)


def test_a_claim_goes_with_the_generation_that_was_read(scripted):
    adapter, script = scripted(held(new=2), SAVED)
    assert undo(adapter) is UndoOutcome.UNDONE
    assert script.asked == [f'GET {URL}', f'PUT {URL}']
    assert script.body(1) == {
        'allocations': {},
        'project_id': 'project',
        'user_id': 'user',
        'consumer_generation': 3,
    }


def test_what_was_held_before_is_restored(scripted):
    adapter, script = scripted(held(new=2, old=1), SAVED)
    outcome = undo(adapter, {**HOLDS, 'old': {'VCPU': 1}}, BEFORE)
    assert outcome is UndoOutcome.UNDONE
    assert script.body(1) == {**BEFORE, 'consumer_generation': 3}


@pytest.mark.parametrize(
    'answer',
    [
        pytest.param(NOTHING, id='it holds nothing'),
        pytest.param(held(new=1), id='it holds less'),
        pytest.param(held(new=2, other=1), id='it holds more'),
    ],
)
def test_what_is_held_otherwise_is_left(scripted, answer):
    adapter, script = scripted(answer)
    assert undo(adapter) is UndoOutcome.ABSENT
    assert script.asked == [f'GET {URL}']


@pytest.mark.parametrize(
    'generation',
    [
        pytest.param(None, id='the same claimed anew for a new consumer'),
        pytest.param(1, id='the same move made again'),
        pytest.param(3, id='the claim has not arrived'),
    ],
)
def test_what_another_claimed_on_top_of_it_is_left(scripted, generation):
    adapter, script = scripted(held(new=2))
    assert undo(adapter, generation=generation) is UndoOutcome.ABSENT
    assert script.asked == [f'GET {URL}']


def test_the_first_claim_of_a_consumer_is_taken_back(scripted):
    adapter, _ = scripted(answers.held(1, new=2), SAVED)
    assert undo(adapter, generation=None) is UndoOutcome.UNDONE


def test_nothing_is_never_taken_back(scripted):
    adapter, _ = scripted(NOTHING)
    assert undo(adapter, {}, generation=None) is UndoOutcome.ABSENT


def test_who_changed_it_meanwhile_keeps_it(scripted):
    adapter, _ = scripted(held(new=2), (409, 'changed'))
    assert undo(adapter) is UndoOutcome.CONFLICT


@pytest.mark.parametrize(
    ('answers', 'kind'),
    [
        pytest.param([(500, 'x')], errors.AllocationDeleteFailed, id='no reading'),
        pytest.param([LOST], UndoUnanswered, id='no answer to reading'),
        pytest.param(
            [held(new=2), (500, 'x')], errors.AllocationDeleteFailed, id='no writing'
        ),
        pytest.param([held(new=2), LOST], UndoUnanswered, id='no answer to writing'),
    ],
)
def test_where_placement_does_not_it_is_an_error(scripted, answers, kind):
    adapter, _ = scripted(*answers)
    with pytest.raises(kind) as raised:
        undo(adapter)
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ('age_s', 'ages_s', 'outcome'),
    [
        pytest.param(40, (30.0, 50.0), 'UNDONE', id='of its time'),
        pytest.param(28, (30.0, 50.0), 'UNDONE', id='late by what seconds hide'),
        pytest.param(27, (30.0, 50.0), 'OTHER', id='of a later request'),
        pytest.param(52, (30.0, 50.0), 'UNDONE', id='early by what seconds hide'),
        pytest.param(53, (30.0, 50.0), 'OTHER', id='of an earlier request'),
        pytest.param(None, (-5.0, 20.0), 'UNDONE', id='unknown, its caller waits'),
        pytest.param(None, (5.0, 30.0), 'OTHER', id='unknown, its caller may not'),
    ],
)
def test_a_claim_of_another_time_is_left(scripted, age_s, ages_s, outcome):
    adapter, script = scripted(held(age_s, new=2), SAVED)
    assert undo(adapter, ages_s=ages_s) is UndoOutcome[outcome]
    assert len(script.asked) == (2 if outcome == 'UNDONE' else 1)


@pytest.mark.parametrize(
    'headers',
    [
        pytest.param({'Last-Modified': 'yesterday'}, id='no date'),
        pytest.param({'Last-Modified': '1 Jan 999999 1:1:1'}, id='a date beyond all'),
    ],
)
def test_an_age_that_is_none_is_unknown(scripted, headers):
    adapter, _ = scripted((*answers.held(3, new=2)[:2], headers))
    assert undo(adapter, ages_s=(5.0, 30.0)) is UndoOutcome.OTHER


def test_without_a_date_the_age_is_by_our_clock(scripted):
    modified = email.utils.formatdate(SYSTEM_CLOCK.time() - 40, usegmt=True)
    status, body, _ = held(new=2)
    adapter, _ = scripted((status, body, {'Last-Modified': modified}), SAVED)
    assert undo(adapter, ages_s=(30.0, 50.0)) is UndoOutcome.UNDONE


def test_placement_is_waited_for_no_longer_than_usual(scripted):
    adapter, script = scripted(held(new=2), SAVED)
    undo(adapter)
    assert [each['timeout'] for each in script.options] == [10.0, 10.0]


@pytest.mark.parametrize(
    ('answer', 'kind'),
    [
        pytest.param((503, 'x'), errors.AllocationDeleteFailed, id='of an answer'),
        pytest.param(requests.ConnectionError('x'), UndoUnanswered, id='of none'),
    ],
)
def test_nothing_is_written_again_in_spite_of_the_options(scripted, answer, kind):
    again = {'connect_retries': 3, 'status_code_retries': 3}
    adapter, script = scripted(held(new=2), answer, **again)
    with pytest.raises(kind):
        undo(adapter)
    assert script.asked == [f'GET {URL}', f'PUT {URL}']


@pytest.mark.parametrize(
    ('answer', 'generation', 'expected'),
    [
        pytest.param(held(new=2), 2, True, id='as it was claimed'),
        pytest.param(held(new=2), 1, False, id='claimed again since'),
        pytest.param(held(new=1), 2, False, id='less of it'),
        pytest.param(NOTHING, 2, False, id='nothing'),
    ],
)
def test_a_claim_stands(scripted, answer, generation, expected):
    adapter, script = scripted(answer)
    assert claim_recovery(adapter).stands(CONSUMER, HOLDS, generation) == expected
    assert script.asked == [f'GET {URL}']


def test_where_placement_does_not_tell_it_is_an_error(scripted):
    adapter, _ = scripted(LOST)
    with pytest.raises(UndoUnanswered):
        claim_recovery(adapter).stands(CONSUMER, HOLDS, 2)


def test_what_a_consumer_holds_already_is_told_before_more_is_claimed(
    scripted, context
):
    code = 'placement.concurrent_update'
    detail = 'consumer generation conflict - expected 1 but got None'
    changed = 409, {'errors': [{'code': code, 'detail': detail}]}
    adapter, script = scripted(changed, held(old=1), SAVED)
    told = []

    def on_held(consumer, before, generation):
        told.append((consumer, before, generation, len(script.asked)))

    wanted = {'allocations': {'new': {'resources': {'VCPU': 2}}}, 'mappings': {}}
    client = PlacementClient(adapter, on_held)
    made = client.claim(context, CONSUMER, wanted, '1.36', 'project', 'user', True)
    before = {name: made.undo[name] for name in BEFORE}
    assert told == [(CONSUMER, before, 3, 2)]
