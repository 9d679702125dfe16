# SPDX-License-Identifier: Apache-2.0
"""Columns of computes are parsed once, may be anything, and compare by content."""

import json

import pytest

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.scheduler.fit.parse import (
    HostPools,
    HostTopology,
    Unreadable,
    host_cells,
    host_topology,
    parse_pools,
    reading,
)
from novasched.scheduler.fit.pci import Pool
from novasched.scheduler.fit.topology import HostCell, Networks, Pages
from tests.support.clouds import factories
from tests.support.clouds.factories import numa_cell, numa_topology
from tests.support.tables.cases import cases


def text_of(*cells):
    return json.dumps(NUMATopology(cells=list(cells)).obj_to_primitive())


def test_a_node_in_full():
    cell = NUMACell(
        id=8, cpuset={0, 1}, pcpuset={2}, memory=1024, cpu_usage=1, memory_usage=512,
        pinned_cpus={2}, siblings=[{0, 1}, {2}], socket=1,
        mempages=[NUMAPagesTopology(size_kb=4, total=9, used=2, reserved=1)],
        network_metadata=NetworkMetadata(physnets={'fast'}, tunneled=True),
    )  # fmt: skip
    assert host_cells(text_of(cell)) == (
        HostCell(
            8, frozenset({0, 1}), frozenset({2}), 1024, 1, 512, frozenset({2}),
            (frozenset({0, 1}), frozenset({2})), (Pages(4, 9, 2, 1),),
            Networks(frozenset({'fast'}), True), 1,
        ),
    )  # fmt: skip


def test_a_node_of_the_first_version():
    assert host_cells(text_of(NUMACell(id=0, cpuset={0}, memory=5))) == (
        HostCell(0, frozenset({0}), None, 5),
    )


def test_a_node_with_nothing_where_something_may_be():
    cell = NUMACell(id=0, cpuset=set(), pcpuset=set(), memory=5, socket=None)
    primitive = json.loads(text_of(cell))
    data = primitive['nova_object.data']['cells'][0]['nova_object.data']
    data.update(network_metadata={'nova_object.data': {}}, pcpuset=None)
    assert host_cells(json.dumps(primitive)) == (
        HostCell(0, frozenset(), None, 5, network_metadata=Networks()),
    )


@cases('cpus, cpuset',
    ('a range', '0-2', {0, 1, 2}),
    ('a list', '0, 3', {0, 3}),
    ('all but some', '0-3,^1-2', {0, 3}),
    ('none', '', set()),
)  # fmt: skip
def test_a_node_in_the_form_of_before_2015(cpus, cpuset):
    memory = {'total': 1024, 'used': 5}
    cell = {'id': 1, 'cpus': cpus, 'cpu_usage': 2.0, 'mem': memory}
    assert host_cells(json.dumps({'cells': [cell]})) == (
        HostCell(1, frozenset(cpuset), frozenset(), 1024, 2, 5),
    )


def test_an_old_node_that_says_little():
    assert host_cells('{"cells": [{"id": 0}]}') == (
        HostCell(0, frozenset(), frozenset(), 0),
    )


@pytest.mark.parametrize(
    'text',
    [
        '[]', '{}', '5', 'not JSON',
        '{"cells": 3}', '{"cells": [{}]}',
        '{"cells": [{"id": 0, "cpus": "a-b"}]}', '[' * 100_000,
        '{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [7]}}',
        '{"cells": [{"id": 0, "cpu_usage": Infinity}]}',
        '{"cells": [{"id": 0}, {"id": 0}]}',
        '{"cells": [{"id": 0, "cpus": "0-65536"}]}',
        '{"cells": [{"id": 0, "cpus": "0-100000000,^1-99999999"}]}',
    ],
    ids=lambda text: str(text)[:40],
)  # fmt: skip
def test_text_that_cannot_be_read(text):
    with pytest.raises(Unreadable):
        host_cells(text)


