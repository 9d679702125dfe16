# SPDX-License-Identifier: Apache-2.0
"""Allocation of all PCI requests of a guest on one host."""

import pytest

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.scheduler.fit.pci import Pool, requests_of
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed, HostDevices
from novasched.scheduler.reasons import Code
from tests.support.tables.cases import cases

INTEL = {'vendor_id': '8086'}
A = {'rp_uuid': 'rpA'}
LIVE = {'live_migratable': 'true'}
NVIDIA = {'vendor_id': '10de'}
OF_PLACEMENT = {'resource_class': 'X', 'traits': 'Y'}
TWICE_A = {'R-0': ['rpA'], 'R-1': ['rpA']}


def pool(count=1, numa_node=None, rp_uuid=None, **tags):
    return Pool(frozenset({**INTEL, **tags}.items()), numa_node, count, rp_uuid)


def asked(count=1, *alternatives, **fields):
    fields = {'alias_name': 'a', 'request_id': 'R', **fields}
    return InstancePCIRequest(count=count, spec=list(alternatives or [INTEL]), **fields)


def devices(pools, requests, mapping=None, sockets=None):
    wanted = requests_of(InstancePCIRequests(requests=list(requests)))
    return HostDevices(tuple(pools), wanted, mapping, sockets or {})


def kind(name, value, wanted=None):
    """A pool of devices with a tag, and a request for them."""
    return [pool(**{name: value})], [asked(1, {name: wanted or value})]


@cases(
    'pools, requests, passes',
    ('no pools', [], [asked()], False),
    ('as many as asked for', [pool(2)], [asked(2)], True),
    ('one too few', [pool(1)], [asked(2)], False),
    ('two pools', [pool(x='a'), pool(x='b')], [asked(2)], True),
    ('in other letters', *kind('net', 'PhysNet1', 'physnet1'), True),
    ('no such tag', [pool()], [asked(1, {'net': 'n'})], False),
    ('one of two', [pool(**NVIDIA)], [asked(1, INTEL, NVIDIA)], True),
    ('a function', [pool(dev_type='type-PF')], [asked()], False),
    ('a function asked for', *kind('dev_type', 'type-PF'), True),
    ('vDPA', [pool(dev_type='vdpa')], [asked()], False),
    ('vDPA asked for', *kind('dev_type', 'vdpa'), True),
    ('remote-managed', [pool(remote_managed='true')], [asked()], False),
    ('remote-managed asked for', *kind('remote_managed', 'True', 'true'), True),
    ('two want the one', [pool(1)], [asked(), asked()], False),
    ('one for each', [pool(2)], [asked(), asked()], True),
    ('what placement looks at', [pool()], [asked(1, {**INTEL, **OF_PLACEMENT})], True),
    ('an earlier claim', [pool(**A)], [asked(1, {**INTEL, 'rp_uuids': 'rpA'})], True),
    ('another one', [pool(**A)], [asked(1, {**INTEL, 'rp_uuids': 'rpB'})], False),
    ('migrates live', [pool(**LIVE)], [asked(1, LIVE)], True),
    ('may not migrate live', [pool()], [asked(1, LIVE)], False),
)
def test_support_without_nodes(pools, requests, passes):
    found = devices(pools, requests, {})
    assert found.wanted
    assert found.supports(frozenset()) is passes
    assert found.supports(frozenset()) is passes


@cases(
    'pools, wanted, mapping, passes',
    ('the provider', [pool(**A), pool(rp_uuid='rpB')], asked(), {'R-0': ['rpA']}, True),
    ('another', [pool(**A), pool(rp_uuid='rpB')], asked(), {'R-0': ['rpZ']}, False),
    ('not tracked', [pool()], asked(), {'R-0': ['rpA']}, False),
    ('two of one provider', [pool(2, **A)], asked(2), TWICE_A, True),
    ('two of one that has one', [pool(1, **A)], asked(2), TWICE_A, False),
    ('a port', [pool()], asked(alias_name=None), {'R-0': ['rpA']}, True),
    ('no group: any', [pool()], asked(), {'': ['rpCN']}, True),
    ('two pools', [pool(**A), pool(x='y', **A)], asked(), {'R-0': ['rpA']}, False),
)
def test_support_of_a_candidate(pools, wanted, mapping, passes):
    assert devices(pools, [wanted], mapping).supports(frozenset()) is passes


@cases(
    'node, policies',
    ('same', 0, {None, 'legacy', 'required', 'preferred', 'socket'}),
    ('same socket', 1, {'preferred', 'socket'}),
    ('another socket', 2, {'preferred'}),
    ('no node', None, {None, 'legacy', 'preferred'}),
)
def test_policies(node, policies):
    sockets = {0: 0, 1: 0, 2: 1}
    assert policies == {
        policy
        for policy in (None, 'legacy', 'required', 'preferred', 'socket')
        if devices(
            [pool(numa_node=node)], [asked(numa_policy=policy)], None, sockets
        ).supports(frozenset({0}))
    }


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


def test_nothing_asked_for_takes_nothing():
    pools = (pool(2, 0), pool())
    assert devices(pools, []).apply(frozenset({0})) == pools


@pytest.mark.parametrize('nodes', [None, frozenset()])
def test_apply_without_nodes(nodes):
    found = devices([pool(1), pool(2, x='y')], [asked(2)])
    assert found.apply(nodes) == (pool(1, x='y'),)


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
