# SPDX-License-Identifier: Apache-2.0
"""Claims that go wrong on their way to placement, or there."""

from __future__ import annotations

import json
import time

import pytest

from novasched import errors
from tests.faults import proxy
from tests.faults.conftest import child
from tests.functional.conftest import Host, new_uuids

HOSTS = [Host('h1', memory_mb=9000, vcpus=4), Host('h2', vcpus=4)]
CLAIM = '^/allocations/'
JOINT = '^/allocations$'
CLAIMS = f'{CLAIM}|{JOINT}'
REFUSED = proxy.answers(500, b'oops')
IMPATIENT_S = 2


def conflict(detail):
    error = {'code': 'placement.concurrent_update', 'detail': detail}
    return proxy.answers(409, json.dumps({'errors': [error]}).encode())


consumer_changed = conflict('consumer generation conflict - expected 1 but got None')
provider_changed = conflict('Inventory and/or allocations changed while attempting')


@pytest.fixture
def made(cloud):
    return cloud(HOSTS)


def ask(made, count=1, **values):
    uuids = new_uuids(count)
    return uuids, made.ask(made.compose(), uuids, **values)


def one_by_one(made):
    """Refuse claims that are made together: each instance gets a request of its own."""
    made.proxy.on('POST', JOINT, proxy.answers(400, b'{}'), times=99)


# -- all or nothing


def test_a_conflict_on_the_second_of_two_leaves_nothing(made):
    one_by_one(made)
    made.proxy.on('PUT', CLAIM, consumer_changed, nth=2, times=2)
    with pytest.raises(errors.AllocationUpdateFailed):
        ask(made, 2)
    assert made.held() == {}


def test_a_request_without_a_list_of_resources_is_served(made):
    uuids, found = ask(made, requested_resources=None)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


def test_one_claim_that_is_not_deleted_keeps_none_of_the_others(made):
    one_by_one(made)
    made.proxy.on('PUT', CLAIM, REFUSED, nth=4, times=99)
    made.proxy.on('DELETE', CLAIM, proxy.answers(500, b'oops'))
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, 4)
    assert made.held() == {}


def test_no_valid_host_stays_that_when_a_claim_cannot_be_undone(made, caplog):
    one_by_one(made)
    made.proxy.on('PUT', CLAIM, REFUSED, nth=4, times=99)
    for nth in (1, 2):
        made.proxy.on('DELETE', CLAIM, proxy.answers(500, b'oops'), nth=nth)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, 4)
    (left,) = made.held()
    said = [r.getMessage() for r in caplog.records if r.levelname == 'ERROR']
    assert any('may be left behind' in line and left in line for line in said)


# -- the outcome is unknown


@pytest.mark.parametrize(
    ('count', 'method'),
    [
        pytest.param(1, 'PUT', id='of one instance'),
        pytest.param(2, 'POST', id='of two together'),
    ],
)
def test_a_claim_whose_answer_is_late_is_looked_up(cloud, count, method):
    made = cloud(HOSTS, timeout_s=IMPATIENT_S)
    made.proxy.on(method, CLAIMS, proxy.late)
    uuids, found = ask(made, count)
    assert made.held() == {u: set(hosts) for u, hosts in zip(uuids, found, strict=True)}
    assert len(made.proxy.asked(method, CLAIMS)) == 1


@pytest.mark.parametrize(
    'fault',
    [
        pytest.param(proxy.lose, id='the answer is lost'),
        pytest.param(proxy.drop, id='the request is lost'),
        pytest.param(proxy.answers(504, b'<html>', after=True), id='a gateway tires'),
        pytest.param(proxy.answers(502, b'<html>'), id='a gateway fails'),
    ],
)
def test_a_claim_without_a_word_of_placement_is_looked_up(made, fault):
    made.proxy.on('PUT', CLAIM, fault)
    uuids, found = ask(made)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


def test_a_claim_that_arrives_late_adds_nothing(cloud):
    made = cloud(HOSTS, timeout_s=IMPATIENT_S)
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    uuids, found = ask(made)
    made.proxy.stop()
    assert found == [['h1']]
    assert made.amounts(uuids[0]) == {
        'h1': {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1},
    }


@pytest.mark.parametrize(
    ('count', 'method'),
    [
        pytest.param(1, 'PUT', id='of one instance'),
        pytest.param(3, 'POST', id='of three together'),
    ],
)
def test_a_claim_that_nobody_can_look_up_is_undone(made, count, method):
    made.proxy.on(method, CLAIMS, proxy.lose, times=2)
    made.proxy.on('GET', CLAIM, proxy.answers(500, b'oops'), times=2)
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        ask(made, count)
    assert made.held() == {}


@pytest.mark.parametrize('status', [500, 503])
@pytest.mark.parametrize('count', [1, 2])
def test_an_error_after_the_claim_was_saved_is_no_refusal(made, status, count):
    fault = proxy.answers(status, b'<html>', after=True)
    made.proxy.on('PUT', CLAIM, fault)
    made.proxy.on('POST', JOINT, fault)
    uuids, found = ask(made, count)
    assert made.held() == {u: set(hosts) for u, hosts in zip(uuids, found, strict=True)}


