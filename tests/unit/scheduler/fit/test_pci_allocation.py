# SPDX-License-Identifier: Apache-2.0
"""Allocation of one PCI request, and the equivalence classes of cells."""

from novasched.scheduler.fit.pci import DeviceRequest, Pool
from novasched.scheduler.fit.pci_allocation import PciAllocation, cell_classes
from novasched.scheduler.reasons import Code
from tests.support.tables.cases import cases

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


@cases('policy, nodes_with_devices, count, by_node',
    ('legacy, another node', 'legacy', [1], 1, None),
    ('legacy, no node', 'legacy', [None], 1, {None: 1}),
    ('legacy, both', 'legacy', [None, 0], 2, {None: 1, 0: 1}),
    ('required, both', 'required', [None, 0], 2, None),
    ('required, another node', 'required', [1], 1, None),
    ('preferred, another node', 'preferred', [1], 1, {1: 1}),
    ('preferred, near ones do', 'preferred', [1, None, 0], 2, {None: 1, 0: 1}),
    ('preferred, near ones first', 'preferred', [3, 1, None, 0], 3,
     {None: 1, 0: 1, 3: 1}),
    ('socket, another node of it', 'socket', [1], 1, {1: 1}),
    ('socket, another one', 'socket', [2], 1, None),
    ('socket, no node', 'socket', [None], 1, None),
    ('socket, both nodes of it', 'socket', [1, 0], 2, {1: 1, 0: 1}),
)  # fmt: skip
def test_policy(policy, nodes_with_devices, count, by_node):
    served = serving([pool(node) for node in nodes_with_devices], count, policy)
    assert taken(served, 0) == by_node


@cases(
    'sockets, by_node',
    ('known', {0: 0, 1: 0}, {1: 1}),
    ('one that does not matter unknown', {0: 0, 1: 0, 2: None}, None),
    ('the host has no nodes', {}, None),
    ('two sockets', {0: 1, 1: 0}, None),
)
def test_sockets(sockets, by_node):
    assert taken(serving([pool(1)], policy='socket'), 0, sockets=sockets) == by_node


def test_an_unknown_node_is_on_no_socket():
    assert taken(serving([pool(1)], policy='socket'), 9) is None


def test_a_near_function_hides_devices_elsewhere():
    pools = [pool(0, dev_type='type-PF'), pool(1)]
    assert taken(serving(pools, policy='preferred'), 0) is None
    assert taken(serving(pools[1:], policy='preferred'), 0) == {1: 1}


@cases(
    'counts, wanted, left',
    ('the first vanishes', [1, 2], 1, [2]),
    ('the first shrinks', [3, 2], 1, [2, 2]),
    ('across two', [1, 2, 5], 2, [1, 5]),
    ('an empty one on the way vanishes', [0, 2], 1, [1]),
    ('an empty one behind stays', [1, 0], 1, [0]),
    ('none', [2], 0, [2]),
)
def test_devices_are_taken_in_order(counts, wanted, left):
    served = serving([pool(n, count) for n, count in enumerate(counts)], wanted)
    assert served.fits(frozenset(), {})
    assert [each.count for each in served.left(frozenset(), {})] == left


@cases('pools, providers, left',
    ('the one', [pool(0, 2, 'A'), pool(1, 1, 'B')], {'B': 1}, {0: 2}),
    ('twice the same', [pool(0, 3, 'A')], {'A': 2}, {0: 1}),
    ('twice, but there is one', [pool(0, 1, 'A')], {'A': 2}, None),
    ('a pool of no provider', [pool(0, 9)], {'A': 1}, None),
    ('ambiguous', [pool(0, 2, 'A'), pool(1, 1, 'A', x='y')], {'A': 1}, None),
    ('another is ambiguous', [pool(0, 2, 'A'), pool(1, 1, 'A'), pool(2, 1, 'B')],
     {'B': 1}, None),
    ('two of no provider', [pool(0, 2), pool(1, 1), pool(2, 1, 'B')], {'B': 1},
     {0: 2, 1: 1}),
)  # fmt: skip
def test_providers(pools, providers, left):
    served = serving(pools, sum(providers.values()), **providers)
    fits = served.fits(frozenset(), {})
    found = served.left(frozenset(), {}) if fits else None
    assert left == (found and {each.numa_node: each.count for each in found})


