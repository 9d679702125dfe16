# SPDX-License-Identifier: Apache-2.0
"""Fits that nova made, made again: order of cells, cells, page sizes, pinned CPUs.

Threads of one core are alike, so CPUs are compared by the core that they are on.
"""

import json
import pathlib

import pytest

from novasched.objects.base import parse
from novasched.scheduler.fit.explain import explain
from novasched.scheduler.fit.nova_search import fit_as_nova
from novasched.scheduler.fit.numa import CellRefusal, fit_pair
from novasched.scheduler.fit.parse import host_cells, parse_pools
from novasched.scheduler.fit.pci import requests_of
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.requirements import guest_of, networks_of
from novasched.scheduler.fit.search import ordered
from novasched.scheduler.fit.topology import CellLimits
from tests.support.clouds.topologies import fit

HERE = pathlib.Path(__file__).parent
CASES = {
    case['id']: case
    for case in json.loads((HERE / 'numa_pci_cases.json').read_text())['cases']
}
RIGHTLY_ELSE = json.loads((HERE / 'right_fits.json').read_text())
"""The fits of a search that has no memory, where nova's are others."""


def limits_of(primitive):
    if primitive is None:
        return None
    limits = parse(primitive)
    asked = limits.network_metadata if 'network_metadata' in limits else None
    return CellLimits(
        limits.cpu_allocation_ratio, limits.ram_allocation_ratio, networks_of(asked)
    )


def devices_of(case, cells):
    """Return the host's devices as the first candidate allocates them."""
    requests = case['pci_requests']
    mapping = case['allocation_candidates'][0]['mappings']
    return HostDevices(
        parse_pools(json.dumps(case['host_pci_stats'])),
        requests_of(parse(requests) if requests else None),
        mapping,
        {cell.id: cell.socket for cell in cells},
    )


def question_of(case):
    """Return what a search is asked; None if host or guest has no topology."""
    topology = case['instance_numa_topology']
    if case['host_numa_topology'] is None or topology is None:
        return None
    cells = host_cells(json.dumps(case['host_numa_topology']))
    guest = guest_of(parse(topology))
    pack = case['config']['packing_host_numa_cells_allocation_strategy']
    devices = devices_of(case, cells)
    return cells, guest, limits_of(case['limits']), devices, pack


def described(attempt, cells):
    """Return an attempt as the cases record it, host CPUs by their cores."""
    if not attempt.fits:
        return {'fits': False}
    hosts = {cell.id: cell for cell in cells}
    return {
        'fits': True,
        'cells': [fitted(cell, hosts[cell.id]) for cell in attempt.guest.cells],
    }


def fitted(cell, host):
    def core(cpu):
        return [number for number, core in enumerate(host.siblings) if cpu in core]

    pinning = cell.pinning and {str(vcpu): core(cpu) for vcpu, cpu in cell.pinning}
    return {
        'host_cell': cell.id,
        'memory': cell.memory,
        'pagesize': cell.pagesize,
        'cpuset': sorted(cell.cpuset),
        'pcpuset': sorted(cell.pcpuset),
        'cpu_pinning_core': pinning,
        'cpuset_reserved_core': cell.reserved
        and sorted(core(cpu) for cpu in cell.reserved),
    }


def recorded(attempt):
    """Return a recorded fit like described() does ours."""
    if not attempt['fits']:
        return {'fits': False}

    def cores(numbers):
        return [[] if number is None else [number] for number in numbers]

    cells = []
    for cell in attempt['cells']:
        told = {
            key: value
            for key, value in cell.items()
            if key not in ('cpu_pinning', 'cpuset_reserved')
        }
        pinning, reserved = told['cpu_pinning_core'], told['cpuset_reserved_core']
        if pinning is not None:
            values = cores(pinning.values())
            told['cpu_pinning_core'] = dict(zip(pinning, values, strict=True))
        if reserved is not None:
            told['cpuset_reserved_core'] = sorted(cores(reserved))
        cells.append(told)
    return {'fits': True, 'cells': cells}


def is_valid(cells, guest):
    """Say whether a fitted guest is on cells of its own and can be booked there."""
    hosts = {cell.id: cell for cell in cells}
    ids = [cell.id for cell in guest.cells]
    return len(set(ids)) == len(ids) and all(
        has_cpus(hosts[cell.id], cell) and has_pages(hosts[cell.id], cell)
        for cell in guest.cells
    )


def has_cpus(host, cell):
    cpus = [cpu for _, cpu in cell.pinning or ()] + sorted(cell.reserved or ())
    wanted = len(cell.pcpuset) + len(cell.reserved or ())
    return len(set(cpus)) == wanted and host.free_cpus.issuperset(cpus)


def has_pages(host, cell):
    if not cell.pagesize:
        return True
    (pages,) = (pages for pages in host.mempages if pages.size_kb == cell.pagesize)
    return pages.free * pages.size_kb >= cell.memory * 1024


@pytest.mark.parametrize('name', CASES)
def test_cells_are_tried_in_the_order_of_nova(name):
    case = CASES[name]
    asked = question_of(case)
    tried = None
    if asked is not None:
        cells, guest, _, devices, pack = asked
        if len(cells) >= len(guest.cells):
            tried = [cell.id for cell in ordered(cells, guest, devices, pack)]
    assert tried == case['expected']['cell_order']


@pytest.mark.parametrize('name', CASES)
def test_the_search_of_nova_answers_as_nova(name):
    case = CASES[name]
    asked = question_of(case)
    if asked is None:
        assert case['expected']['fit'] is None
        return
    found = described(fit_as_nova(*asked), asked[0])
    assert found == recorded(case['expected']['fit'])


@pytest.mark.parametrize('name', CASES)
def test_the_right_search_answers_as_nova_but_for_its_defects(name):
    case = CASES[name]
    asked = question_of(case)
    if asked is None:
        assert case['expected']['fit'] is None
        return
    attempt = fit(*asked)
    expected = recorded(case['expected']['fit'])
    if case['expected'].get('same_as_stateless_search') is False:
        expected = RIGHTLY_ELSE[name]
    assert described(attempt, asked[0]) == expected
    if attempt.fits:
        assert is_valid(asked[0], attempt.guest)
    else:
        assert attempt.guest == asked[1]
        assert explain(*asked).text


def test_other_fits_are_recorded_where_nova_has_a_defect_and_only_there():
    defects = {
        name
        for name, case in CASES.items()
        if case['expected'].get('same_as_stateless_search') is False
    }
    assert set(RIGHTLY_ELSE) == defects


@pytest.mark.parametrize('name', RIGHTLY_ELSE)
def test_nova_has_no_better_answer_where_ours_is_another(name):
    cells, guest, limits, _, _ = question_of(CASES[name])
    nova = CASES[name]['expected']['fit']
    if RIGHTLY_ELSE[name]['fits'] or not nova['fits']:
        return
    hosts = {cell.id: cell for cell in cells}
    refused = [
        fit_pair(hosts[got['host_cell']], asked, limits, 0)
        for got, asked in zip(nova['cells'], guest.cells, strict=True)
    ]
    assert any(isinstance(found, CellRefusal) for found in refused)
