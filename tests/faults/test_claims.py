# SPDX-License-Identifier: Apache-2.0
"""Claims that go wrong on their way to placement, or there."""

from __future__ import annotations

import json
import time

import pytest

from novasched import errors
from novasched.claiming.claims import CHUNK
from novasched.claiming.request import LIMITS
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import CellMapping, Destination
from novasched.placement.rollback import TOGETHER
from novasched.ports import CallerGone
from novasched.scheduler.outcomes import Outcome
from tests.faults import proxy
from tests.faults.conftest import child
from tests.functional.conftest import CELLS, Host, named_uuid, new_uuids
from tests.support.tables.cases import cases

HOSTS = [Host('h1', memory_mb=9000, vcpus=4), Host('h2', vcpus=4)]
CLAIM = '^/allocations/'
JOINT = '^/allocations$'
CLAIMS = f'{CLAIM}|{JOINT}'
REFUSED = proxy.answers(500, b'oops')
IMPATIENT_S = 3
IN_CELL = Destination(cell=CellMapping(uuid=named_uuid(CELLS[0])))


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
    made.proxy.on('POST', JOINT, proxy.answers(400, b'{}'))


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
    made.proxy.on('PUT', CLAIM, REFUSED, nth=4, times=2)
    made.proxy.on('POST', JOINT, REFUSED, nth=2, times=2)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, 4)
    assert made.held() == {}


def test_no_valid_host_stays_that_when_a_claim_cannot_be_undone(made, caplog):
    one_by_one(made)
    made.proxy.on('POST', JOINT, REFUSED, nth=2, times=99)
    # The fourth finds no host, and one of the three cannot be undone.
    made.proxy.on('PUT', CLAIM, REFUSED, nth=4, times=4)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, 4)
    (left,) = made.held()
    assert any(
        f'Allocations of {left} are not undone yet' in m for m in caplog.messages
    )


# -- the outcome is unknown


@cases(
    'count, method',
    ('of one instance', 1, 'PUT'),
    ('of two together', 2, 'POST'),
)
@pytest.mark.scenario('F16', 'I2', 'I4')
def test_a_claim_whose_answer_is_late_is_looked_up(cloud, count, method):
    made = cloud(HOSTS, timeout_s=IMPATIENT_S)
    made.proxy.on(method, CLAIMS, proxy.late)
    uuids, found = ask(made, count)
    assert made.held() == {u: set(hosts) for u, hosts in zip(uuids, found, strict=True)}
    assert len(made.proxy.asked(method, CLAIMS)) == 1


@pytest.mark.scenario('F16', 'I2', 'I4')
def test_a_claim_without_a_word_of_placement_is_looked_up(made):
    scheduler = made.compose()
    for fault in (
        proxy.lose,
        proxy.drop,
        proxy.answers(504, b'<html>', after=True),
        proxy.answers(502, b'<html>'),
        proxy.answers(200, b'<html>', 'text/html'),
        proxy.answers(200, b'<html>', 'text/html', after=True),
    ):
        made.proxy.on('PUT', CLAIM, fault)
        uuids = new_uuids()
        assert made.ask(scheduler, uuids) == [['h1']]
        assert made.held() == {uuids[0]: {'h1'}}
        made.placement.release(uuids[0])


@pytest.mark.scenario('F16', 'I2', 'I4')
def test_a_claim_that_arrives_late_adds_nothing(cloud):
    made = cloud(HOSTS, timeout_s=IMPATIENT_S)
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    uuids, found = ask(made)
    made.proxy.stop()
    assert found == [['h1']]
    assert made.amounts(uuids[0]) == {
        'h1': {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1},
    }


@cases(
    'count, method',
    ('of one instance', 1, 'PUT'),
    ('of three together', 3, 'POST'),
)
@pytest.mark.scenario('F16', 'I2')
def test_claim_that_cannot_be_looked_up_is_rolled_back(made, count, method):
    made.proxy.on(method, CLAIMS, proxy.lose, times=2)
    made.proxy.on('GET', CLAIM, proxy.answers(500, b'oops'), times=2)
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        ask(made, count)
    assert made.held() == {}