@pytest.mark.parametrize('text', [None, '', 'null', text_of(), '{"cells": []}'])
def test_text_that_tells_of_no_nodes(text):
    assert host_cells(text) == ()


def test_as_many_cpus_as_any_host_has():
    (cell,) = host_cells('{"cells": [{"id": 0, "cpus": "0-65535"}]}')
    assert len(cell.cpuset) == 65536


def changed(path, value):
    """Return the text of a node in full, with another value somewhere."""
    cell = NUMACell(
        id=0, cpuset={0, 1}, pcpuset={0, 1}, memory=1024, cpu_usage=0, memory_usage=0,
        pinned_cpus=set(), siblings=[{0}, {1}], socket=0,
        mempages=[NUMAPagesTopology(size_kb=4, total=9, used=0, reserved=0)],
    )  # fmt: skip
    primitive = json.loads(text_of(cell))
    *way, last = ('nova_object.data', 'cells', 0, 'nova_object.data', *path)
    at = primitive
    for step in way:
        at = at[step]
    assert last in at
    at[last] = value
    return json.dumps(primitive)


PAGES_OF = 'mempages', 0, 'nova_object.data'


@pytest.mark.parametrize('path', [
    ('id',), ('memory',), ('memory_usage',), ('cpu_usage',), ('socket',),
    (*PAGES_OF, 'size_kb'), (*PAGES_OF, 'total'), (*PAGES_OF, 'used'),
    (*PAGES_OF, 'reserved'),
], ids=lambda path: path[-1])  # fmt: skip
@pytest.mark.parametrize('value', [10**400, -(10**400), 2**53])
def test_no_number_is_beyond_reckoning(path, value):
    with pytest.raises(Unreadable, match='a number is'):
        host_cells(changed(path, value))
    assert len(host_cells(changed(path, 2**53 - 1))) == 1


@pytest.mark.parametrize(('path', 'value', 'problem'), [
    (('cpuset',), [0, 10**300], 'a number is'),
    (('pinned_cpus',), [-(10**300)], 'a number is'),
    (('siblings',), [[0, 1], [1]], 'a CPU is on two cores'),
    (('mempages',), None, 'not iterable'),
    (('mempages',), [[]], 'list indices'),
])  # fmt: skip
def test_unreadable_cell_names_its_problem(path, value, problem):
    with pytest.raises(Unreadable, match=problem):
        host_cells(changed(path, value))


TEXT = numa_topology(numa_cell(0, range(4), threads=2), numa_cell(8, range(4, 7)))


def test_nodes_are_read_once():
    topology = HostTopology(TEXT)
    assert 'cells' not in vars(topology)
    assert [cell.id for cell in topology.cells] == [0, 8]
    assert topology.cells is topology.cells
    assert topology.sockets == {0: 0, 8: 8}
    assert topology.threads_per_core == 2


def test_a_host_may_have_no_nodes():
    assert host_topology(None) is None
    assert host_topology('') is None
    for text in ('nonsense', numa_topology()):
        topology = host_topology(text)
        assert not topology
        assert topology.threads_per_core == 0


def test_text_that_cannot_be_read_is_complained_of_once():
    told = []

    def complain(text, problem):
        told.append((text, problem))

    topology, pools = host_topology('7', complain), HostPools('[7]', complain)
    assert told == []
    for _ in range(2):
        assert (topology.cells, pools.free) == ((), ())
    assert told == [('7', topology.problem), ('[7]', pools.problem)]
    assert topology.problem == "TypeError: argument of type 'int' is not iterable"
    assert pools.problem.startswith('TypeError: ')


def test_readable_topology_and_pools_have_no_problem():
    for text in (TEXT, numa_topology()):
        assert HostTopology(text).problem == ''
    for text in (None, factories.pools(2)):
        assert HostPools(text).problem == ''
    assert HostTopology('7').problem
    assert HostPools('7').problem


