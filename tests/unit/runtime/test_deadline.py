# SPDX-License-Identifier: Apache-2.0
"""Work ends at its deadline, wherever its loops are."""

import numpy as np
import pytest

from novasched.runtime.deadline import Deadline, TookTooLong
from novasched.scheduler.capacity import Counting
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock


def test_a_deadline():
    clock = FakeClock()
    deadline = Deadline(60.0, clock.monotonic)
    clock.advance(60.0)
    deadline.check()
    clock.advance(0.1)
    with pytest.raises(TookTooLong, match='not worked out within 60 s'):
        deadline.check()


@pytest.mark.parametrize(
    'filters',
    [[NUMATopologyFilter()], [NumInstancesFilter(10)]],
    ids=['one server after the other', 'by halves'],
)
def test_counting(filters):
    calls = []

    def check():
        calls.append(None)
        if len(calls) > 2:
            raise TookTooLong(60.0)

    guest = factories.guest_topology(factories.guest_cell(memory=1))
    hosts = factories.hosts(
        num_instances=[0],
        cpu_allocation_ratio=[1e6],
        ram_allocation_ratio=[1e6],
        numa_topology=[factories.numa_topology(factories.numa_cell())],
        allocation_candidates=[[{'allocations': {}}]],
    )
    counting = Counting(
        Profile(filters, ()), factories.request(numa_topology=guest), check=check
    )
    with pytest.raises(TookTooLong):
        counting.slots(hosts, np.array([100]))
