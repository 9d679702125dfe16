# SPDX-License-Identifier: Apache-2.0
"""The daemon with the chance scheduler: any host that is up, and no claim."""

import pytest

from tests.live.peer import PeerError
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

UP = {f'node-{number}' for number in range(1, 7)}


@pytest.fixture(scope='module')
def chance(module_daemon):
    """A daemon that is told by nova's old class path to leave it to chance."""
    driver = 'nova.scheduler.chance.ChanceScheduler'
    return module_daemon(DEFAULT={'scheduler_driver': driver})


def test_every_instance_gets_another_host_and_claims_nothing(chance, cloud, placement):
    reply = chance.select(count=6)
    assert set(reply.hosts) == UP
    for each in reply.best:
        host = cloud.hosts[each['service_host']]
        assert each['nodename'] == host.node
        assert each['compute_node_uuid'] == host.uuid
        assert each['cell_uuid'] == cloud.cell_uuid(host.cell)
        assert each['availability_zone'] == host.zone
        assert each['allocation_request'] == 'null'
        assert each['limits'] == {}
    assert placement.consumers() == set()


def test_hosts_come_by_chance(chance):
    drawn = {chance.select().hosts[0] for _ in range(30)}
    assert len(drawn) > 1
    assert drawn <= UP


def test_alternates_are_of_the_cell(chance, cloud):
    reply = chance.select()
    (chosen,) = reply.best
    others = {each['service_host'] for each in reply.alternates}
    cell = cloud.hosts[chosen['service_host']].cell
    assert {cloud.hosts[name].cell for name in others} == {cell}
    assert len(others) == (2 if cell == 'cell1' else 1)
    assert chosen['service_host'] not in others


@cases(
    'request_, host',
    ('a forced host', {'force_hosts': ['NODE-4']}, 'node-4'),
    ('a forced node', {'force_nodes': ['node-3.example.org']}, 'node-3'),
    ('ignored hosts', {'ignore_hosts': sorted(UP - {'node-6'})}, 'node-6'),
    ('a requested host', {'destination': {'host': 'node-5', 'node': None}}, 'node-5'),
)
def test_the_request_names_hosts(chance, request_, host):
    assert chance.select(**request_).hosts == [host]


@cases(
    'request_, reason',
    ('ignored', {'ignore_hosts': sorted(UP)}, 'Could not find another compute'),
    (
        'a host that is down is not there to be forced',
        {'force_hosts': ['node-down']},
        'Could not find another compute',
    ),
)
def test_no_host_is_said_in_novas_words(chance, request_, reason):
    with pytest.raises(PeerError) as raised:
        chance.select(**request_)
    assert raised.value.name == 'NoValidHost'
    assert raised.value.text == f'No valid host was found. {reason}'


def test_the_log_says_once_what_chooses(chance):
    warnings = [line for line in chance.log.splitlines() if ' WARNING ' in line]
    for words in (
        'Option "scheduler_driver" from group "DEFAULT" is deprecated',
        'nova.scheduler.chance.ChanceScheduler is called chance_scheduler today',
        '[scheduler] driver is chance_scheduler, not filter_scheduler: ',
    ):
        assert len([line for line in warnings if words in line]) == 1, chance.log