def test_topologies_are_equal_if_their_nodes_are():
    text = json.dumps(json.loads(TEXT), indent=1)
    first, second = HostTopology(TEXT), HostTopology(text)
    other = HostTopology(numa_topology(numa_cell()))
    assert first == second == HostTopology.of(first.cells)
    assert hash(first) == hash(second)
    assert first != other
    assert first != TEXT
    assert repr(other).startswith('HostTopology(cells=(HostCell(id=0')


def test_topology_made_of_nodes_has_a_text_that_reads_as_the_same_nodes():
    cells = (
        HostCell(
            id=3,
            cpuset=frozenset(range(4)),
            pcpuset=frozenset({2, 3}),
            memory=2048,
            cpu_usage=1,
            memory_usage=512,
            pinned_cpus=frozenset({2}),
            siblings=(frozenset({3, 2}), frozenset({0, 1})),
            mempages=(Pages(4, 1000, 3, 2), Pages(2048, 10)),
            network_metadata=Networks(frozenset({'b', 'a'}), True),
            socket=1,
        ),
        HostCell(id=0, cpuset=frozenset(), pcpuset=None, memory=0),
    )
    assert HostTopology(HostTopology.of(cells).text).cells == cells
    assert HostTopology.of(()).text is None


def test_pools_made_of_pools_have_a_text_that_reads_as_the_same_pools():
    tags = {'tag': None, 'rp_uuid': 'rp'}
    first = HostPools(factories.pools({'numa_node': 1, 'count': 3, **tags}, 2))
    assert HostPools(HostPools.of(first.free).text).free == first.free
    assert HostPools.of(()).text is None


def test_pools_are_read_once_and_shown_as_nova_has_them():
    pools = HostPools(factories.pools({'numa_node': 1, 'count': 3, 'tag': 'x'}, 2))
    assert 'free' not in vars(pools)
    assert pools.free is pools.free
    assert pools.pools == [
        {'vendor_id': '8086', 'product_id': '1520', 'numa_node': None, 'count': 2},
        {
            'vendor_id': '8086',
            'product_id': '1520',
            'numa_node': 1,
            'count': 3,
            'tag': 'x',
        },
    ]
    assert pools.devices == 5
    assert pools.by_cell == {None: 2, 1: 3}


def test_pools_are_equal_if_they_hold_the_same():
    first, second = HostPools(factories.pools(2)), HostPools(factories.pools(2))
    assert first == second == HostPools.of(first.free)
    assert hash(first) == hash(second)
    assert first != HostPools()
    assert first != 2
    assert repr(HostPools()) == 'HostPools(pools=[])'


def test_a_message_is_short():
    with pytest.raises(Unreadable) as caught, reading():
        raise ValueError('x' * 1000)
    assert len(str(caught.value)) == len('ValueError: ') + 100


def test_faults_of_our_own_are_not_hidden():
    with pytest.raises(AssertionError), reading():
        raise AssertionError


NIC = {'vendor_id': '8086', 'product_id': '1520'}
NIC_TAGS = frozenset(NIC.items())


def objects(data):
    """Return the text of a list of one pool, whose data may be anything."""
    pool = {'nova_object.name': 'PciDevicePool', 'nova_object.data': data}
    made = {'nova_object.name': 'PciDevicePoolList'}
    return json.dumps({**made, 'nova_object.data': {'objects': [pool]}})


def stats(*pools):
    made = [PciDevicePool(**{**NIC, 'count': 1, 'tags': {}, **pool}) for pool in pools]
    return json.dumps(PciDevicePoolList(objects=made).obj_to_primitive())


@cases('text, pools',
    ('no node', stats({'count': 2}), [(None, 2)]),
    ('null node', stats({'numa_node': None}), [(None, 1)]),
    ('two pools', stats({'numa_node': 1, 'count': 2}, {'numa_node': 0}),
     [(1, 2), (0, 1)]),
    ('one of old', json.dumps({**NIC, 'count': 2}), [(None, 2)]),
    ('a list of old, with numbers of any kind',
     json.dumps([{**NIC, 'count': '3', 'numa_node': '1'}, {**NIC, 'count': 2.7}]),
     [(1, 3), (None, 2)]),
    ('an empty pool', stats({'count': 0}), [(None, 0)]),
)  # fmt: skip
def test_pools(text, pools):
    found = parse_pools(text)
    assert [(pool.numa_node, pool.count) for pool in found] == pools
    assert {pool.tags for pool in found} == {NIC_TAGS}


