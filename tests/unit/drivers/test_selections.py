# SPDX-License-Identifier: Apache-2.0
"""What a Selection takes from a host."""

from novasched.drivers.selections import Picked, SelectionMaker, limits
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMATopologyLimits
from tests.support.clouds import factories
from tests.support.tables.cases import cases


def test_limits_share_nothing_with_the_host():
    networks = NetworkMetadata(physnets={'a'}, tunneled=False)
    numa = NUMATopologyLimits(
        cpu_allocation_ratio=2.0, ram_allocation_ratio=1.5, network_metadata=networks
    )
    host = factories.hosts(1).state(0)
    host.limits = {'numa_topology': numa, 'vcpu': 3.7}
    first, second = limits(host), limits(host)
    assert (first.vcpu, first.memory_mb) == (3, None)
    for made in (first, second):
        assert made.numa_topology.obj_to_primitive() == numa.obj_to_primitive()
        made.numa_topology.network_metadata.physnets.add('b')
    assert networks.physnets == {'a'}


def test_no_limits():
    made = limits(factories.hosts(1).state(0))
    assert (made.numa_topology, made.disk_gb) == (None, None)


CELLS = ['a', 'a', 'a', 'b', 'a', 'a', 'a']


@cases(
    'own, count, names, expected',
    ('the same for all', False, 2, None, ['h1 h3 h5', 'h2 h3 h5']),
    ('one each', True, 1, None, ['h1 h3', 'h2 h5']),
    ('in turn', True, 2, None, ['h1 h3 h6', 'h2 h5 h7']),
    ('all of the cell', False, 10**15, None, ['h1 h3 h5 h6 h7', 'h2 h3 h5 h6 h7']),
    ('as many as there are', True, 9, None, ['h1 h3 h6', 'h2 h5 h7']),
    (
        'a host of several nodes is one host',
        True,
        2,
        ['h1', 'h2', 'h1', 'h4', 'h5', 'h5', 'h7'],
        ['h1 h5', 'h2 h7'],
    ),
)
def test_alternates(own, count, names, expected):
    names = names or [f'h{number}' for number in range(1, 8)]
    nodes = [f'n{number}' for number in range(1, 8)]
    hosts = factories.hosts(host=names, nodename=nodes, cell_uuid=CELLS)
    picked = [Picked(hosts.state(place), None) for place in (0, 1)]
    maker = SelectionMaker('1.36', 'nova')
    found = maker.with_alternates(picked, hosts, count, own)
    assert [' '.join(one.service_host for one in each) for each in found] == expected
