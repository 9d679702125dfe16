# SPDX-License-Identifier: Apache-2.0
"""Allocation of one PCI request, and the equivalence classes of cells."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.pci import DeviceRequest, Pool
from novasched.scheduler.fit.pci_allocation import PciAllocation, cell_classes
from novasched.scheduler.reasons import Code

ANY = (frozenset(),)
TWO_SOCKETS = {0: 0, 1: 0, 2: 1, 3: 1}


def pool(numa_node=None, count=1, rp_uuid=None, **tags):
    return Pool(frozenset(tags.items()), numa_node, count, rp_uuid)


def serving(pools, count=1, policy='legacy', alternatives=ANY, **providers):
    request = DeviceRequest(count, alternatives, 'a', 'R', policy)
    return PciAllocation(request, providers, pools)


def taken(served, *nodes, sockets=TWO_SOCKETS):
    """Return how many devices are taken by node; None: the request does not fit."""
    chosen = frozenset(nodes)
    if not served.fits(chosen, sockets):
        return None
    left = {pool.numa_node: pool.count for pool in served.left(chosen, sockets)}
    lost = {each.numa_node: each.count for each in served.pools}
    return {
        node: n - left.get(node, 0) for node, n in lost.items() if n != left.get(node)
    }


POLICIES = ('legacy', 'required', 'preferred', 'socket')


@pytest.mark.parametrize('policy', POLICIES)
def test_near_devices_serve_every_policy(policy):
    served = serving([pool(2), pool(), pool(0)], policy=policy)
    assert taken(served, 0) == {0: 1}


@pytest.mark.parametrize('policy', POLICIES)
def test_a_guest_without_nodes_has_no_policy(policy):
    served = serving([pool(2), pool(), pool(0)], count=2, policy=policy)
    assert taken(served) == {2: 1, None: 1}


@pytest.mark.parametrize(
    ('policy', 'nodes_with_devices', 'count', 'by_node'),
    [
        pytest.param('legacy', [1], 1, None, id='legacy, another node'),
        pytest.param('legacy', [None], 1, {None: 1}, id='legacy, no node'),
        pytest.param('legacy', [None, 0], 2, {None: 1, 0: 1}, id='legacy, both'),
        pytest.param('required', [None, 0], 2, None, id='required, both'),
        pytest.param('required', [1], 1, None, id='required, another node'),
        pytest.param('preferred', [1], 1, {1: 1}, id='preferred, another node'),
        pytest.param(
            'preferred', [1, None, 0], 2, {None: 1, 0: 1}, id='preferred, near ones do'
        ),
        pytest.param(
            'preferred',
            [3, 1, None, 0],
            3,
            {None: 1, 0: 1, 3: 1},
            id='preferred, near ones first',
        ),
        pytest.param('socket', [1], 1, {1: 1}, id='socket, another node of it'),
        pytest.param('socket', [2], 1, None, id='socket, another one'),
        pytest.param('socket', [None], 1, None, id='socket, no node'),
        pytest.param('socket', [1, 0], 2, {1: 1, 0: 1}, id='socket, both nodes of it'),
    ],
)
def test_policy(policy, nodes_with_devices, count, by_node):
    served = serving([pool(node) for node in nodes_with_devices], count, policy)
    assert taken(served, 0) == by_node


@pytest.mark.parametrize(
    ('sockets', 'by_node'),
    [
        pytest.param({0: 0, 1: 0}, {1: 1}, id='known'),
        pytest.param(
            {0: 0, 1: 0, 2: None}, None, id='one that does not matter unknown'
        ),
        pytest.param({}, None, id='the host has no nodes'),
        pytest.param({0: 1, 1: 0}, None, id='two sockets'),
    ],
)
def test_sockets(sockets, by_node):
    assert taken(serving([pool(1)], policy='socket'), 0, sockets=sockets) == by_node


def test_an_unknown_node_is_on_no_socket():
    assert taken(serving([pool(1)], policy='socket'), 9) is None


def test_a_near_function_hides_devices_elsewhere():
    pools = [pool(0, dev_type='type-PF'), pool(1)]
    assert taken(serving(pools, policy='preferred'), 0) is None
    assert taken(serving(pools[1:], policy='preferred'), 0) == {1: 1}


@pytest.mark.parametrize(
    ('counts', 'wanted', 'left'),
    [
        pytest.param([1, 2], 1, [2], id='the first vanishes'),
        pytest.param([3, 2], 1, [2, 2], id='the first shrinks'),
        pytest.param([1, 2, 5], 2, [1, 5], id='across two'),
        pytest.param([0, 2], 1, [1], id='an empty one on the way vanishes'),
        pytest.param([1, 0], 1, [0], id='an empty one behind stays'),
        pytest.param([2], 0, [2], id='none'),
    ],
)
def test_devices_are_taken_in_order(counts, wanted, left):
    served = serving([pool(n, count) for n, count in enumerate(counts)], wanted)
    assert served.fits(frozenset(), {})
    assert [each.count for each in served.left(frozenset(), {})] == left


@pytest.mark.parametrize(
    ('pools', 'providers', 'left'),
    [
        pytest.param(
            [pool(0, 2, 'A'), pool(1, 1, 'B')], {'B': 1}, {0: 2}, id='the one'
        ),
        pytest.param([pool(0, 3, 'A')], {'A': 2}, {0: 1}, id='twice the same'),
        pytest.param([pool(0, 1, 'A')], {'A': 2}, None, id='twice, but there is one'),
        pytest.param([pool(0, 9)], {'A': 1}, None, id='a pool of no provider'),
        pytest.param(
            [pool(0, 2, 'A'), pool(1, 1, 'A', x='y')], {'A': 1}, None, id='ambiguous'
        ),
        pytest.param(
            [pool(0, 2, 'A'), pool(1, 1, 'A'), pool(2, 1, 'B')],
            {'B': 1},
            None,
            id='another is ambiguous',
        ),
        pytest.param(
            [pool(0, 2), pool(1, 1), pool(2, 1, 'B')],
            {'B': 1},
            {0: 2, 1: 1},
            id='two of no provider',
        ),
    ],
)
def test_providers(pools, providers, left):
    served = serving(pools, sum(providers.values()), **providers)
    fits = served.fits(frozenset(), {})
    found = served.left(frozenset(), {}) if fits else None
    assert left == (found and {each.numa_node: each.count for each in found})


def test_a_provider_on_the_wrong_node_goes_unnoticed():
    served = serving([pool(0, 2, 'A'), pool(1, 2, 'B')], 2, A=1, B=1)
    assert taken(served, 0) == {0: 1}


NIC = frozenset({('vendor', 'x')})


@pytest.mark.parametrize(
    ('pools', 'fields', 'code', 'text'),
    [
        pytest.param(
            [], {}, Code.PCI_DEVICES_MISSING, 'a (any): 0 of 2 free', id='no pools'
        ),
        pytest.param(
            [pool(0, 1, vendor='x'), pool(0, 5, vendor='y')],
            {'alternatives': (NIC,)},
            Code.PCI_DEVICES_MISSING,
            'a (vendor=x): 1 of 2 free, 5 do not match',
            id='too few that match',
        ),
        pytest.param(
            [pool(1, 1, vendor='x'), pool(0, 5, vendor='y')],
            {'alternatives': (NIC,)},
            Code.PCI_DEVICES_MISSING,
            'a (vendor=x): 0 of 2 free, 5 do not match, 1 on other NUMA nodes',
            id='too few that match, and elsewhere',
        ),
        pytest.param(
            [pool(0), pool(1, 3, dev_type='vdpa'), pool(2, 3)],
            {'policy': 'required'},
            Code.PCI_WRONG_NODE,
            'a (any): 1 of 2 free, 6 on other NUMA nodes',
            id='another node',
        ),
        pytest.param(
            [pool(0), pool(0, dev_type='type-PF'), pool(0, dev_type='vdpa')],
            {},
            Code.PCI_KIND_DIFFERS,
            'a (any): 1 of 2 free, 1 are physical functions, 1 are vDPA',
            id='too few once functions and vDPA are left out',
        ),
        pytest.param(
            [pool(0, 3, remote_managed='true')],
            {},
            Code.PCI_KIND_DIFFERS,
            'a (any): 0 of 2 free, 3 are remote-managed',
            id='remote',
        ),
        pytest.param(
            [pool(0, 3, 'A'), pool(0, 1, 'B')],
            {'B': 2},
            Code.PCI_WRONG_PROVIDER,
            'a (any): 0 of 2 free of resource provider B, '
            '4 of other resource providers',
            id='another provider',
        ),
        pytest.param(
            [pool(0, 3, 'A'), pool(0, 1, 'A')],
            {'A': 2},
            Code.PCI_PROVIDER_AMBIGUOUS,
            'a (any): two pools of the host have one resource provider',
            id='ambiguous',
        ),
        pytest.param(
            [pool(0, 3, live_migratable='True')],
            {'alternatives': (frozenset({('live_migratable', 'true')}),)},
            Code.PCI_DEVICES_MISSING,
            'a (live_migratable=true): 0 of 2 free, 3 do not match in live_migratable',
            id='live migration',
        ),
    ],
)
def test_why(pools, fields, code, text):
    served = serving(pools, 2, **fields)
    assert not served.fits(frozenset({0}), TWO_SOCKETS)
    assert served.why(frozenset({0}), TWO_SOCKETS) == (code, text)


FOUR_SOCKETS = {0: 0, 1: 1, 2: 2, 3: 3}
A, B = (frozenset({('name', 'a')}),), (frozenset({('name', 'b')}),)
A_OR_B = (*A, *B)


def card(name, node, count=1, rp_uuid=None):
    return Pool(frozenset({('name', name)}), node, count, rp_uuid)


def asked(alternatives=A, count=1, policy='legacy'):
    return DeviceRequest(count, alternatives, 'a', 'R', policy)


@pytest.mark.parametrize(('pools', 'requests', 'sockets', 'alike'), [
    pytest.param([], [asked()], FOUR_SOCKETS, [0, 1, 2, 3], id='no devices'),
    pytest.param(
        [card('a', 1), card('b', 2), card('a', 3, 9)], [asked()], FOUR_SOCKETS,
        [1, 3], id='more devices than are asked for',
    ),
    pytest.param(
        [card('a', 1), card('a', 3, 2)], [asked(count=2)], FOUR_SOCKETS,
        [1], id='fewer than are asked for',
    ),
    pytest.param(
        [card('a', 1), card('b', 1), card('a', 3), card('b', 2)], [asked(), asked(B)],
        FOUR_SOCKETS, [1], id='requests that do not meet',
    ),
    pytest.param(
        [card('a', 1), card('a', 3, 2), card('a', 2, 3)], [asked(), asked()],
        FOUR_SOCKETS, [2, 3], id='requests for the same: the sum counts',
    ),
    pytest.param(
        [card('a', 1), card('a', 3), card('a', None)], [asked(), asked()],
        FOUR_SOCKETS, [0, 2], id='requests for the same, and devices near to no node',
    ),
    pytest.param(
        [card('a', 1), card('a', 3), card('a', None)],
        [asked(policy='required'), asked(policy='required')],
        FOUR_SOCKETS, [1, 3], id='devices near to no node are not admitted',
    ),
    pytest.param(
        [card('a', 1), card('b', 3), card('a', 2)], [asked(), asked(A_OR_B), asked(B)],
        FOUR_SOCKETS, [1], id='requests that may take from each other',
    ),
    pytest.param(
        [card('a', 1), card('a', 2), card('b', 3)], [asked(), asked(A_OR_B), asked(B)],
        FOUR_SOCKETS, [1, 2], id='and never have to tell devices apart',
    ),
    pytest.param(
        [card('a', 1)], [asked(policy='socket')], FOUR_SOCKETS, [0, 2, 3],
        id='sockets with one node each',
    ),
    pytest.param(
        [card('a', 1)], [asked(policy='socket')], TWO_SOCKETS, [2, 3],
        id='a socket with devices on another node',
    ),
])  # fmt: skip
def test_nodes_that_look_alike(pools, requests, sockets, alike):
    seen = cell_classes([PciAllocation(each, {}, pools) for each in requests], sockets)
    found = [node for node in seen if seen[node] == seen[alike[0]]]
    assert found == alike


def test_a_request_that_stays_near_does_not_see_what_it_may_not_use():
    pools = [card('a', 1), card('a', 2, rp_uuid='P')]
    seen = cell_classes([PciAllocation(asked(), {'P': 1}, pools)], FOUR_SOCKETS)
    assert seen[0] == seen[1] != seen[2]


def test_requests_for_several_providers_are_not_alike():
    pools = [card('a', 1, rp_uuid='P'), card('a', 2, rp_uuid='Q')]
    each = {'P': 1, 'Q': 1}
    servings = [
        PciAllocation(asked(), each, pools),
        PciAllocation(asked(), each, pools),
    ]
    seen = cell_classes(servings, FOUR_SOCKETS)
    assert seen[1] != seen[2]