def test_an_error_after_the_claim_was_saved_is_no_refusal(made):
    scheduler = made.compose()
    for status in (200, 500, 503):
        fault = proxy.answers(status, b'<html>', after=True)
        for count, method in ((1, 'PUT'), (2, 'POST')):
            made.proxy.on(method, CLAIMS, fault)
            uuids = new_uuids(count)
            found = made.ask(scheduler, uuids)
            assert made.held() == dict(zip(uuids, map(set, found), strict=True))
            for uuid in uuids:
                made.placement.release(uuid)


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
    assert sum('are not undone yet' in line for line in caplog.messages) == 6


# -- what placement says is not what it should be


def test_an_odd_refusal_takes_the_next_host(made):
    scheduler = made.compose()
    for status, body in (
        (503, b'<html>no server is available</html>'),
        (500, b''),
        (400, b'{"errors": [{"detail": "no"}]}'),
        (400, b'{"errors": []}'),
        (409, b'[]'),
    ):
        made.proxy.on('PUT', CLAIM, proxy.answers(status, body, 'text/html'))
        uuids = new_uuids()
        assert made.ask(scheduler, uuids) == [['h2']], body
        assert made.held() == {uuids[0]: {'h2'}}
        made.placement.release(uuids[0])


@pytest.mark.scenario('F13', 'I2', 'I7')
def test_conflicts_cost_no_sleep(made):
    made.proxy.on('PUT', CLAIM, provider_changed, times=2 * LIMITS[Outcome.BUSY].most)
    scheduler = made.compose()
    start = time.monotonic()
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(scheduler, new_uuids())
    # Nova sleeps for up to 12 seconds for each of the two hosts.
    assert time.monotonic() - start < 10
    assert len(made.proxy.asked('PUT', CLAIM)) == 2 * LIMITS[Outcome.BUSY].most
    assert made.held() == {}


@pytest.mark.scenario('F13', 'I4', 'I6')
def test_hosts_in_conflict_are_asked_again_before_there_is_none(made):
    made.proxy.on('PUT', CLAIM, provider_changed, times=4)
    uuids, found = ask(made)
    assert found == [['h1']]
    assert made.held() == {uuids[0]: {'h1'}}


@pytest.mark.scenario('F13', 'I2', 'I4')
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


def test_many_claims_are_undone_by_few_requests(cloud, new_uuid):
    made = cloud([Host('h1', vcpus=200, memory_mb=200_000, disk_gb=0)])
    with pytest.raises(CallerGone):
        select(made, made.compose(), new_uuids(CHUNK), Gone(), root_gb=0)
    assert made.held() == {}
    undo = made.proxy.asked('POST', JOINT)[1:]
    assert len(undo) == CHUNK // TOGETHER
    assert not made.proxy.asked('PUT', CLAIM)
    assert not made.proxy.asked('DELETE', CLAIM)


# -- another process works for the same server


class Gone:
    """A caller that is found to be gone after its claims were made."""

    def __init__(self, meanwhile=lambda: None):
        self._meanwhile = meanwhile

    def check(self):
        self._meanwhile()
        raise CallerGone('its caller does not read answers any more')

    def patience_left_s(self):
        return None


def select(made, scheduler, uuids, caller=None, **values):
    context, request = RequestContext(overwrite=False), made.request(**values)
    found = scheduler.manager.select_destinations(
        context, request, uuids, True, False, caller
    )
    return [[each.service_host for each in selections] for selections in found]


@cases(
    'held, move',
    ('evacuate', {'h1': {'VCPU': 1}}, {'ignore_hosts': ['h1']}),
    ('unshelve', {}, {'requested_destination': IN_CELL}),
)
def test_a_move_that_was_made_again_and_answered_is_not_undone(
    made, new_uuid, held, move
):
    server, answered = new_uuid(), []
    if held:
        made.hold(server, **held)
    first, second = made.compose(), made.compose()

    def again():
        answered.extend(select(made, second, [server], **move))

    with pytest.raises(CallerGone):
        select(made, first, [server], Gone(again), **move)
    ((host,),) = answered
    assert set(made.amounts(server)) == {*held, host}


