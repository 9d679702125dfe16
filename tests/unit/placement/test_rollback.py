# SPDX-License-Identifier: Apache-2.0
"""Claims that are undone, answer by answer."""

import dataclasses
import json
import math
import time

import pytest

from novasched import http
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import (
    CLAIMED_AGAIN,
    CONFLICT_TRIES,
    NO_TIME,
    TOGETHER,
)
from novasched.ports import (
    MAY_ARRIVE,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
)
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.tables.cases import cases
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

    def run(claims, *answers, **how):
        claims = claims if isinstance(claims, list) else [claims]
        adapter, script = scripted(*answers)
        left = PlacementClient(adapter).undo(context, claims, **how)
        assert not script.answers
        return script, left

    return run


# -- of one consumer


@cases(
    'answers, found, body',
    ('at the generation that its answer implied', [SAVED], MADE, REMOVE),
    (
        'a move gives back what was held',
        [CHANGED, held(3, old=1), SAVED],
        held(4, old=1, new=2),
        RESTORE,
    ),
    ('it was looked up', [LOST, held(1, new=2)], MADE, REMOVE),
)
def test_a_claim_is_undone(claiming, undoing, answers, found, body):
    claimed, _ = claiming(*answers, adds=body is RESTORE)
    script, left = undoing(claimed, found, SAVED)
    assert script.asked == LOOK
    assert script.body(1) == body
    assert left == {}


@cases(
    'answers',
    ('at the second time', [(500, ''), MADE, SAVED]),
    ('a provider was busy', [BUSY, MADE] * 9 + [SAVED]),
    ('the request was lost', [LOST, MADE, SAVED]),
    ('the answer was lost', [LOST, NOTHING]),
    ('another process wrote the consumer', [CHANGED]),
    ('and while a provider was busy', [BUSY, held(1, new=1)]),
)
def test_each_attempt_to_undo_follows_a_look(undoing, answers):
    script, left = undoing(ours(), MADE, *answers)
    assert script.asked == (LOOK * len(answers))[: len(script.asked)]
    assert left == {}


@cases(
    'found',
    ('it holds nothing', NOTHING),
    ('the same, claimed again', held(2, new=2)),
    ('other amounts of a new consumer', held(1, new=3)),
    ('another host of a new consumer', held(1, other=2)),
    ('more of a new consumer', held(1, new=2, other=1)),
)
def test_rollback_keeps_what_another_process_wrote(undoing, caplog, found):
    caplog.set_level('INFO', 'novasched.placement')
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - 60)
    script, left = undoing(claim, found)
    assert script.asked == [f'GET {URL}']
    assert left == {}
    assert caplog.messages == [
        f'Another process wrote the allocations of {CONSUMER}; kept'
    ]


@cases(
    'age_s, ago_s',
    ('unknown', None, 59),
    ('to a second or two', 58, 59),
    ('long before the answer came', 90, 59),
    ('not yet believed', 0, 20),
)
def test_a_claim_of_the_right_age_is_undone(undoing, age_s, ago_s):
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - ago_s)
    _, left = undoing(claim, held(1, age_s, new=2), SAVED)
    assert left == {}


def test_claim_whose_age_is_long_in_coming_is_undone(scripted, context):
    adapter, script = scripted(held(1, 38, new=2), SAVED)
    answer = script.answer

    def slowly(request):
        time.sleep(1.0)
        return answer(request)

    script.answer = slowly
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - 39.2)
    assert PlacementClient(adapter).undo(context, [claim]) == {}
    assert not script.answers


def test_the_same_claim_of_a_new_consumer_is_kept_and_named(undoing):
    claim = dataclasses.replace(ours(), by_s=SYSTEM_CLOCK.monotonic() - 60)
    script, left = undoing(claim, held(1, 10, new=2))
    assert script.asked == [f'GET {URL}']
    assert left == {CONSUMER: CLAIMED_AGAIN}


