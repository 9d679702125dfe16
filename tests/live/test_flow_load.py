# SPDX-License-Identifier: Apache-2.0
"""Five hundred boots on sixty hosts, or fewer: all end, and everybody agrees how."""

import json
import random

import pytest

from tests.live.flow import running
from tests.live.flow_books import Books, assert_named
from tests.live.flow_fleet import fleet, names
from tests.support.tables.examples import scaled

CELLS = ('cell1', 'cell2', 'cell3')
EMPTY = scaled(16)
"""Hosts of a cell that have nothing beside CPUs, memory and disk."""
REFUSALS = """
[[rules]]
outcome = "refuse"
probability = 0.05
"""
ALIAS = {'name': 'nic', 'vendor_id': '8086', 'product_id': '1572'}
FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'NUMATopologyFilter',
    'PciPassthroughFilter',
)
PLAIN = {'vcpus': 1, 'memory_mb': 1024, 'root_gb': 2}
PINNED = {
    'flavor': 'pinned',
    'vcpus': 2,
    'memory_mb': 1024,
    'extra_specs': {'hw:cpu_policy': 'dedicated'},
}
NIC = {'flavor': 'nic', **PLAIN, 'extra_specs': {'pci_passthrough:alias': 'nic:1'}}
BIG = {'flavor': 'big', 'vcpus': 4, 'memory_mb': 4096, 'root_gb': 10}
# Singles and many at once; 500 in all. There are 24 CPU pairs and 24 devices.
ORDERS = (
    [(1, PLAIN)] * 100
    + [(1, BIG)] * 60
    + [(1, PINNED)] * 20
    + [(1, NIC)] * 20
    + [(10, PLAIN)] * 18
    + [(4, NIC), (4, PINNED)]
    + [(8, {**PLAIN, 'policy': 'anti-affinity'})] * 14
)
STEP = 8 if scaled(8) < 8 else 1
"""Of so many orders, which stand by their kind, the first tier makes one."""

END_S = 480
"""Three times what it takes on two cores that have nothing else to do."""

pytestmark = pytest.mark.ours


@pytest.fixture(scope='module')
def crowd(tmp_path_factory, servers):
    """All programs, running on the hosts of three cells."""
    with running(
        tmp_path_factory.mktemp('load', numbered=False),
        servers,
        names(CELLS, EMPTY),
        fleet(CELLS, EMPTY) + REFUSALS,
        CELLS,
        conductor={'workers': 2},
        scheduler={'workers': 2},
        filter_scheduler={'enabled_filters': ','.join(FILTERS)},
        pci={'alias': json.dumps(ALIAS)},
    ) as made:
        yield made


def test_all_boots_end_and_everybody_agrees_how(crowd, placement, new_uuid, claims):
    orders = ORDERS[::STEP]
    random.Random(1).shuffle(orders)
    asked = []
    for count, size in orders:
        uuids = [new_uuid() for _ in range(count)]
        crowd.boot(uuids, **size)
        asked += uuids
    books = Books(crowd, placement)
    active, failed = books.at_rest(asked, END_S)
    claims.expect(*active)
    books.agree(asked)
    assert_named(crowd, failed)
    assert len(active) > 0.9 * len(asked)