def test_a_lost_claim_that_may_still_arrive_bars_every_other_host(cloud, new_uuid):
    made = cloud([Host('h1', memory_mb=9000, vcpus=1), Host('h2', vcpus=1)])
    other, lost = new_uuid(), []

    def on_its_way(exchange):
        lost.append(exchange.asked)
        exchange.hang_up()

    def refused(exchange):
        made.hold(other, h1={'VCPU': 1})
        proxy.passed(exchange)
        made.placement.release(other)

    made.proxy.on('PUT', CLAIM, on_its_way)
    made.proxy.on('PUT', CLAIM, refused, nth=2)
    made.proxy.on(
        'PUT', CLAIM, proxy.meanwhile(lambda: made.proxy.forward(lost[0])), nth=3
    )
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        ask(made)
    assert made.held() == {}


def test_nonsense_about_what_is_held_is_no_answer(made):
    nonsense = proxy.answers(200, b'{"allocations": ["x"]}')
    made.proxy.on('PUT', CLAIM, proxy.lose)
    made.proxy.on('GET', CLAIM, nonsense)
    with pytest.raises(errors.AllocationUpdateFailed, match='was undone'):
        ask(made)
    assert made.held() == {}


def test_once_placement_is_silent_no_more_is_asked_to_be_undone(made, caplog):
    made.proxy.on('POST', JOINT, proxy.lose, times=2)
    made.proxy.on('GET', CLAIM, proxy.drop, times=99)
    with pytest.raises(errors.AllocationUpdateFailed, match='may be left behind'):
        ask(made, 6)
    # Two to look for the claims, two to undo one of them; each is sent twice.
    assert len(made.proxy.asked('GET', CLAIM)) == 8
    said = [r.getMessage() for r in caplog.records if r.levelname == 'ERROR']
    assert len([line for line in said if 'may be left behind' in line]) == 6


# -- what placement says is not what it should be


@pytest.mark.parametrize(
    ('status', 'body'),
    [
        pytest.param(503, b'<html>no server is available</html>', id='a page'),
        pytest.param(500, b'', id='nothing'),
        pytest.param(400, b'{"errors": [{"detail": "no"}]}', id='no code'),
        pytest.param(400, b'{"errors": []}', id='no errors'),
        pytest.param(409, b'[]', id='no dict'),
    ],
)
def test_an_odd_refusal_takes_the_next_host(made, status, body):
    made.proxy.on('PUT', CLAIM, proxy.answers(status, body, 'text/html'))
    uuids, found = ask(made)
    assert found == [['h2']]
    assert made.held() == {uuids[0]: {'h2'}}


def test_conflicts_cost_no_sleep(made):
    made.proxy.on('PUT', CLAIM, provider_changed, times=8)
    scheduler = made.compose()
    start = time.monotonic()
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(scheduler, new_uuids())
    # Nova sleeps for up to 12 seconds for each of the two hosts.
    assert time.monotonic() - start < 3
    assert len(made.proxy.asked('PUT', CLAIM)) == 8
    assert made.held() == {}


def test_hosts_in_conflict_are_asked_again_before_there_is_none(made):
    made.proxy.on('PUT', CLAIM, provider_changed, times=4)
    uuids, found = ask(made)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


def test_after_conflicts_the_next_host_is_taken(made):
    made.proxy.on('PUT', CLAIM, provider_changed, times=2)
    uuids, found = ask(made)
    assert found == [['h2']]
    assert made.held() == {uuids[0]: {'h2'}}


# -- more than one candidate, more than one host


def test_two_servers_take_the_two_children_of_a_host(cloud):
    host = Host('h1')
    children = [child(host, name, VGPU=1) for name in ('gpu1', 'gpu2')]
    made = cloud([host], children)
    uuids, found = ask(made, 2, extra_specs={'resources:VGPU': '1'})
    assert found == [['h1'], ['h1']]
    held = made.held()
    assert set().union(*held.values()) == {'h1', 'h1_gpu1', 'h1_gpu2'}
    assert held.keys() == set(uuids)


def test_a_candidate_that_another_took_meanwhile_is_not_the_last(cloud, new_uuid):
    host = Host('h1')
    children = [child(host, name, VGPU=1) for name in ('gpu1', 'gpu2')]
    made = cloud([host], children)
    other = new_uuid()
    taken = []

    def take():
        body = json.loads(made.proxy.asked('PUT', CLAIM)[0].body)
        (gpu,) = set(body['allocations']) - {host.uuid}
        taken.append(made.names[gpu])
        made.hold(other, **{taken[0]: {'VGPU': 1}})

    made.proxy.on('PUT', CLAIM, proxy.meanwhile(take))
    uuids, found = ask(made, extra_specs={'resources:VGPU': '1'})
    assert found == [['h1']]
    (left,) = {'h1_gpu1', 'h1_gpu2'} - set(taken)
    assert made.held() == {uuids[0]: {'h1', left}, other: set(taken)}


def test_a_full_cloud_is_not_asked_host_by_host(cloud):
    made = cloud([Host(f'h{number}', vcpus=1) for number in range(6)])
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, 8)
    assert made.held() == {}
    # Nova: a GET and a PUT for each of 6 claims, and again for the 7th on each host.
    assert len(made.proxy.seen) == 1


# -- another process works for the same server


def test_what_a_newer_attempt_claimed_is_not_wiped(made):
    one_by_one(made)
    uuids = new_uuids(2)

    def claimed_anew(exchange):
        made.placement.release(uuids[0])
        made.hold(uuids[0], h2={'VCPU': 1, 'MEMORY_MB': 64})
        REFUSED(exchange)

    made.proxy.on('PUT', CLAIM, claimed_anew, nth=2)
    made.proxy.on('PUT', CLAIM, REFUSED, nth=2, times=9)
    with pytest.raises(errors.NoValidHost):
        made.ask(made.compose(), uuids)
    assert made.held() == {uuids[0]: {'h2'}}