def test_a_provider_on_the_wrong_node_goes_unnoticed():
    served = serving([pool(0, 2, 'A'), pool(1, 2, 'B')], 2, A=1, B=1)
    assert taken(served, 0) == {0: 1}


NIC = frozenset({('vendor', 'x')})


@cases('pools, fields, code, text',
    ('no pools', [], {}, Code.PCI_DEVICES_MISSING, 'a (any): 0 of 2 free'),
    ('too few that match', [pool(0, 1, vendor='x'), pool(0, 5, vendor='y')],
     {'alternatives': (NIC,)}, Code.PCI_DEVICES_MISSING,
     'a (vendor=x): 1 of 2 free, 5 do not match'),
    ('too few that match, and elsewhere',
     [pool(1, 1, vendor='x'), pool(0, 5, vendor='y')], {'alternatives': (NIC,)},
     Code.PCI_DEVICES_MISSING,
     'a (vendor=x): 0 of 2 free, 5 do not match, 1 on other NUMA nodes'),
    ('another node', [pool(0), pool(1, 3, dev_type='vdpa'), pool(2, 3)],
     {'policy': 'required'}, Code.PCI_WRONG_NODE,
     'a (any): 1 of 2 free, 6 on other NUMA nodes'),
    ('too few once functions and vDPA are left out',
     [pool(0), pool(0, dev_type='type-PF'), pool(0, dev_type='vdpa')], {},
     Code.PCI_KIND_DIFFERS,
     'a (any): 1 of 2 free, 1 are physical functions, 1 are vDPA'),
    ('remote', [pool(0, 3, remote_managed='true')], {}, Code.PCI_KIND_DIFFERS,
     'a (any): 0 of 2 free, 3 are remote-managed'),
    ('another provider', [pool(0, 3, 'A'), pool(0, 1, 'B')], {'B': 2},
     Code.PCI_WRONG_PROVIDER,
     'a (any): 0 of 2 free of resource provider B, 4 of other resource providers'),
    ('ambiguous', [pool(0, 3, 'A'), pool(0, 1, 'A')], {'A': 2},
     Code.PCI_PROVIDER_AMBIGUOUS,
     'a (any): two pools of the host have one resource provider'),
    ('live migration', [pool(0, 3, live_migratable='True')],
     {'alternatives': (frozenset({('live_migratable', 'true')}),)},
     Code.PCI_DEVICES_MISSING,
     'a (live_migratable=true): 0 of 2 free, 3 do not match in live_migratable'),
)  # fmt: skip
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


@cases('pools, requests, sockets, alike',
    ('no devices', [], [asked()], FOUR_SOCKETS, [0, 1, 2, 3]),
    ('more devices than are asked for', [card('a', 1), card('b', 2), card('a', 3, 9)],
     [asked()], FOUR_SOCKETS, [1, 3]),
    ('fewer than are asked for', [card('a', 1), card('a', 3, 2)], [asked(count=2)],
     FOUR_SOCKETS, [1]),
    ('requests that do not meet',
     [card('a', 1), card('b', 1), card('a', 3), card('b', 2)], [asked(), asked(B)],
     FOUR_SOCKETS, [1]),
    ('requests for the same: the sum counts',
     [card('a', 1), card('a', 3, 2), card('a', 2, 3)], [asked(), asked()], FOUR_SOCKETS,
     [2, 3]),
    ('requests for the same, and devices near to no node',
     [card('a', 1), card('a', 3), card('a', None)], [asked(), asked()], FOUR_SOCKETS,
     [0, 2]),
    ('devices near to no node are not admitted',
     [card('a', 1), card('a', 3), card('a', None)],
     [asked(policy='required'), asked(policy='required')], FOUR_SOCKETS, [1, 3]),
    ('requests that may take from each other',
     [card('a', 1), card('b', 3), card('a', 2)], [asked(), asked(A_OR_B), asked(B)],
     FOUR_SOCKETS, [1]),
    ('and never have to tell devices apart', [card('a', 1), card('a', 2), card('b', 3)],
     [asked(), asked(A_OR_B), asked(B)], FOUR_SOCKETS, [1, 2]),
    ('sockets with one node each', [card('a', 1)], [asked(policy='socket')],
     FOUR_SOCKETS, [0, 2, 3]),
    ('a socket with devices on another node', [card('a', 1)], [asked(policy='socket')],
     TWO_SOCKETS, [2, 3]),
)  # fmt: skip
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
