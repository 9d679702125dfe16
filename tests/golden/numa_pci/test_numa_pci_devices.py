# SPDX-License-Identifier: Apache-2.0
"""Free devices, as nova finds and takes them: every case that asks for some.

How nodes and devices are fitted together is not looked at here: where a guest has
NUMA nodes, it is on those that nova chose.
"""

import json
import pathlib

import pytest

from novasched.objects.pci import InstancePCIRequests
from novasched.scheduler.fit.parse import parse_pools
from novasched.scheduler.fit.pci import enough_devices, requests_of
from novasched.scheduler.fit.pci_allocation import DeviceRequestFailed, HostDevices

CASES = {
    case['id']: case
    for case in json.loads(
        pathlib.Path(__file__).with_name('numa_pci_cases.json').read_bytes()
    )['cases']
    if case['pci_requests']
}


def requests_in(case):
    requested = InstancePCIRequests.obj_from_primitive(case['pci_requests'])
    return requests_of(requested)


def pools_in(case):
    stats = case['host_pci_stats']
    return parse_pools(stats and json.dumps(stats))


def sockets_in(case):
    topology = case['host_numa_topology']
    cells = topology['nova_object.data']['cells'] if topology else []
    made = [cell['nova_object.data'] for cell in cells]
    return {cell['id']: cell.get('socket') for cell in made}


def accepted(case, pools):
    """Return the numbers of the candidates that PciPassthroughFilter would keep."""
    requests = requests_in(case)
    found = [
        number
        for number, candidate in enumerate(case['allocation_candidates'])
        if HostDevices(pools, requests, candidate['mappings'], {}).supports(frozenset())
    ]
    assert not found or enough_devices(pools, requests)
    return found


def taken(case, pools, candidate, nodes=None):
    """Return the pools once the claim of a candidate is consumed, and the error."""
    mappings = case['allocation_candidates'][candidate]['mappings']
    claimed = {group: mappings[group] for group in mappings if group}
    requests, sockets = requests_in(case), sockets_in(case)
    try:
        return HostDevices(pools, requests, claimed, sockets).apply(nodes), None
    except DeviceRequestFailed as failure:
        return failure.left, 'PciDeviceRequestFailed'


def flat(pools):
    return [pool.flat() for pool in pools]


@pytest.mark.parametrize('name', CASES)
def test_pci_passthrough_filter(name):
    case = CASES[name]
    expected = case['expected']['filters']['PciPassthroughFilter']
    found = accepted(case, pools_in(case))
    assert (found, bool(found)) == (expected['candidates'], expected['passes'])


@pytest.mark.parametrize(
    'name',
    [
        name
        for name, case in CASES.items()
        if case['expected']['consume'] and not case['instance_numa_topology']
    ],
)
def test_devices_taken_without_nodes(name):
    case = CASES[name]
    expected = case['expected']['consume']
    left, error = taken(case, pools_in(case), expected['candidate'])
    assert (flat(left), error) == (expected['pci_pools'], expected['error'])


@pytest.mark.parametrize(
    'name',
    [
        name
        for name, case in CASES.items()
        if case['expected']['fit']
        and case['expected']['fit']['fits']
        and case['expected']['consume']
        and not case['expected']['consume']['candidate']
    ],
)
def test_devices_taken_near_the_nodes_of_the_guest(name):
    case = CASES[name]
    expected = case['expected']['consume']
    nodes = {cell['host_cell'] for cell in case['expected']['fit']['cells']}
    left, error = taken(case, pools_in(case), 0, frozenset(nodes))
    assert (flat(left), error) == (expected['pci_pools'], expected['error'])


@pytest.mark.parametrize(
    'name',
    [
        name
        for name, case in CASES.items()
        if 'repeat' in case and not case['instance_numa_topology']
    ],
)
def test_instances_one_after_the_other(name):
    case = CASES[name]
    pools, candidates = pools_in(case), range(len(case['allocation_candidates']))
    for expected in case['expected']['sequence']:
        candidates = [
            number for number in accepted(case, pools) if number in candidates
        ]
        assert candidates == expected['candidates']
        if candidates:
            pools, error = taken(case, pools, candidates[0])
            assert error is expected['consume']['error']
            assert flat(pools) == expected['consume']['pci_pools']
