# SPDX-License-Identifier: Apache-2.0
"""Exactly what the journal names is taken back, or nothing."""

import email.utils
import itertools

import pytest
import requests

from novasched import errors
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import claim_recovery
from novasched.ports import ClaimRequest, UndoOutcome, UndoUnanswered
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.tables.cases import cases
from tests.unit.placement import answers
from tests.unit.placement.answers import (
    CANDIDATE,
    CHANGED,
    CONSUMER,
    LOST,
    NOTHING,
    OLD,
    OWNER,
    SAVED,
    URL,
)

HOLDS = {'new': {'VCPU': 2}}


def held(age_s=None, **amounts):
    status, body, headers = answers.held(3, age_s, **amounts)
    return status, {**body, **OWNER}, headers


class Waiting:
    """A clock by which each answer takes so long."""

    def __init__(self, waited_s):
        self._times = itertools.count(0.0, waited_s)

    def monotonic(self):
        return next(self._times)


def undo(
    adapter, holds=HOLDS, before=None, generation=2, ages_s=(0.0, 30.0), waited_s=0.0
):
    recovery = claim_recovery(adapter, Waiting(waited_s))
    return recovery.undo(CONSUMER, holds, before, generation, ages_s)


def test_a_claim_goes_with_the_generation_that_was_read(scripted):
    adapter, script = scripted(held(new=2), SAVED)
    assert undo(adapter) is UndoOutcome.UNDONE
    assert script.asked == [f'GET {URL}', f'PUT {URL}']
    assert script.body(1) == {'allocations': {}, **OWNER, 'consumer_generation': 3}


def test_recovery_restores_the_earlier_allocation(scripted):
    adapter, script = scripted(held(new=2, old=1), SAVED)
    outcome = undo(adapter, {**HOLDS, 'old': {'VCPU': 1}}, OLD)
    assert outcome is UndoOutcome.UNDONE
    assert script.body(1) == {**OLD, 'consumer_generation': 3}


@cases(
    'answer',
    ('it holds nothing', NOTHING),
    ('it holds less', held(new=1)),
    ('it holds more', held(new=2, other=1)),
)
def test_recovery_leaves_differing_allocations(scripted, answer):
    adapter, script = scripted(answer)
    assert undo(adapter) is UndoOutcome.ABSENT
    assert script.asked == [f'GET {URL}']


@cases(
    'generation',
    ('the same claimed anew for a new consumer', None),
    ('the same move made again', 1),
    ('the claim has not arrived', 3),
)
def test_recovery_leaves_a_claim_of_another_generation(scripted, generation):
    adapter, script = scripted(held(new=2))
    assert undo(adapter, generation=generation) is UndoOutcome.ABSENT
    assert script.asked == [f'GET {URL}']


@cases(
    'answers, holds, generation, outcome',
    ('the first claim', [answers.held(1, new=2), SAVED], HOLDS, None, 'UNDONE'),
    ('nothing is never taken back', [NOTHING], {}, None, 'ABSENT'),
    ('it was changed meanwhile', [held(new=2), (409, '')], HOLDS, 2, 'CONFLICT'),
)
def test_outcome(scripted, answers, holds, generation, outcome):
    adapter, _ = scripted(*answers)
    assert undo(adapter, holds, generation=generation) is UndoOutcome[outcome]


@cases(
    'answers, kind',
    ('no reading', [(500, 'x')], errors.AllocationDeleteFailed),
    ('no answer to reading', [LOST], UndoUnanswered),
    ('no writing', [held(new=2), (500, 'x')], errors.AllocationDeleteFailed),
    ('no answer to writing', [held(new=2), LOST], UndoUnanswered),
)
def test_where_placement_does_not_it_is_an_error(scripted, answers, kind):
    adapter, _ = scripted(*answers)
    with pytest.raises(kind) as raised:
        undo(adapter)
    assert type(raised.value) is kind


@cases(
    'age_s, ages_s, outcome',
    ('of its time', 40, (30.0, 50.0), 'UNDONE'),
    ('late by what seconds hide', 28, (30.0, 50.0), 'UNDONE'),
    ('of a later request', 27, (30.0, 50.0), 'OTHER'),
    ('early by what seconds hide', 52, (30.0, 50.0), 'UNDONE'),
    ('of an earlier request', 53, (30.0, 50.0), 'OTHER'),
    ('unknown, its caller waits', None, (-5.0, 20.0), 'UNDONE'),
    ('unknown, its caller may not', None, (5.0, 30.0), 'OTHER'),
)
def test_a_claim_of_another_time_is_left(scripted, age_s, ages_s, outcome):
    adapter, script = scripted(held(age_s, new=2), SAVED)
    assert undo(adapter, ages_s=ages_s) is UndoOutcome[outcome]
    assert len(script.asked) == (2 if outcome == 'UNDONE' else 1)


@cases(
    'age_s, is_certain',
    ('it may be of a later request', 35, False),
    ('it may be of an earlier request', 55, False),
    ('whenever the answer was made, it is of its time', 45, True),
)
def test_claim_is_kept_if_its_age_was_long_in_coming(scripted, age_s, is_certain):
    adapter, script = scripted(held(age_s, new=2), SAVED)
    if is_certain:
        assert undo(adapter, ages_s=(30.0, 50.0), waited_s=8.0) is UndoOutcome.UNDONE
        return
    with pytest.raises(UndoUnanswered):
        undo(adapter, ages_s=(30.0, 50.0), waited_s=8.0)
    assert script.asked == [f'GET {URL}']


@cases(
    'headers',
    ('no date', {'Last-Modified': 'yesterday'}),
    ('a date beyond all', {'Last-Modified': '1 Jan 999999 1:1:1'}),
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


@cases(
    'answer, kind',
    ('of an answer', (503, 'x'), errors.AllocationDeleteFailed),
    ('of none', requests.ConnectionError('x'), UndoUnanswered),
)
def test_nothing_is_written_again_in_spite_of_the_options(scripted, answer, kind):
    again = {'connect_retries': 3, 'status_code_retries': 3}
    adapter, script = scripted(held(new=2), answer, **again)
    with pytest.raises(kind):
        undo(adapter)
    assert script.asked == [f'GET {URL}', f'PUT {URL}']


@cases(
    'answer, generation, expected',
    ('as it was claimed', held(new=2), 2, True),
    ('claimed again since', held(new=2), 1, False),
    ('less of it', held(new=1), 2, False),
    ('nothing', NOTHING, 2, False),
)
def test_a_claim_stands(scripted, answer, generation, expected):
    adapter, script = scripted(answer)
    assert claim_recovery(adapter).stands(CONSUMER, HOLDS, generation) == expected
    assert script.asked == [f'GET {URL}']


def test_where_placement_does_not_tell_it_is_an_error(scripted):
    adapter, _ = scripted(LOST)
    with pytest.raises(UndoUnanswered):
        claim_recovery(adapter).stands(CONSUMER, HOLDS, 2)


def test_earlier_allocation_is_reported_before_the_claim(scripted, context):
    adapter, script = scripted(CHANGED, held(old=1), SAVED)
    told = []

    def on_held(consumer, before, generation):
        told.append((consumer, before, generation, len(script.asked)))

    client = PlacementClient(adapter, on_held)
    made = client.claim(
        context, ClaimRequest(CONSUMER, CANDIDATE), '1.36', 'project', 'user', True
    )
    before = {name: made.undo[name] for name in OLD}
    assert told == [(CONSUMER, before, 3, 2)]
