# SPDX-License-Identifier: Apache-2.0
"""Exactly what the journal names is taken back, or nothing."""

from __future__ import annotations

import pytest
import requests

from novasched import errors
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import claim_recovery
from novasched.ports import UndoUnanswered

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


def long():
    return 600.0


def held(**amounts):
    allocations = {name: {'resources': {'VCPU': n}} for name, n in amounts.items()}
    return 200, {
        'allocations': allocations,
        'consumer_generation': 3,
        'project_id': 'project',
        'user_id': 'user',
    }


def test_a_claim_goes_with_the_generation_that_was_read(scripted):
    adapter, script = scripted(held(new=2), SAVED)
    assert claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, long)
    assert script.asked == [f'GET {URL}', f'PUT {URL}']
    assert script.body(1) == {
        'allocations': {},
        'project_id': 'project',
        'user_id': 'user',
        'consumer_generation': 3,
    }


def test_what_was_held_before_is_restored(scripted):
    adapter, script = scripted(held(new=2, old=1), SAVED)
    assert claim_recovery(adapter).undo(
        CONSUMER, {**HOLDS, 'old': {'VCPU': 1}}, BEFORE, 2, long
    )
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
    assert not claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, long)
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
    assert not claim_recovery(adapter).undo(CONSUMER, HOLDS, None, generation, long)
    assert script.asked == [f'GET {URL}']


def test_the_first_claim_of_a_consumer_is_taken_back(scripted):
    status, body = held(new=2)
    adapter, _ = scripted((status, {**body, 'consumer_generation': 1}), SAVED)
    assert claim_recovery(adapter).undo(CONSUMER, HOLDS, None, None, long)


def test_nothing_is_never_taken_back(scripted):
    adapter, _ = scripted(NOTHING)
    assert not claim_recovery(adapter).undo(CONSUMER, {}, None, None, long)


def test_who_changed_it_meanwhile_keeps_it(scripted):
    adapter, _ = scripted(held(new=2), (409, 'changed'))
    assert not claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, long)


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
        claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, long)
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ('left_s', 'asked'),
    [
        pytest.param([0.0], [], id='before it is asked'),
        pytest.param([5.0, 0.0], [f'GET {URL}'], id='while placement answers'),
        pytest.param([5.0, -1.0], [f'GET {URL}'], id='long before it has answered'),
    ],
)
def test_a_claim_is_not_undone_when_its_time_is_over(scripted, left_s, asked):
    adapter, script = scripted(held(new=2), SAVED)
    left = iter(left_s)
    assert not claim_recovery(adapter).undo(
        CONSUMER, HOLDS, None, 2, lambda: next(left)
    )
    assert script.asked == asked


@pytest.mark.parametrize(
    ('left_s', 'expected'),
    [
        pytest.param([7.0, 4.0], [7.0, 4.0], id='no longer than what is left'),
        pytest.param([60.0, 50.0], [10.0, 10.0], id='no longer than usual'),
    ],
)
def test_placement_is_waited_for(scripted, left_s, expected):
    adapter, script = scripted(held(new=2), SAVED)
    left = iter(left_s)
    assert claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, lambda: next(left))
    assert [each['timeout'] for each in script.options] == expected


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
        claim_recovery(adapter).undo(CONSUMER, HOLDS, None, 2, long)
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