@pytest.mark.scenario('F41', 'I4')
@pytest.mark.parametrize('by_a_scheduler', [False, True])
def test_claim_for_a_recreated_consumer_is_not_rolled_back(
    made, new_uuid, by_a_scheduler
):
    server, kept = new_uuid(), {}
    first, second = made.compose(), made.compose()

    def again():
        made.placement.release(server)
        if by_a_scheduler:
            answered = select(made, second, [server], ignore_hosts=['h1'])
            assert answered == [['h2']]
        else:
            made.hold(server, h2={'VCPU': 3, 'MEMORY_MB': 77})
        kept.update(made.amounts(server))

    with pytest.raises(CallerGone):
        select(made, first, [server], Gone(again), ignore_hosts=['h2'])
    assert made.amounts(server) == kept
    assert set(kept) == {'h2'}


@cases(
    'fault',
    ('no look is possible', ('GET', proxy.answers(500, b'oops'))),
    ('the first undo is lost', ('PUT', proxy.lose)),
)
def test_an_undo_never_removes_what_another_process_claimed(made, new_uuid, fault):
    server = new_uuid()
    newer = {'h2': {'VCPU': 3, 'MEMORY_MB': 77}}

    def claimed_anew():
        made.placement.release(server)
        made.hold(server, **newer)
        made.hold(server, **newer)
        method, how = fault
        made.proxy.on(method, CLAIM, how, times=9)

    with pytest.raises(CallerGone):
        select(made, made.compose(), [server], Gone(claimed_anew))
    assert made.amounts(server) == newer


def test_an_undo_is_refused_where_another_writes_just_before_it(made, new_uuid):
    server = new_uuid()
    newer = {'h1': {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}}

    def just_before(exchange):
        made.hold(server, **newer)
        proxy.passed(exchange)

    made.proxy.on('PUT', CLAIM, just_before, nth=2)
    with pytest.raises(CallerGone):
        select(made, made.compose(), [server], Gone())
    assert made.amounts(server) == newer


def test_a_request_that_is_delivered_twice_holds_one_host(cloud, new_uuid):
    """The second copy meets another rank: the first has taken the room of its host."""
    made = cloud([Host('h1', vcpus=1, memory_mb=9000), Host('h2', vcpus=1)])
    server = new_uuid()
    assert select(made, made.compose(), [server]) == [['h1']]
    with pytest.raises(errors.AllocationUpdateFailed, match='delivered twice'):
        select(made, made.compose(), [server])
    assert made.held() == {server: {'h1'}}


def test_several_that_are_delivered_twice_hold_one_host_each(made):
    servers = new_uuids(3)
    hosts = select(made, made.compose(), servers)
    with pytest.raises(errors.AllocationUpdateFailed, match='delivered twice'):
        select(made, made.compose(), servers)
    expected = {u: set(found) for u, found in zip(servers, hosts, strict=True)}
    assert made.held() == expected


# -- JSON that is no answer

BOMB = b'[' * 200_000


@cases(
    'method, where, status',
    ('candidates', 'GET', '^/allocation_candidates', 200),
    ('claim', 'PUT', CLAIM, 409),
)
def test_json_that_is_nested_too_deep_is_an_error(made, method, where, status):
    made.proxy.on(method, where, proxy.answers(status, BOMB), times=9)
    with pytest.raises(errors.NoValidHost):
        ask(made)
    assert made.held() == {}


def test_a_look_that_is_answered_by_deep_json_leaves_no_claim(made):
    made.proxy.on('PUT', CLAIM, proxy.lose)
    made.proxy.on('GET', CLAIM, proxy.answers(200, BOMB))
    with pytest.raises(errors.AllocationUpdateFailed, match='was undone'):
        ask(made)
    assert made.held() == {}


def test_an_odd_capacity_is_none(made):
    scheduler = made.compose()

    def odd(exchange):
        answer = exchange.forward()
        odd_number = b'"capacity": ' + number + b', "was": '
        body = answer.body.replace(b'"capacity": ', odd_number)
        exchange.answer(answer._replace(body=body))

    made.proxy.on('GET', '^/allocation_candidates', odd, times=99)
    for number in (b'NaN', b'Infinity', b'1e400', b'"x"', b'null'):  # noqa: B007
        uuids = new_uuids(3)
        assert len(made.ask(scheduler, uuids)) == 3
        assert made.held().keys() == set(uuids)
        for uuid in uuids:
            made.placement.release(uuid)


def test_claim_of_a_newer_attempt_is_not_rolled_back(made):
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
