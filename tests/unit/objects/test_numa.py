# SPDX-License-Identifier: Apache-2.0
"""NUMA objects: what unset fields read as, and what older readers get."""

from __future__ import annotations

import pytest
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopologyLimits,
)
from novasched.objects.pci import InstancePCIRequest


def cell(**given):
    return InstanceNUMACell(id=0, memory=512, **given)


def test_unset_fields_of_a_guest_cell():
    made = InstanceNUMACell(id=0)
    assert made.pcpuset == set()
    for name in ('cpuset_reserved', 'pagesize', 'cpu_topology', 'cpu_pinning_raw'):
        assert getattr(made, name) is None
    with pytest.raises(errors.UnsetField):
        _ = made.memory


def test_pinning():
    assert cell().cpu_pinning is None
    assert cell(cpu_pinning_raw={'0': 4}).cpu_pinning == {0: 4}


def test_a_topology_without_cells_is_false():
    assert not InstanceNUMATopology()
    assert not InstanceNUMATopology(cells=[])
    assert InstanceNUMATopology(cells=[cell()])


def test_items_read_like_a_dict():
    assert cell()['memory'] == 512
    topology = InstanceNUMATopology(cells=[], emulator_threads_policy=None)
    assert dict(topology) == {'cells': [], 'emulator_threads_policy': None}


def test_unset_fields_of_a_host_cell():
    made = NUMACell(id=0)
    assert (made.cpu_usage, made.memory_usage, made.socket) == (0, 0, None)
    assert made.network_metadata.physnets == set()
    assert NUMAPagesTopology(size_kb=4, total=8).reserved == 0


def test_unset_fields_of_a_pci_request():
    made = InstancePCIRequest()
    assert all(getattr(made, name) is None for name in InstancePCIRequest.fields)


@pytest.mark.parametrize(
    ('version', 'cpuset', 'gone'),
    [
        pytest.param('1.6', [0], set(), id='present'),
        pytest.param('1.5', [0], set(), id='dedicated CPUs known'),
        pytest.param('1.4', [2], {'pcpuset'}, id='dedicated CPUs unknown'),
        pytest.param('1.3', [2], {'pcpuset', 'cpuset_reserved'}, id='no reservation'),
        pytest.param(
            '1.2',
            [2],
            {'pcpuset', 'cpuset_reserved', 'cpu_policy', 'cpu_thread_policy'},
            id='no policies',
        ),
    ],
)
def test_a_dedicated_cell_for_older_readers(version, cpuset, gone):
    made = cell(cpuset={0}, pcpuset={2}, cpu_policy='dedicated')
    now = made.obj_to_primitive()['nova_object.data']
    then = made.obj_to_primitive(version)['nova_object.data']
    assert list(then['cpuset']) == cpuset
    assert set(now) - set(then) == gone


def test_a_mixed_cell_has_no_older_form():
    made = cell(cpuset={0}, pcpuset={2}, cpu_policy='mixed')
    with pytest.raises(ovo_exception.ObjectActionError):
        made.obj_to_primitive('1.5')


def test_limits_for_older_readers():
    limits = NUMATopologyLimits(
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.0,
        network_metadata=NetworkMetadata(physnets=set(), tunneled=True),
    )
    data = limits.obj_to_primitive('1.0')['nova_object.data']
    assert data == {'cpu_allocation_ratio': 4.0, 'ram_allocation_ratio': 1.0}
