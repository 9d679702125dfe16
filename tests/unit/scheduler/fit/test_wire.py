# SPDX-License-Identifier: Apache-2.0
"""Topologies as they come and go."""

from __future__ import annotations

import json

import pytest

from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from novasched.scheduler.fit.reported import Unreadable
from novasched.scheduler.fit.topology import HostCell, Networks, Pages
from novasched.scheduler.fit.wire import guest_of, host_cells, networks_of, topology_of
from tests import topologies


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


@pytest.mark.parametrize(('cpus', 'cpuset'), [
    pytest.param('0-2', {0, 1, 2}, id='a range'),
    pytest.param('0, 3', {0, 3}, id='a list'),
    pytest.param('0-3,^1-2', {0, 3}, id='all but some'),
    pytest.param('', set(), id='none'),
])  # fmt: skip
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
def test_what_is_wrong_with_a_node(path, value, problem):
    with pytest.raises(Unreadable, match=problem):
        host_cells(changed(path, value))


def wanted(**given):
    cell = InstanceNUMACell(id=0, cpuset={0}, pcpuset={1, 2}, memory=512, **given)
    return InstanceNUMATopology(cells=[cell])


def test_a_guest_that_was_never_fitted():
    guest = guest_of(wanted(cpu_policy='mixed', cpu_thread_policy='prefer'))
    cell = topologies.guest_cell(
        shared={0}, dedicated={1, 2}, memory=512, cpu_thread_policy='prefer'
    )
    assert guest == topologies.guest(cell)


@pytest.mark.parametrize(('policy', 'isolates'), [
    ('isolate', True), ('share', False), (None, False)
])  # fmt: skip
def test_the_policy_for_the_emulator(policy, isolates):
    topology = wanted()
    topology.emulator_threads_policy = policy
    assert guest_of(topology).isolates_emulator is isolates


def test_a_fitted_guest_goes_there_and_back():
    asked = wanted(cpu_policy='mixed', pagesize=-1)
    asked.emulator_threads_policy = 'isolate'
    fitted = topologies.guest(
        topologies.guest_cell(
            8, shared={0}, dedicated={1, 2}, memory=512, pagesize=4,
            pinning=((1, 10), (2, 11)), reserved=frozenset({12}),
        ),
        isolates_emulator=True,
    )  # fmt: skip
    made = topology_of(fitted, asked)
    assert guest_of(made) == fitted
    assert made.cells[0].cpu_pinning_raw == {'1': 10, '2': 11}
    assert made.emulator_threads_policy == 'isolate'
    assert asked.cells[0].pagesize == -1


def test_a_guest_without_pinning_goes_there_and_back():
    asked = wanted()
    assert guest_of(topology_of(guest_of(asked), asked)) == guest_of(asked)


def test_networks():
    metadata = NetworkMetadata(physnets={'fast'}, tunneled=False)
    assert networks_of(metadata) == Networks(frozenset({'fast'}), False)
    assert networks_of(None) is None
