# SPDX-License-Identifier: Apache-2.0
"""Capacity that is counted, and then filled by a conductor and computes."""

from __future__ import annotations

import collections

import pytest

from lab.tests.functional.api import Whole
from lab.tests.functional.api import run as run_lab
from lab.tests.functional.test_plan import plan
from novasched.commands.capacity import CountCapacity
from novasched.commands.host import ShowHost
from novasched_lab.commands.servers import BootServers
from tests.cases import cases

FILTERS = ['ComputeFilter', 'NUMATopologyFilter', 'PciPassthroughFilter']
FLAT = 'vcpus=3,ram=512,disk=1'
PINNED = f'{FLAT},hw:cpu_policy=dedicated'
TWO_NODES = 'vcpus=4,ram=512,disk=1,hw:cpu_policy=dedicated,hw:numa_nodes=2'
SMALL_PAGES = 'vcpus=1,ram=3000,disk=1,hw:mem_page_size=small'
SIZE = {'vcpus': 8, 'memory_mb': 16384, 'disk_gb': 200}
HOSTS = [
    {'name': 'flat-{}', 'count': 2, 'cell': 'cell1', **SIZE},
    {'name': 'numa-{}', 'count': 2, 'cell': 'cell2', 'numa_nodes': 2, **SIZE},
]


@pytest.fixture
def whole(cloud):
    def make(filters=FILTERS, **more):
        options = {'enabled_filters': filters, **more}
        made = cloud([], filter_scheduler=options, novasched={'assume_picks': True})
        return Whole(made, {'hosts': HOSTS, 'rules': []})

    return make


def counted(made, flavor):
    """Return the slots of each host that has any."""
    code, answer, said = plan(made, CountCapacity, '--flavor', flavor, '--by', 'host')
    assert (code, said) == (0, '')
    return {row['by']: row['slots'] for row in answer['rows'] if row['slots']}


def filled(made, flavor):
    """Boot servers one by one until there is no host; count them by host."""
    found = collections.Counter()
    while True:
        code, booted, _ = run_lab(
            made, BootServers, f's{found.total()}', '--flavor', flavor
        )
        if code:
            return dict(found)
        found.update(each['Host'] for each in booted)


@cases(
    'flavor, hosts',
    ('flat', 'vcpus=1,ram=9000,disk=1', 4),
    ('two NUMA nodes', TWO_NODES, 2),
    more=(('dedicated CPUs', PINNED, 2), ('memory pages', SMALL_PAGES, 2)),
)
def test_as_many_as_counted_can_be_booted(whole, flavor, hosts):
    made = whole()
    expected = counted(made, flavor)
    assert len(expected) == hosts
    assert filled(made, flavor) == expected
    assert counted(made, flavor) == {}


def test_a_limit_of_instances(whole):
    made = whole(['ComputeFilter', 'NumInstancesFilter'], max_instances_per_host=1)
    assert counted(made, FLAT) == dict.fromkeys(
        ['flat-1', 'flat-2', 'numa-1', 'numa-2'], 1
    )
    assert sum(filled(made, FLAT).values()) == 4


def test_who_holds_the_cpus_of_a_host(whole):
    made = whole()
    code, ((booted,)), _ = run_lab(made, BootServers, 'pinned', '--flavor', PINNED)
    assert code == 0
    code, answer, _ = plan(made, ShowHost, booted['Host'], '--holders', 'pcpu')
    assert code == 0
    (holder,) = answer['holders']
    assert holder['name'] == 'pinned'
    (cpus,) = holder['pcpu'].values()
    assert len(cpus) == 3
    free = [each['dedicated_free'] for each in answer['nodes'][0]['numa']]
    assert sum(map(len, free)) == 5
    assert not set(cpus) & set().union(*free)
