# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes and PCI devices from the databases to the answer and back."""

import pytest

from novasched import errors
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.clouds import factories

FILTERS = ['ComputeFilter', 'PciPassthroughFilter', 'NUMATopologyFilter']
HUGE = 1048576


def nodes(*pages):
    """Return a host with nodes of four CPUs and so many free pages of 1 GiB."""
    return factories.numa_topology(
        *(
            factories.numa_cell(
                number,
                range(4 * number, 4 * number + 4),
                pages={4: 1048576, HUGE: free},
            )
            for number, free in enumerate(pages)
        )
    )


def pinned(**values):
    cell = factories.guest_cell(cpus=range(2), policy='dedicated', pagesize=HUGE)
    return {'numa_topology': factories.guest_topology(cell), **values}


@pytest.fixture
def made(cloud):
    hosts = [
        Host('bare', memory_mb=16384),
        Host('full', memory_mb=12288, numa_topology=nodes(0, 0)),
        Host(
            'roomy',
            numa_topology=nodes(1, 1),
            pci_stats=factories.pools({'numa_node': 1, 'count': 1}),
        ),
    ]
    return cloud(hosts, filter_scheduler={'enabled_filters': FILTERS})


def test_instances_get_the_nodes_of_a_host_one_after_the_other(made):
    made.serve()
    uuids = [named_uuid('a'), named_uuid('b')]
    answer = made.call(uuids, num_instances=2, **pinned())
    assert [[one.service_host for one in each] for each in answer] == [['roomy']] * 2
    limits = answer[0][0].limits.numa_topology
    assert (limits.cpu_allocation_ratio, limits.ram_allocation_ratio) == (4.0, 1.0)
    assert 'network_metadata' not in limits
    phases = {phase: spec.numa_topology.cells for phase, spec in made.notifications}
    assert [cell.cpu_pinning for cell in phases['start']] == [None]
    (cell,) = phases['end']
    assert (cell.id, cell.pagesize, cell.cpu_pinning) == (1, HUGE, {0: 4, 1: 5})


def test_every_host_that_is_rejected_says_why(made):
    made.ask(made.compose(), new_uuids(), **pinned())
    (step,) = [s for s in made.decisions[0].steps if s.name == 'NUMATopologyFilter']
    found = {
        host.host: str(why) for host, why in step.reasons(made.request(**pinned()))
    }
    assert found == {
        'bare': 'reports no NUMA nodes',
        'full': '0 of 1 pages of 1 GiB free in each cell',
    }


def test_devices_are_taken_from_the_node_of_the_instance(made):
    devices = factories.devices(numa_policy='required')
    scheduler = made.compose()
    assert made.ask(scheduler, new_uuids(), **pinned(pci_requests=devices)) == [
        ['roomy']
    ]
    assert made.notifications[-1][1].numa_topology.cells[0].id == 1
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(2), **pinned(pci_requests=devices))
