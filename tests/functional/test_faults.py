# SPDX-License-Identifier: Apache-2.0
"""Placement fails in the middle of a request: nothing stays claimed."""

from __future__ import annotations

import json

import pytest
import requests

from novasched import errors
from tests.functional.conftest import Host, new_uuids

HOSTS = [Host('h1', memory_mb=9000, vcpus=4), Host('h2', vcpus=4)]
CHANGED = {
    'code': 'placement.concurrent_update',
    'detail': 'consumer generation conflict - expected null but got 3',
}


def answering(status, *problems, text='oops'):
    """Answer in the place of placement, which is not asked."""

    def do(request, send):
        answer = requests.Response()
        answer.status_code = status
        answer.request = request
        answer.url = request.url
        answer._content = (
            json.dumps({'errors': problems}) if problems else text
        ).encode()
        return answer

    return do


def lost(request, send):
    """Let placement do it, and lose the answer."""
    send().close()
    raise requests.ReadTimeout('timed out')


def unreachable(request, send):
    raise requests.ConnectTimeout('timed out')


def always(faults, method, do, times=10):
    for nth in range(1, times + 1):
        faults.on(method, nth, do)


@pytest.fixture
def made(cloud):
    return cloud(HOSTS)


@pytest.fixture
def one_by_one(made):
    """The cloud, where placement refuses the first claim of several at once."""
    made.faults.on('POST', 1, answering(500))
    return made


def ask(made, count):
    uuids = new_uuids(count)
    return uuids, made.ask(made.compose(), uuids)


def test_a_500_on_the_second_claim_takes_the_next_host(one_by_one):
    one_by_one.faults.on('PUT', 2, answering(500))
    uuids, found = ask(one_by_one, 2)
    # After the first instance the other host is the better one.
    assert found == [['h1'], ['h1']]
    assert one_by_one.held() == {uuid: {'h1'} for uuid in uuids}
    assert one_by_one.faults.seen['PUT'] == 3


def test_500s_for_every_host_leave_nothing_claimed(one_by_one):
    for nth in (2, 3):
        one_by_one.faults.on('PUT', nth, answering(500))
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(one_by_one, 2)
    assert one_by_one.held() == {}


@pytest.mark.parametrize('text', ['<html>gateway</html>', '{}'])
def test_an_error_that_is_not_placements_takes_the_next_host(made, text):
    made.faults.on('PUT', 1, answering(503, text=text))
    uuids, found = ask(made, 1)
    assert found == [['h2']]
    assert made.held() == {uuids[0]: {'h2'}}


def test_a_consumer_that_keeps_changing_ends_all(one_by_one):
    for nth in (2, 3):
        one_by_one.faults.on('PUT', nth, answering(409, CHANGED))
    with pytest.raises(errors.AllocationUpdateFailed):
        ask(one_by_one, 2)
    assert one_by_one.held() == {}


def test_a_500_on_the_first_undo_keeps_none_from_being_undone(one_by_one, caplog):
    one_by_one.faults.on('POST', 2, answering(500))
    for nth in (4, 5):
        one_by_one.faults.on('PUT', nth, answering(500))
    with pytest.raises(errors.NoValidHost):
        ask(one_by_one, 4)
    assert one_by_one.held() == {}


def test_an_undo_that_fails_for_good_leaves_just_that_one_and_says_so(
    one_by_one, caplog
):
    # Two are undone together, then one by one, the last one first.
    for nth in (2, 3):
        one_by_one.faults.on('POST', nth, answering(500))
    for nth in (3, 4, 6, 7):
        one_by_one.faults.on('PUT', nth, answering(500))
    uuids = new_uuids(3)
    with pytest.raises(errors.NoValidHost):
        one_by_one.ask(one_by_one.compose(), uuids)
    (left,) = one_by_one.held()
    said = f'Allocations of {left} are not undone yet'
    assert any(line.startswith(said) for line in caplog.messages)


def test_a_claim_whose_answer_is_lost_is_found(made):
    made.faults.on('PUT', 1, lost)
    uuids, found = ask(made, 1)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


def test_a_claim_that_cannot_be_looked_up_is_undone_and_ends_all(made):
    made.faults.on('PUT', 1, lost)
    # The candidates, then the look-up.
    made.faults.on('GET', 2, unreachable)
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        ask(made, 1)
    assert made.held() == {}


def test_a_claim_that_cannot_be_undone_ends_all_and_says_so(made):
    (uuid,) = new_uuids()
    scheduler = made.compose()
    made.faults.on('PUT', 1, lost)
    for nth in range(2, 5):
        made.faults.on('GET', nth, unreachable)
    with pytest.raises(errors.AllocationUpdateFailed, match='may be left behind'):
        made.ask(scheduler, [uuid])
    assert made.held() == {uuid: {'h1'}}


@pytest.mark.parametrize(
    ('count', 'asked'),
    [
        pytest.param(1, ['PUT', 'PUT'], id='one server'),
        pytest.param(2, ['POST', 'POST'], id='two servers'),
    ],
)
def test_a_placement_that_cannot_be_reached_is_not_tried_for_each_host(
    cloud, count, asked
):
    made = cloud([Host(f'h{number}') for number in range(9)])
    tried = []

    def gone(request, send):
        tried.append(request.method)
        unreachable(request, send)

    for method in ('PUT', 'POST'):
        always(made.faults, method, gone)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, count)
    assert tried == asked


def test_a_claim_that_was_not_sent_is_sent_once_more(made):
    made.faults.on('PUT', 1, unreachable)
    uuids, found = ask(made, 1)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


@pytest.mark.parametrize(
    'do',
    [
        pytest.param(answering(500), id='an error'),
        pytest.param(answering(400), id='a refusal'),
        pytest.param(unreachable, id='no answer'),
    ],
)
def test_no_candidates_from_placement_is_no_valid_host(made, do, caplog):
    always(made.faults, 'GET', do)
    with caplog.at_level('INFO'), pytest.raises(errors.NoValidHost) as raised:
        ask(made, 1)
    assert str(raised.value) == 'No valid host was found. '
    assert made.notifications == []
    assert any('Got no allocation candidates' in line for line in caplog.messages)


def test_an_evacuation_that_fails_keeps_what_the_source_has(made):
    scheduler = made.compose()
    moved, fresh = new_uuids(2)
    assert made.ask(scheduler, [moved]) == [['h1']]
    always(made.faults, 'PUT', answering(500))
    # First the conflict that shows what is held, then the merged claim.
    for nth in (1, 2):
        made.faults.on('PUT', nth, lambda request, send: send())
    # The claims for the second instance fail; restoring the first must not.
    made.faults.on('PUT', 4, lambda request, send: send())
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, [moved, fresh], ignore_hosts=['h1'])
    assert made.held() == {moved: {'h1'}}


@pytest.mark.parametrize('phase', ['start', 'end'])
def test_a_notifier_that_raises_leaves_nothing_claimed(made, phase):
    class Broken:
        def select_destinations(self, context, spec, at):
            if at == phase:
                raise RuntimeError('the bus is gone')

    scheduler = made.compose(notifier=Broken())
    with pytest.raises(RuntimeError):
        made.ask(scheduler, new_uuids(2))
    assert made.held() == {}


def test_whoever_explains_may_break_and_nothing_stays_claimed(made):
    seen = []

    def explain(decision):
        seen.append(decision)
        if len(seen) == 2:
            raise KeyboardInterrupt

    scheduler = made.compose(on_decision=explain)
    with pytest.raises(KeyboardInterrupt):
        made.ask(scheduler, new_uuids(2))
    assert made.held() == {}