@cases(
    'answers, status',
    ('an error of the server', [(500, 'no'), MADE, (500, 'no')], 500),
    ('an error after a conflict', [BUSY, MADE, (500, 'no')], 500),
    ('no use in trying again', [(403, 'no')], 403),
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


@cases('answers', ('an error', [(500, 'no'), (500, 'no')]), ('no answer', [LOST, LOST]))
def test_rollback_leaves_unreadable_allocations(undoing, answers):
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


@cases(
    'written, failing, undone, left',
    ('one is not ours any more', 'b', '', 'acd', {}),
    ('none is ours any more', 'abcd', '', '', {}),
    ('one cannot be undone', '', 'd', 'abc', {'d': 'no'}),
)
def test_one_that_is_not_undone_keeps_no_other(
    scripted, context, written, failing, undone, left
):
    adapter, script = scripted()
    placement = Placement(written, failing)
    script.answer = placement
    assert PlacementClient(adapter).undo(context, together()) == left
    assert sorted(placement.undone) == sorted(undone)


@cases(
    'busy, asked, left',
    ('once', 1, ['abcd', 'ab', 'cd'], ''),
    ('for some time', 5, ['abcd', 'ab', *['a'] * 4, 'b', 'c', 'd'], ''),
    ('for long', 99, ['abcd', 'ab', *['a'] * CONFLICT_TRIES, 'b', 'c', 'd'], 'a'),
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


@cases(
    'answers, asked',
    ('made', [MADE, MADE, SAVED], ['GET', 'GET', 'PUT']),
    ('another claimed first', [held(1, other=2)], ['GET']),
    ('another claimed the same again', [held(2, new=2)], ['GET']),
    ('unreadable', [(500, ''), MADE, MADE, SAVED], ['GET', 'GET', 'GET', 'PUT']),
)
def test_undo_what_got_no_answer(claiming, undoing, answers, asked):
    unknown, _ = claiming(LOST, (500, ''))
    assert isinstance(unknown, ClaimUnknown)
    script, left = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]
    assert left == {}


@cases(
    'answers, asked',
    ('made', [held(4, old=1, new=2)] * 2 + [SAVED], ['GET', 'GET', 'PUT']),
    ('bar a late one', [held(3, old=1), SAVED], ['GET', 'PUT']),
    (
        'it came late',
        [held(3, old=1), CHANGED, *[held(4, old=1, new=2)] * 2, SAVED],
        ['GET', 'PUT', 'GET', 'GET', 'PUT'],
    ),
    (
        'another claimed just before it was barred',
        [held(3, old=1), CHANGED, held(4, old=1, other=2)],
        ['GET', 'PUT', 'GET'],
    ),
    ('claimed anew by somebody else', [held(5, newer=3)], ['GET']),
)
def test_restore_after_a_move_that_got_no_answer(claiming, undoing, answers, asked):
    unknown, _ = claiming(CHANGED, held(3, old=1), LOST, (500, ''), adds=True)
    assert isinstance(unknown, ClaimUnknown)
    script, left = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]
    assert left == {}


@cases(
    'age_s, is_left',
    ('since the claim was sent', 57, True),
    ('about then', 61, True),
    ('nobody knows when', None, True),
    ('before', 63, False),
)
def test_a_claim_may_arrive_where_its_consumer_got_something_since(
    claiming, undoing, age_s, is_left
):
    """What it got may be the claim of another delivery of the same move."""
    unknown, _ = claiming(LOST, (500, ''))
    unknown = dataclasses.replace(unknown, sent_s=SYSTEM_CLOCK.monotonic() - 60)
    _, left = undoing(unknown, held(1, age_s, newer=3), keeps_unknown=True)
    assert left == ({CONSUMER: MAY_ARRIVE} if is_left else {})


def test_a_claim_of_unknown_fate_knows_when_it_was_first_sent(claiming):
    began_s = SYSTEM_CLOCK.monotonic()
    unknown, _ = claiming(LOST, NOTHING, LOST, (500, ''))
    assert began_s <= unknown.sent_s <= unknown.by_s


@cases(
    'answers',
    ('it cannot be read', [(500, 'no'), (500, 'no')]),
    ('nor barred', [held(3, old=1), (500, 'no'), (500, 'no')]),
    ('nor heard of', [held(3, old=1), LOST, LOST]),
)
def test_rollback_leaves_claims_of_unknown_fate(claiming, undoing, answers):
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


@cases(
    'answers, asked',
    (
        'made',
        [MADE, MADE, MADE, MADE, SAVED],
        ['GET a', 'GET a', 'GET b', 'GET c', 'POST'],
    ),
    (
        'made, and the first was claimed by another request',
        [held(1, other=2), MADE, held(1, other=2), MADE, MADE, SAVED],
        ['GET a', 'GET b', 'GET a', 'GET b', 'GET c', 'POST'],
    ),
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