@cases(
    'text',
    ('no JSON', '['),
    ('too deep', '[' * 100000),
    ('a number', '7'),
    ('text for a pool', '["x"]'),
    ('null for a pool', '[null]'),
    ('a pool of nothing', '[{}]'),
    ('no count', json.dumps([NIC])),
    ('no product', '[{"count": 1}]'),
    ('null', json.dumps([{**NIC, 'vendor_id': None, 'count': 1}])),
    ('no number', json.dumps([{**NIC, 'count': 'many'}])),
    ('too many', json.dumps([{**NIC, 'count': float('inf')}])),
    ('a list', json.dumps([{**NIC, 'count': 1, 'tag': ['x']}])),
    ('fewer than none', json.dumps([{**NIC, 'count': -1}])),
    ('far fewer', json.dumps([{**NIC, 'count': -1e300}])),
    ('one too many', json.dumps([{**NIC, 'count': 2**31}])),
    ('no node', json.dumps([{**NIC, 'count': 1, 'numa_node': 2**53}])),
    ('no tags', objects({**NIC, 'count': 1, 'tags': None})),
    ('a list for a pool', objects([1])),
    ('no list of objects', '{"objects": 3}'),
    ('no content', '{"nova_object.name": "PciDevicePoolList"}'),
    (
        'one of two is nonsense',
        json.dumps([{**NIC, 'count': 1}, {**NIC, 'count': 'many'}]),
    ),
)
def test_pools_that_cannot_be_read(text):
    with pytest.raises(Unreadable):
        parse_pools(text)


@cases(
    'text',
    ('never reported', None),
    ('empty', ''),
    ('null', 'null'),
    ('an empty object', '{}'),
    ('no pools', stats()),
)
def test_no_pools(text):
    assert parse_pools(text) == ()


TAGS = {'a': 'x', 'b': None, 'rp_uuid': 'rp'}


@cases(
    'text',
    ('objects', stats({'numa_node': 1, 'tags': TAGS})),
    ('a plain dict', json.dumps({**NIC, **TAGS, 'count': 1, 'numa_node': 1})),
)
def test_tags(text):
    (pool,) = parse_pools(text)
    assert pool.rp_uuid == 'rp'
    assert pool.keys == {**NIC, **TAGS}
    assert pool.flat() == {**pool.keys, 'numa_node': 1, 'count': 1}


def test_tags_are_text():
    (pool,) = parse_pools(json.dumps([{**NIC, 'count': 1, 'n': 5, 'yes': True}]))
    assert pool.keys == {**NIC, 'n': '5', 'yes': 'True'}


def test_a_null_provider_is_a_tag_like_any_other():
    (pool,) = parse_pools(stats({'tags': {'rp_uuid': None}}))
    assert (pool.rp_uuid, pool.keys) == (None, {**NIC, 'rp_uuid': None})


def test_pools_with_fewer_tags_come_first():
    tags = [{'a': '1', 'b': '2'}, {'rp_uuid': 'x'}, {'c': '3'}, {}, {'a': '1'}]
    found = parse_pools(stats(*({'tags': each} for each in tags)))
    assert [pool.keys for pool in found] == [
        NIC | each for each in ({}, tags[1], tags[2], tags[4], tags[0])
    ]


def test_pools_are_values():
    (one,), (other,) = parse_pools(stats({})), parse_pools(stats({}) + ' ')
    assert one == other == Pool(NIC_TAGS, None, 1)
    assert one.tags is other.tags
    assert len({one, other}) == 1
