# SPDX-License-Identifier: Apache-2.0
"""As many pinned servers as there are free NUMA cells, booted at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.live.flow import running
from tests.live.flow_books import Books

HOSTS, CELLS_EACH, CLIENTS = 100, 2, 8
FLEET = f"""
[[hosts]]
name = "pinned-{{}}"
cell = "cell1"
count = {HOSTS}
vcpus = 16
memory_mb = 32768
disk_gb = 200
numa_nodes = {CELLS_EACH}
dedicated_cpus = "0-3,8-11"
"""
PINNED = {
    'flavor': 'pinned',
    'vcpus': 4,
    'memory_mb': 1024,
    'extra_specs': {'hw:cpu_policy': 'dedicated'},
}
END_S = 480

pytestmark = pytest.mark.ours


@pytest.fixture(scope='module')
def pinned_hosts(tmp_path_factory, rabbitmq, mariadb, placement, keystone):
    """All programs, with four scheduler processes."""
    with running(
        tmp_path_factory.mktemp('picks', numbered=False),
        (rabbitmq, mariadb, placement, keystone),
        [f'pinned-{number}' for number in range(1, HOSTS + 1)],
        FLEET,
        ('cell1',),
        conductor={'workers': 2},
        scheduler={'workers': 4},
        filter_scheduler={'enabled_filters': 'ComputeFilter,NUMATopologyFilter'},
    ) as made:
        yield made


@pytest.mark.exhaustive('minutes: two hundred boots on a hundred hosts')
@pytest.mark.scenario('F2', 'I4', 'I6')
def test_each_numa_cell_is_given_away_once(pinned_hosts, placement, new_uuid, claims):
    uuids = [new_uuid() for _ in range(HOSTS * CELLS_EACH)]

    def boot(uuid):
        pinned_hosts.boot([uuid], **PINNED)
        pinned_hosts.ended(uuid, END_S)

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(boot, uuids))
    books = Books(pinned_hosts, placement)
    active, failed = books.at_rest(uuids, END_S)
    claims.expect(*active)
    books.agree(uuids)
    refused = pinned_hosts.processes['compute'].log.count('cannot build')
    assert (len(failed), refused) == (0, 0)
