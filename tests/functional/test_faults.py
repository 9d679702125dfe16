# SPDX-License-Identifier: Apache-2.0
"""Placement fails in the middle of a request: nothing stays claimed."""

import pytest
import requests

from novasched import errors
from tests.functional.conftest import Host, new_uuids
from tests.support.tables.cases import cases

HOSTS = [Host('h1', memory_mb=9000, vcpus=4), Host('h2', vcpus=4)]


def answering(status):
    """Answer in the place of placement, which is not asked."""

    def do(request, send):
        answer = requests.Response()
        answer.status_code = status
        answer.request = request
        answer.url = request.url
        answer._content = b'oops'
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


@cases(
    'count, asked',
    ('one server', 1, ['PUT', 'PUT']),
    ('two servers', 2, ['POST', 'POST']),
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
