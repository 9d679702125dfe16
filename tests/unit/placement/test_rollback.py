# SPDX-License-Identifier: Apache-2.0
"""Claims that are undone, answer by answer."""

from __future__ import annotations

import json

import pytest

from novasched import http
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import CONFLICT_TRIES, MAY_ARRIVE, NO_TIME
from novasched.ports import Claimed, ClaimRefused, ClaimRequest, ClaimUnknown
from tests.unit.placement.answers import (
    BUSY,
    CANDIDATE,
    CHANGED,
    CONSUMER,
    LOST,
    NOTHING,
    OLD,
    OWNER,
    SAVED,
    URL,
    held,
)

REMOVE = {'allocations': {}, **OWNER, 'consumer_generation': 1}
RESTORE = {**OLD, 'consumer_generation': 4}
OURS = Claimed(CONSUMER, REMOVE)


@pytest.fixture
def undoing(scripted, context):
    """Return a function that undoes with prepared answers, all of which it needs.

    It returns what was asked, and what may be left behind.
    """

    def run(claims, *answers):
        claims = claims if isinstance(claims, list) else [claims]
        adapter, script = scripted(*answers)
        left = PlacementClient(adapter).undo(context, claims)
        assert not script.answers
        return script, left

    return run


# -- of one consumer


def test_a_claim_is_undone_with_the_generation_that_its_answer_implied(
    claiming, undoing
):
    claimed, _ = claiming(SAVED)
    script, left = undoing(claimed, SAVED)
    assert script.asked == [f'PUT {URL}']
    assert script.body(0) == REMOVE
    assert left == {}


def test_the_claim_of_a_move_gives_back_what_was_held(claiming, undoing):
    claimed, _ = claiming(CHANGED, held(3, old=1), SAVED, adds=True)
    script, left = undoing(claimed, SAVED)
    assert script.asked == [f'PUT {URL}']
    assert script.body(0) == RESTORE
    assert left == {}


def test_a_claim_that_was_looked_up_is_undone_likewise(claiming, undoing):
    claimed, _ = claiming(LOST, held(1, new=2))
    script, _ = undoing(claimed, SAVED)
    assert script.body(0) == REMOVE


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([(500, ''), SAVED], id='at the second time'),
        pytest.param([BUSY] * 9 + [SAVED], id='a provider was busy'),
        pytest.param([LOST, SAVED], id='the request was lost'),
        pytest.param([LOST, CHANGED], id='the answer was lost'),
        pytest.param([CHANGED], id='another process wrote the consumer'),
    ],
)
def test_an_undo_needs_no_look(undoing, answers):
    script, left = undoing(OURS, *answers)
    assert set(script.asked) == {f'PUT {URL}'}
    assert left == {}


def test_what_another_process_wrote_is_kept(undoing, caplog):
    caplog.set_level('INFO', 'novasched.placement')
    undoing(OURS, CHANGED)
    assert caplog.messages == [
        f'Another process wrote the allocations of {CONSUMER}; kept'
    ]


@pytest.mark.parametrize(
    ('answers', 'status'),
    [
        pytest.param([(500, 'no'), (500, 'no')], 500, id='an error of the server'),
        pytest.param([BUSY, (500, 'no')], 500, id='an error after a conflict'),
        pytest.param([(403, 'no')], 403, id='no use in trying again'),
    ],
)
def test_an_undo_that_fails_is_left(undoing, caplog, answers, status):
    _, left = undoing(OURS, *answers)
    assert left == {CONSUMER: 'no'}
    assert caplog.messages[-1] == (
        f'Unable to delete allocation for instance {CONSUMER}: ({status} no)'
    )


def test_of_a_page_only_the_begin_is_said(undoing):
    _, left = undoing(OURS, (400, 10_000 * 'x'))
    assert len(left[CONSUMER]) == http.LONGEST_EXCERPT


def test_nothing_is_sent_once_there_is_no_time(scripted, context):
    adapter, script = scripted()
    left = PlacementClient(adapter).undo(context, [OURS], 0.0)
    assert left == {CONSUMER: NO_TIME}
    assert script.asked == []


# -- of several consumers

ALL = [Claimed(name, REMOVE) for name in 'abcd']


class Placement:
    """Undoes together, unless one of the consumers was written by another.

    The providers of ``busy`` consumers change that often while they are asked for.
    """

    def __init__(self, written=(), failing=(), busy=None):
        self.written = set(written)
        self.failing = set(failing)
        self.busy = busy or {}
        self.undone = []
        self.asked = []

    def __call__(self, request):
        body = json.loads(request.body)
        one = 'consumer_generation' in body
        consumers = {request.url.rsplit('/', 1)[1]} if one else set(body)
        self.asked.append(''.join(sorted(consumers)))
        if consumers & self.failing:
            return 400, 'no'
        for name in consumers & self.busy.keys():
            self.busy[name] -= 1
            if self.busy[name] >= 0:
                return BUSY
        if consumers & self.written:
            return CHANGED
        self.undone += consumers
        return SAVED


def test_several_are_undone_by_one_request(undoing):
    script, left = undoing(ALL, SAVED)
    assert script.asked == ['POST /allocations']
    assert script.body(0) == dict.fromkeys('abcd', REMOVE)
    assert left == {}


