# SPDX-License-Identifier: Apache-2.0
"""As many pinned servers as there are free NUMA cells, booted at once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched.decisions.reading import Criteria, DecisionFiles
from tests.live.flow import running
from tests.live.flow_books import Books

HOSTS, CELLS_EACH, CLIENTS = 100, 2, 8
FILTERS = 'ComputeFilter,NUMATopologyFilter'
FLEET = f"""
[[hosts]]
name = "pinned-{{}}"
cell = "cell1"
count = {HOSTS}
vcpus = 16
memory_mb = 32768
disk_gb = 200
numa_nodes = {CELLS_EACH}
dedicated_cpus = "0-4,8-12"
"""
# By its ten CPUs placement would let a host have three: a cell has five of them.
PINNED = {
    'flavor': 'pinned',
    'vcpus': 3,
    'memory_mb': 1024,
    'extra_specs': {'hw:cpu_policy': 'dedicated'},
}
END_S = 480

pytestmark = pytest.mark.ours


@pytest.fixture(scope='module')
def pinned_hosts(tmp_path_factory, servers):
    """All programs, with four scheduler processes."""
    with running(
        tmp_path_factory.mktemp('picks', numbered=False),
        servers,
        [f'pinned-{number}' for number in range(1, HOSTS + 1)],
        FLEET,
        ('cell1',),
        conductor={'workers': 2},
        scheduler={'workers': 4},
        filter_scheduler={'enabled_filters': FILTERS},
    ) as made:
        yield made


def boot_all(pinned_hosts, placement, uuids):
    """Boot as many as there are NUMA cells, by eight clients; return those that run and
    those that failed, once all agree."""

    def boot(uuid):
        pinned_hosts.boot([uuid], **PINNED)
        pinned_hosts.ended(uuid, END_S)

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(boot, uuids))
    books = Books(pinned_hosts, placement)
    active, failed = books.at_rest(uuids, END_S)
    books.agree(uuids)
    return active, failed


def refused(pinned_hosts):
    """Return the hosts that have refused servers, and these, once for each time."""
    log = pinned_hosts.processes['compute'].log
    return re.findall(r'(\S+) cannot build (\S+):', log)


def picked_here(pinned_hosts):
    """Return hosts and servers as the decision log of our scheduler has them."""
    reader = DecisionFiles(
        pinned_hosts.cloud.dir / 'novasched' / 'decisions', pytest.fail
    )
    ids = [head.id for head in reader.find(Criteria(), 10 * HOSTS)]
    return {
        pair
        for found in reader.servers_of(ids).values()
        for pair in zip(found.hosts, found.uuids, strict=True)
    }


@pytest.mark.exhaustive('minutes: two hundred boots on a hundred hosts')
@pytest.mark.scenario('F2', 'I4', 'I6')
def test_each_numa_cell_is_given_away_once(pinned_hosts, placement, new_uuid, claims):
    uuids = [new_uuid() for _ in range(HOSTS * CELLS_EACH)]
    active, failed = boot_all(pinned_hosts, placement, uuids)
    claims.expect(*active)
    assert (len(failed), refused(pinned_hosts)) == (0, [])
    pinned_hosts.delete_all()
    claims.forget(*active)


@pytest.mark.exhaustive('minutes: two hundred boots on a hundred hosts')
@pytest.mark.scenario('F2', 'I4')
def test_beside_a_nova_scheduler_what_was_picked_here_holds(
    pinned_hosts, placement, new_uuid, claims, nova_scheduler
):
    """It tells nobody what it picks, and hears of nobody; so computes refuse some."""
    cloud, before = pinned_hosts.cloud, len(refused(pinned_hosts))
    filters = {'enabled_filters': FILTERS}
    nova_scheduler(cloud, cloud.transport_url, filter_scheduler=filters)
    uuids = [new_uuid() for _ in range(HOSTS * CELLS_EACH)]
    active, _ = boot_all(pinned_hosts, placement, uuids)
    claims.expect(*active)
    here, lost = picked_here(pinned_hosts), refused(pinned_hosts)[before:]
    running = {(pinned_hosts.instance(uuid).host, uuid) for uuid in active}
    for host in {host for host, _ in here.intersection(lost)}:
        assert {each for each in running if each[0] == host} - here, host
    pinned_hosts.delete_all()
    claims.forget(*active)
