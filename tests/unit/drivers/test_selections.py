# SPDX-License-Identifier: Apache-2.0
"""What a Selection takes from a host."""

from __future__ import annotations

from novasched.drivers.selections import limits
from novasched.objects.network import NetworkMetadata
from novasched.objects.numa import NUMATopologyLimits
from tests import factories


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