@pytest.mark.parametrize(
    ('written', 'failing', 'undone', 'left'),
    [
        pytest.param('b', '', 'acd', {}, id='one is not ours any more'),
        pytest.param('abcd', '', '', {}, id='none is ours any more'),
        pytest.param('', 'd', 'abc', {'d': 'no'}, id='one cannot be undone'),
    ],
)
def test_one_that_is_not_undone_keeps_no_other(
    scripted, context, written, failing, undone, left
):
    adapter, script = scripted()
    placement = Placement(written, failing)
    script.answer = placement
    assert PlacementClient(adapter).undo(context, ALL) == left
    assert sorted(placement.undone) == sorted(undone)


@pytest.mark.parametrize(
    ('busy', 'asked', 'left'),
    [
        pytest.param(1, ['abcd', 'cd', 'ab'], '', id='once'),
        pytest.param(
            5, ['abcd', 'cd', 'ab', 'b', 'a', 'a', 'a', 'a'], '', id='for some time'
        ),
        pytest.param(
            99, ['abcd', 'cd', 'ab', 'b', *['a'] * CONFLICT_TRIES], 'a', id='for long'
        ),
    ],
)
def test_one_whose_provider_others_change_is_tried_alone(
    scripted, context, busy, asked, left
):
    adapter, script = scripted()
    script.answer = placement = Placement(busy={'a': busy})
    assert PlacementClient(adapter).undo(context, ALL).keys() == set(left)
    assert placement.asked == asked


def test_once_placement_is_silent_nothing_more_is_sent(undoing):
    script, left = undoing(ALL, LOST, LOST)
    assert script.asked == ['POST /allocations'] * 2
    assert left.keys() == set('abcd')


# -- of claims without an answer


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(1, new=2), SAVED], ['GET', 'PUT'], id='made'),
        pytest.param([held(1, other=2)], ['GET'], id='another claimed first'),
        pytest.param([held(2, new=2)], ['GET'], id='another claimed the same again'),
        pytest.param(
            [(500, ''), held(1, new=2), SAVED], ['GET', 'GET', 'PUT'], id='unreadable'
        ),
    ],
)
def test_undo_what_got_no_answer(claiming, undoing, answers, asked):
    unknown, _ = claiming(LOST, (500, ''))
    assert isinstance(unknown, ClaimUnknown)
    script, left = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]
    assert left == {}


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(4, old=1, new=2), SAVED], ['GET', 'PUT'], id='made'),
        pytest.param([held(3, old=1), SAVED], ['GET', 'PUT'], id='bar a late one'),
        pytest.param(
            [held(3, old=1), CHANGED, held(4, old=1, new=2), SAVED],
            ['GET', 'PUT', 'GET', 'PUT'],
            id='it came late',
        ),
        pytest.param(
            [held(3, old=1), CHANGED, held(4, old=1, other=2)],
            ['GET', 'PUT', 'GET'],
            id='another claimed just before it was barred',
        ),
        pytest.param([held(5, newer=3)], ['GET'], id='claimed anew by somebody else'),
    ],
)
def test_restore_after_a_move_that_got_no_answer(claiming, undoing, answers, asked):
    unknown, _ = claiming(CHANGED, held(3, old=1), LOST, (500, ''), adds=True)
    assert isinstance(unknown, ClaimUnknown)
    script, left = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]
    assert left == {}


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([(500, 'no'), (500, 'no')], id='it cannot be read'),
        pytest.param([held(3, old=1), (500, 'no'), (500, 'no')], id='nor barred'),
        pytest.param([held(3, old=1), LOST, LOST], id='nor heard of'),
    ],
)
def test_what_got_no_answer_and_stays_unknown_is_left(claiming, undoing, answers):
    unknown, _ = claiming(CHANGED, held(3, old=1), LOST, (500, ''), adds=True)
    _, left = undoing(unknown, *answers)
    assert left.keys() == {CONSUMER}


@pytest.mark.parametrize('count', [1, 2])
def test_a_claim_that_may_still_arrive_is_left(scripted, context, undoing, count):
    adapter, _ = scripted(*[LOST, NOTHING] * 2)
    wanted = [ClaimRequest(name, CANDIDATE) for name in 'ab'[:count]]
    client = PlacementClient(adapter)
    lost = client.claim_all(context, wanted, '1.36', 'project', 'user')
    _, left = undoing(list(lost), NOTHING)
    assert left == {one.consumer_uuid: MAY_ARRIVE for one in wanted}


@pytest.fixture
def together(scripted, context):
    """Return claims of several consumers in one request that got no answer."""
    adapter, _ = scripted(LOST, (500, ''), LOST, (500, ''))
    wanted = [ClaimRequest(name, CANDIDATE) for name in 'abc']
    client = PlacementClient(adapter)
    found = client.claim_all(context, wanted, '1.36', 'project', 'user')
    assert not isinstance(found, ClaimRefused)
    return list(found)


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param(
            [held(1, new=2), SAVED],
            ['GET /allocations/a', 'POST /allocations'],
            id='made',
        ),
        pytest.param(
            [held(1, other=2), held(1, new=2), SAVED],
            ['GET /allocations/a', 'GET /allocations/b', 'POST /allocations'],
            id='made, and the first was claimed anew',
        ),
    ],
)
def test_a_look_at_one_tells_it_for_all_that_one_request_claimed(
    undoing, together, answers, asked
):
    script, left = undoing(together, *answers)
    assert script.asked == asked
    assert left == {}
