# SPDX-License-Identifier: Apache-2.0
"""Claims that are undone, answer by answer."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from novasched import http
from novasched.clock import SYSTEM_CLOCK
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import (
    CLAIMED_AGAIN,
    CONFLICT_TRIES,
    MAY_ARRIVE,
    NO_TIME,
    TOGETHER,
)
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
HOLDS = {'new': {'VCPU': 2}}
MADE = held(1, new=2)
LOOK = [f'GET {URL}', f'PUT {URL}']


def ours(consumer=CONSUMER):
    """A claim that was made just now."""
    return Claimed(consumer, REMOVE, HOLDS, SYSTEM_CLOCK.monotonic())


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
    script, left = undoing(claimed, MADE, SAVED)
    assert script.asked == LOOK
    assert script.body(1) == REMOVE
    assert left == {}


def test_the_claim_of_a_move_gives_back_what_was_held(claiming, undoing):
    claimed, _ = claiming(CHANGED, held(3, old=1), SAVED, adds=True)
    script, left = undoing(claimed, held(4, old=1, new=2), SAVED)
    assert script.asked == LOOK
    assert script.body(1) == RESTORE
    assert left == {}


def test_a_claim_that_was_looked_up_is_undone_likewise(claiming, undoing):
    claimed, _ = claiming(LOST, held(1, new=2))
    script, _ = undoing(claimed, MADE, SAVED)
    assert script.body(1) == REMOVE


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([(500, ''), MADE, SAVED], id='at the second time'),
        pytest.param([BUSY, MADE] * 9 + [SAVED], id='a provider was busy'),
        pytest.param([LOST, MADE, SAVED], id='the request was lost'),
        pytest.param([LOST, NOTHING], id='the answer was lost'),
        pytest.param([CHANGED], id='another process wrote the consumer'),
        pytest.param([BUSY, held(1, new=1)], id='and while a provider was busy'),
    ],
)
def test_each_attempt_to_undo_follows_a_look(undoing, answers):
    script, left = undoing(ours(), MADE, *answers)
    assert script.asked == (LOOK * len(answers))[: len(script.asked)]
    assert left == {}


@pytest.mark.parametrize(
    'found',
    [
        pytest.param(NOTHING, id='it holds nothing'),
        pytest.param(held(2, new=2), id='the same, claimed again'),
        pytest.param(held(1, new=3), id='other amounts of a new consumer'),
        pytest.param(held(1, other=2), id='another host of a new consumer'),
        pytest.param(held(1, new=2, other=1), id='more of a new consumer'),
    ],
)
def test_what_another_process_wrote_is_kept(undoing, caplog, found):
    caplog.set_level('INFO', 'novasched.placement')
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - 60)
    script, left = undoing(claim, found)
    assert script.asked == [f'GET {URL}']
    assert left == {}
    assert caplog.messages == [
        f'Another process wrote the allocations of {CONSUMER}; kept'
    ]


@pytest.mark.parametrize(
    ('age_s', 'ago_s'),
    [
        pytest.param(None, 59, id='unknown'),
        pytest.param(58, 59, id='to a second or two'),
        pytest.param(90, 59, id='long before the answer came'),
        pytest.param(0, 20, id='not yet believed'),
    ],
)
def test_a_claim_of_the_right_age_is_undone(undoing, age_s, ago_s):
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - ago_s)
    _, left = undoing(claim, held(1, age_s, new=2), SAVED)
    assert left == {}


def test_the_same_claim_of_a_new_consumer_is_kept_and_named(undoing):
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - 60)
    script, left = undoing(claim, held(1, 10, new=2))
    assert script.asked == [f'GET {URL}']
    assert left == {CONSUMER: CLAIMED_AGAIN}


@pytest.mark.parametrize(
    ('answers', 'status'),
    [
        pytest.param(
            [(500, 'no'), MADE, (500, 'no')], 500, id='an error of the server'
        ),
        pytest.param([BUSY, MADE, (500, 'no')], 500, id='an error after a conflict'),
        pytest.param([(403, 'no')], 403, id='no use in trying again'),
    ],
)
def test_an_undo_that_fails_is_left(undoing, caplog, answers, status):
    _, left = undoing(ours(), MADE, *answers)
    assert left == {CONSUMER: 'no'}
    assert caplog.messages[-1] == (
        f'Unable to delete allocation for instance {CONSUMER}: ({status} no)'
    )


def test_of_a_page_only_the_begin_is_said(undoing):
    _, left = undoing(ours(), MADE, (400, 10_000 * 'x'))
    assert len(left[CONSUMER]) == http.LONGEST_EXCERPT


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([(500, 'no'), (500, 'no')], id='an error'),
        pytest.param([LOST, LOST], id='no answer'),
    ],
)
def test_what_cannot_be_looked_at_is_left(undoing, answers):
    script, left = undoing(ours(), *answers)
    assert set(script.asked) == {f'GET {URL}'}
    assert left.keys() == {CONSUMER}


def test_nothing_is_sent_once_there_is_no_time(scripted, context):
    adapter, script = scripted()
    left = PlacementClient(adapter).undo(context, [ours()], 0.0)
    assert left == {CONSUMER: NO_TIME}
    assert script.asked == []


# -- of several consumers


def together(names='abcd'):
    """What one request claimed."""
    return [dataclasses.replace(ours(name), by_s=math.inf) for name in names]


class Placement:
    """Undoes together, unless one of the consumers was written by another just then.

    The providers of ``busy`` consumers change that often while they are asked for.
    """

    def __init__(self, written=(), failing=(), busy=None):
        self.written = set(written)
        self.failing = set(failing)
        self.busy = busy or {}
        self.undone = []
        self.asked = []

    def __call__(self, request):
        if request.method == 'GET':
            taken = request.url[-1] in self.written and self.asked
            return held(2 if taken else 1, new=2)
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
    script, left = undoing(together(), *[MADE] * 4, SAVED)
    assert script.asked[4:] == ['POST /allocations']
    assert script.body(4) == dict.fromkeys('abcd', REMOVE)
    assert left == {}


def test_no_more_than_some_are_undone_by_one_request(scripted, context):
    adapter, script = scripted()
    script.answer = placement = Placement()
    many = together(map(str, range(2 * TOGETHER + 1)))
    assert PlacementClient(adapter).undo(context, many) == {}
    assert len(placement.asked) == 3
    assert len(placement.undone) == 2 * TOGETHER + 1


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
    assert PlacementClient(adapter).undo(context, together()) == left
    assert sorted(placement.undone) == sorted(undone)


@pytest.mark.parametrize(
    ('busy', 'asked', 'left'),
    [
        pytest.param(1, ['abcd', 'ab', 'cd'], '', id='once'),
        pytest.param(
            5, ['abcd', 'ab', *['a'] * 4, 'b', 'c', 'd'], '', id='for some time'
        ),
        pytest.param(
            99,
            ['abcd', 'ab', *['a'] * CONFLICT_TRIES, 'b', 'c', 'd'],
            'a',
            id='for long',
        ),
    ],
)
def test_one_whose_provider_others_change_is_tried_alone(
    scripted, context, busy, asked, left
):
    adapter, script = scripted()
    script.answer = placement = Placement(busy={'a': busy})
    assert PlacementClient(adapter).undo(context, together()).keys() == set(left)
    assert placement.asked == asked


def test_once_placement_is_silent_nothing_more_is_sent(undoing):
    script, left = undoing(together(), *[MADE] * 4, LOST, *[MADE] * 4, LOST)
    assert script.asked[4::5] == ['POST /allocations'] * 2
    assert left.keys() == set('abcd')


# -- of claims without an answer


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([MADE, MADE, SAVED], ['GET', 'GET', 'PUT'], id='made'),
        pytest.param([held(1, other=2)], ['GET'], id='another claimed first'),
        pytest.param([held(2, new=2)], ['GET'], id='another claimed the same again'),
        pytest.param(
            [(500, ''), MADE, MADE, SAVED],
            ['GET', 'GET', 'GET', 'PUT'],
            id='unreadable',
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
        pytest.param(
            [held(4, old=1, new=2)] * 2 + [SAVED], ['GET', 'GET', 'PUT'], id='made'
        ),
        pytest.param([held(3, old=1), SAVED], ['GET', 'PUT'], id='bar a late one'),
        pytest.param(
            [held(3, old=1), CHANGED, *[held(4, old=1, new=2)] * 2, SAVED],
            ['GET', 'PUT', 'GET', 'GET', 'PUT'],
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
def lost(scripted, context):
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
            [MADE, MADE, MADE, MADE, SAVED],
            ['GET a', 'GET a', 'GET b', 'GET c', 'POST'],
            id='made',
        ),
        pytest.param(
            [held(1, other=2), MADE, held(1, other=2), MADE, MADE, SAVED],
            ['GET a', 'GET b', 'GET a', 'GET b', 'GET c', 'POST'],
            id='made, and the first was claimed by another request',
        ),
    ],
)
def test_a_look_at_one_tells_it_for_all_that_one_request_claimed(
    undoing, lost, answers, asked
):
    script, left = undoing(lost, *answers)
    assert [
        each.replace('/allocations', '').replace('/', '').rstrip()
        for each in script.asked
    ] == asked
    assert left == {}
