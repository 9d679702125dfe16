# SPDX-License-Identifier: Apache-2.0
"""Members of server groups that are booted one by one and at once, by four scheduler
processes as two machines."""

from __future__ import annotations

import functools
import itertools
import os
import random
import re
import signal
import uuid
from concurrent.futures import as_completed

import pytest

from tests.faults.audit import Audit, Failure
from tests.faults.resources import children
from tests.live.cloud import Cloud, built
from tests.live.daemon import own_program
from tests.live.flow import remove_providers
from tests.live.hosts import Host
from tests.live.peer import Reply

ANSWER_S = 60
WORKERS = 2
NUMBER = 16
ROUNDS = 20
KILLS = 20
SPLITS = 5
SETTLE_S = 120
MOVING = 6
TOGETHER = ('POST', '/allocations')
SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}


class EqualHosts(Cloud):
    """Sixteen hosts, none of which is better than another."""

    hosts = {
        f'together-{n}': Host(f'together-{n}', 'cell1', 'az1', 64)
        for n in range(1, NUMBER + 1)
    }
    zones = ('az1',)
    cells = ('cell1',)


@pytest.fixture(scope='module')
def equal_hosts(scratch, peer, servers):
    manage = own_program('novasched-manage')
    cloud = EqualHosts(scratch / 'together', servers, manage, prefix='together_')
    with built(cloud) as made:
        peer.wait_ready()
        yield made
    names = [host.node for host in cloud.hosts.values()]
    remove_providers(servers.placement, names)


@pytest.fixture
def machines(daemon, equal_hosts, rabbitmq, eventually, account, tmp_path):
    """Start two machines: `machines(of_database)`; they share a queue alone."""

    def start(of_database):
        url = rabbitmq.create_vhost()
        own = {'candidates': 'auto', 'host_state_max_age': 1, 'mirror_api_share': 1.0}
        for name in ('one', 'two'):
            made = daemon(
                equal_hosts,
                DEFAULT={
                    'transport_url': url,
                    'host': name,
                    'state_path': str(tmp_path / name),
                    'rpc_response_timeout': ANSWER_S,
                },
                filter_scheduler={'host_subset_size': 2},
                placement_database={'connection': account if of_database else None},
                scheduler={'workers': WORKERS},
                novasched=own,
            )
        eventually(
            lambda: rabbitmq.queue(url, 'scheduler')[1] == 2 * WORKERS, 'all workers'
        )
        return made

    return start


def ask(cloud, machine, policy, number, members):
    """Boot the members of so many groups, one by one and all at once; return these by
    group, and what is to be waited for."""
    uuids = {str(uuid.uuid4()): [] for _ in range(number)}
    for group in uuids:
        cloud.insert('api', 'instance_groups', [{'uuid': group, 'name': policy}])
        (row,) = cloud.rows('api', 'instance_groups', uuid=group)
        uuids[group] = [str(uuid.uuid4()) for _ in range(members)]
        cloud.insert(
            'api',
            'instance_group_member',
            [{'group_id': row['id'], 'instance_uuid': each} for each in uuids[group]],
        )
    order = [(group, each) for group, every in uuids.items() for each in every]
    random.Random(members).shuffle(order)
    return uuids, [
        machine.client.submit(
            uuids=[each],
            flavor=SMALL,
            group={'uuid': group, 'policy': policy, 'members': [each]},
        )
        for group, each in order
    ]


def boot(cloud, machine, policy, number, members):
    """Ask, and return the hosts of each group in the order of its members."""
    uuids, asked = ask(cloud, machine, policy, number, members)
    found = {
        reply.uuid: reply.hosts[0] for reply in itertools.starmap(Reply, answers(asked))
    }
    return uuids, {group: [found[each] for each in uuids[group]] for group in uuids}


def answers(asked):
    return [(named, future.result(ANSWER_S)) for named, future in asked]


def has_only(placement, consumers):
    return placement.consumers() == consumers


def release(placement, uuids):
    for every in uuids.values():
        for each in every:
            placement.release(each)


def rounds(number):
    """The first tier has one round."""
    return pytest.mark.parametrize(
        'number',
        [1, pytest.param(number, marks=pytest.mark.exhaustive('more rounds of it'))],
    )


@rounds(ROUNDS)
@pytest.mark.parametrize(
    'of_database',
    [
        True,
        pytest.param(
            False,
            marks=pytest.mark.exhaustive('the other way to read placement: the same'),
        ),
    ],
)
@pytest.mark.scenario('F46', 'I5', 'I6')
def test_groups_are_kept_apart_and_together(
    equal_hosts, placement, machines, claims, number, of_database
):
    machine = machines(of_database)
    apart, together = (2, 3) if of_database else (1, 1)
    for _ in range(number):
        uuids, found = boot(equal_hosts, machine, 'anti-affinity', apart, NUMBER)
        for hosts in found.values():
            assert sorted(hosts) == sorted(equal_hosts.hosts)
        release(placement, uuids)
        uuids, found = boot(equal_hosts, machine, 'affinity', together, 8)
        for hosts in found.values():
            assert len({*hosts}) == 1, hosts
        release(placement, uuids)


