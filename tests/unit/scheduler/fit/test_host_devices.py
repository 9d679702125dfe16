# SPDX-License-Identifier: Apache-2.0
"""Allocation of all PCI requests of a guest on one host."""

import pytest

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.scheduler.fit.pci import Pool, requests_of
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed, HostDevices
from novasched.scheduler.reasons import Code
from tests.support.tables.cases import cases

INTEL = {'vendor_id': '8086'}


def pool(count=1, numa_node=None, rp_uuid=None, **tags):
    return Pool(frozenset({**INTEL, **tags}.items()), numa_node, count, rp_uuid)


def asked(count=1, *alternatives, **fields):
    fields = {'alias_name': 'a', 'request_id': 'R', **fields}
    return InstancePCIRequest(count=count, spec=list(alternatives or [INTEL]), **fields)


def devices(pools, requests, mapping=None, sockets=None):
    wanted = requests_of(InstancePCIRequests(requests=list(requests)))
    return HostDevices(tuple(pools), wanted, mapping, sockets or {})


@pytest.mark.parametrize('requests', [1, 2])
def test_nodes_that_look_alike_get_one_answer(requests):
    wanted = [asked(numa_policy='required')] * requests
    sockets = dict.fromkeys(range(9), 0)
    found = devices([pool(requests, 0), pool(4, 1, x='y')], wanted, None, sockets)
    assert [found.supports(frozenset({n, n + 1})) for n in (0, 1, 2, 3)] == [
        True,
        True,
        False,
        False,
    ]
    assert found.support_key(frozenset({2})) == found.support_key(frozenset({3, 4}))
    assert found.support_key(frozenset({2})) != found.support_key(frozenset())


def test_a_socket_policy_sees_sockets():
    found = devices(
        [pool(1, 0)], [asked(numa_policy='socket')], None, {0: 0, 1: 1, 2: 0}
    )
    assert found.support_key(frozenset({1})) != found.support_key(frozenset({2}))
    assert [found.supports(frozenset({n})) for n in (0, 1, 2)] == [True, False, True]


def test_nodes_with_the_same_devices_look_alike():
    pools = [pool(1, 0), pool(1, 1), pool(2, 2)]
    found = devices(pools, [asked(2)], None, dict.fromkeys(range(4), 0))
    seen = [found.cell_class(n) for n in range(4)]
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


def test_devices_on_a_cell():
    found = devices([pool(2, 0), pool(3, 0, dev_type='type-PF'), pool(4)], [])
    assert not found.wanted
    assert [found.on_cell(n) for n in (0, 1)] == [5, 0]
    assert found.supports(frozenset({7}))


def test_apply_takes_for_one_request_after_the_other():
    requests = [asked(), asked(1, {'x': 'y'}, numa_policy='required')]
    found = devices([pool(2, 0), pool(2, 1), pool(2, 0, x='y')], requests)
    assert found.apply(frozenset({0, 1})) == (pool(1, 0), pool(2, 1), pool(1, 0, x='y'))


def test_no_request_makes_room_for_a_later_one():
    requests = [asked(), asked(1, {'x': 'y'})]
    assert not devices([pool(1, x='y'), pool(1)], requests).supports(frozenset())
    assert devices([pool(1), pool(1, x='y')], requests).supports(frozenset())


def test_a_failure_keeps_what_was_taken_before_it():
    requests = [asked(alias_name='one'), asked(2, alias_name='two')]
    found = devices([pool(2, 0)], requests)
    with pytest.raises(DeviceRequestFailed) as failure:
        found.apply(frozenset({0}))
    assert failure.value.left == (pool(1, 0),)
    assert failure.value.reason == found.why(frozenset({0}))
    assert str(failure.value) == 'two (vendor_id=8086): 1 of 2 free'
    assert failure.value.reason.code is Code.PCI_DEVICES_MISSING


def test_why_not_although_it_would_fit():
    assert devices([pool()], [asked()]).why(None).code is Code.REJECTED


@cases(
    'requests, elsewhere',
    ('too few', [asked(3, numa_policy='required')], {1: 2, 2: 1}),
    ('enough', [asked(1, numa_policy='required')], {}),
    (
        'the second of two',
        [asked(1, numa_policy='required'), asked(1, {'x': 'y'})],
        {2: 1},
    ),
    ('nowhere', [asked(1, {'x': 'z'})], {}),
)
def test_where_else_there_are_devices(requests, elsewhere):
    pools = [pool(1, 0), pool(2, 1), pool(4), pool(1, 2, x='y')]
    assert devices(pools, requests).elsewhere(frozenset({0})) == elsewhere


NONE, ONE, TWO = frozenset(), frozenset({1}), frozenset({1, 2})
NEAR = {'numa_policy': 'required'}


@cases('pools, requests, nodes, passes',
    ('too few near, and nowhere', [pool(2, 1)], [asked(3)], TWO, False),
    ('one near to no node', [pool(2, 1), pool()], [asked(3)], ONE, True),
    ('one near to no node, where they must be near', [pool(2, 1), pool()],
     [asked(3, **NEAR)], ONE, False),
    ('too few for both', [pool(2, 1), pool(1, 2)], [asked(2, **NEAR), asked(2, **NEAR)],
     TWO, False),
    ('enough for both', [pool(2, 1), pool(2, 2)], [asked(2, **NEAR), asked(2, **NEAR)],
     TWO, True),
    ('enough for both, one of them near to no node', [pool(2, 1), pool(1)],
     [asked(2, **NEAR), asked(1)], ONE, True),
    ('devices that nobody asks for do not count',
     [pool(2, 1), pool(2, 1, vendor_id='10de')], [asked(2), asked(2)], ONE, False),
    ('one that may go elsewhere takes those that are near', [pool(1, 1), pool(3, 2)],
     [asked(2, numa_policy='preferred'), asked(1)], ONE, False),
    ('one that may go elsewhere does', [pool(1, 1), pool(3, 2)],
     [asked(1), asked(3, numa_policy='preferred')], ONE, True),
    ('without nodes', [pool(1, 1)], [asked(1), asked(1)], NONE, False),
)  # fmt: skip
def test_devices_near_the_nodes(pools, requests, nodes, passes):
    assert devices(pools, requests, sockets={1: 0, 2: 0}).supports(nodes) is passes


@pytest.mark.parametrize(('count', 'walked'), [(2, False), (1, True)])
def test_pools_are_not_searched_if_devices_are_too_few(count, walked):
    tried = []

    class Trying(HostDevices):
        def _in_turn(self, nodes):
            tried.append(nodes)
            return super()._in_turn(nodes)

    wanted = requests_of(InstancePCIRequests(requests=[asked(count, **NEAR)]))
    assert Trying((pool(1, 1),), wanted, None, {}).supports(ONE) is walked
    assert bool(tried) is walked
