# SPDX-License-Identifier: Apache-2.0
"""NUMA objects: what unset fields read as, and what older readers get."""

import pytest

from novasched import errors
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
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
    unset = {name: getattr(made, name) for name in InstancePCIRequest.fields}
    assert unset.pop('is_new') is False
    assert set(unset.values()) == {None}