@rounds(ROUNDS)
@pytest.mark.scenario('F46', 'I5', 'I6')
def test_members_that_move_at_once_stay_apart(
    equal_hosts, placement, machines, claims, number
):
    """What they hold goes to their migrations first, as conductors do it."""
    machine = machines(of_database=True)
    for _ in range(number):
        uuids, found = boot(equal_hosts, machine, 'anti-affinity', 1, MOVING)
        ((group, members),) = uuids.items()
        asked = []
        for member, host in zip(members, found[group], strict=True):
            placement.release(member)
            asked.append(
                machine.client.submit(
                    uuids=[member],
                    flavor=SMALL,
                    ignore_hosts=[host],
                    group={'uuid': group, 'policy': 'anti-affinity'},
                )
            )
        hosts = [Reply(*each).hosts[0] for each in answers(asked)]
        assert len({*hosts}) == MOVING, hosts
        release(placement, uuids)


@pytest.mark.exhaustive('minutes: a group that is split has no host for 32 yields')
@pytest.mark.parametrize('of_database', [True, False])
@pytest.mark.scenario('F46', 'I2', 'I4')
def test_beside_a_nova_scheduler_all_are_answered(
    equal_hosts, placement, machines, nova_scheduler, claims, eventually, of_database
):
    """It does not look, so that two of a group may be on two hosts; the others are
    refused then, and none of them waits for those before it."""
    machine = machines(of_database)
    nova_scheduler(
        equal_hosts,
        machine.url,
        DEFAULT={'rpc_response_timeout': ANSWER_S},
        filter_scheduler={'host_subset_size': 2},
    )
    for _ in range(SPLITS):
        _, asked = ask(equal_hosts, machine, 'affinity', 2, NUMBER)
        answered = set()
        for (member,), future in asked:
            problem = future.exception(2 * ANSWER_S)
            assert problem is None or problem.name == 'NoValidHost', problem
            answered |= set() if problem else {member}
        eventually(functools.partial(has_only, placement, answered), 'the undo')
        release(placement, {'answered': answered})


@pytest.mark.exhaustive('the sizes of POSTs are tested without a nova-scheduler')
@pytest.mark.scenario('F47', 'I1', 'I2', 'I4', 'I6')
def test_claims_in_one_post_beside_a_nova_scheduler(
    equal_hosts, placement, machines, nova_scheduler, claims, eventually
):
    machine = machines(of_database=True)
    nova_scheduler(equal_hosts, machine.url, filter_scheduler={'host_subset_size': 2})
    posts = placement.accesses().count(TOGETHER)
    asked = [machine.client.submit(flavor=SMALL) for _ in range(10 * NUMBER)]
    answered = {Reply(*each).uuid for each in answers(asked)}
    assert len(answered) == len(asked)
    eventually(functools.partial(has_only, placement, answered), 'the undo')
    assert placement.accesses().count(TOGETHER) > posts
    release(placement, {'answered': answered})


def ask_audited(cloud, audit, machine, policy, number, members):
    """Ask, and let an audit see each answer at the moment when it comes."""
    uuids, asked = ask(cloud, machine, policy, number, members)
    for every in uuids.values():
        audit.group(policy, every)

    def ended(call, future):
        problem = future.exception()
        if problem is None:
            audit.answered(call, Reply(call.consumers, future.result()).nodes)
        elif problem.name == 'MessagingTimeout':
            audit.gave_up(call)
        else:
            audit.failed(call, Failure(problem.name, problem.module, problem.text))

    for named, future in asked:
        call = audit.sent(named)
        future.add_done_callback(functools.partial(ended, call))
    return [future for _, future in asked]


@pytest.mark.exhaustive('minutes: the callers of what is killed wait for its answers')
@pytest.mark.parametrize('number', range(KILLS))
@pytest.mark.parametrize('killed', ['worker', 'scheduler'])
@pytest.mark.scenario('F46', 'I1', 'I2', 'I3', 'I4', 'I5')
def test_killed_worker_or_scheduler_leaves_no_claim_in_a_group(
    equal_hosts, placement, machines, claims, eventually, killed, number
):
    """One of two machines loses a worker, or all; these are started again, as systemd
    does. Claims that were being answered are named in the log, see F3."""
    machine, chance = machines(of_database=True), random.Random(number)
    audit = Audit.of(placement, settle_s=SETTLE_S)
    policy = ('anti-affinity', 'affinity')[number % 2]
    futures = ask_audited(equal_hosts, audit, machine, policy, 2, NUMBER)
    answered = chance.randrange(1, NUMBER)
    for _ in zip(range(answered), as_completed(futures, ANSWER_S), strict=False):
        pass
    if killed == 'worker':
        victim = chance.choice(children(machine.process.pid))
        os.kill(victim, signal.SIGKILL)
    else:
        machine.process.end_by(signal.SIGKILL)
        machine.restart()

    def have_ended():
        return all(call.answers or call.gave_up_s for call in audit.calls)

    eventually(have_ended, 'all requests', 2 * ANSWER_S)
    answers = {one for call in audit.calls for one in call.nodes}

    def is_settled():
        named = {*re.findall(r'for (\S+) may be left behind', machine.log)}
        return placement.consumers() <= answers | named

    eventually(is_settled, 'the undo', SETTLE_S)
    left = [call for call in audit.calls if not call.answers]
    audit.left_by(*left)
    audit.check('I1', 'I2', 'I3', 'I4', 'I5')
    assert {call.failure for call in audit.calls} == {None}
    claims.expect(*answers, *audit.left_behind())
