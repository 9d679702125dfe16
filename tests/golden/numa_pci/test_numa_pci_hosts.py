# SPDX-License-Identifier: Apache-2.0
"""Hosts with nodes and devices: what nova filtered and consumed, done again.

``numa_compat = nova`` gives what nova gave. ``right`` does so, too, but for the cases
in ``right_hosts.json``, which has what it gives there.
"""

import json
import pathlib

import pytest

from novasched.objects.base import parse
from novasched.objects.request_spec import RequestGroup
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import consume
from tests.support.clouds import factories

HERE = pathlib.Path(__file__).parent
CASES = {
    case['id']: case
    for case in json.loads((HERE / 'numa_pci_cases.json').read_text())['cases']
}
RIGHTLY_ELSE = json.loads((HERE / 'right_hosts.json').read_text())
FILTERED = [name for name, case in CASES.items() if case['limits']]
ERRORS = {'PciDeviceRequestFailed': 'DeviceRequestFailed'}


def fitting_of(case, mode):
    pack = case['config']['packing_host_numa_cells_allocation_strategy']
    return Fitting(pack, mode == 'nova')


def host_of(case):
    """Return the host of a case; its ratios and candidates are those of the case."""
    limits = case['limits'] and parse(case['limits'])
    ratios = {
        f'{name}_allocation_ratio': [getattr(limits, f'{name}_allocation_ratio')]
        for name in ('cpu', 'ram')
        if limits
    }
    candidates = [
        {'number': number, 'allocations': {}, **candidate}
        for number, candidate in enumerate(case['allocation_candidates'])
    ]
    return factories.hosts(
        numa_topology=[case['host_numa_topology'] and text(case['host_numa_topology'])],
        pci_stats=[case['host_pci_stats'] and text(case['host_pci_stats'])],
        allocation_candidates=[candidates],
        **ratios,
    )


def text(primitive):
    return json.dumps(primitive)


def request_of(case):
    limits = case['limits'] and parse(case['limits'])
    groups = [name for name in case['allocation_candidates'][0]['mappings'] if name]
    given = {}
    if limits and 'network_metadata' in limits:
        given['network_metadata'] = limits.network_metadata
    return factories.request(
        extra_specs=case['flavor_extra_specs'],
        image=case['image_properties'],
        numa_topology=parsed(case['instance_numa_topology']),
        pci_requests=parsed(case['pci_requests']),
        requested_resources=[RequestGroup(requester_id=name) for name in groups],
        **given,
    )


def parsed(primitive):
    return None if primitive is None else parse(primitive)


def filtered(hosts, request, filters):
    for each in filters:
        hosts = each.apply(hosts, request)
    return hosts


def left(hosts):
    if not len(hosts):
        return {'passes': False, 'candidates': []}
    candidates = hosts.state(0).allocation_candidates
    return {'passes': True, 'candidates': [one['number'] for one in candidates]}


def filters_of(case, mode):
    """Return what the filters say, each alone and one after the other."""
    numa, pci = NUMATopologyFilter(fitting_of(case, mode)), PciPassthroughFilter()
    return {
        names: left(filtered(host_of(case), request_of(case), filters))
        for names, filters in (
            ('PciPassthroughFilter', [pci]),
            ('NUMATopologyFilter', [numa]),
            ('both', [pci, numa]),
        )
    }


def sequence_of(case, mode):
    """Return what became of each instance of a request; the first refused is last."""
    fitting, hosts, request = fitting_of(case, mode), host_of(case), request_of(case)
    filters = [PciPassthroughFilter(), NUMATopologyFilter(fitting)]
    found = []
    for _ in range(case.get('repeat', 1)):
        if case['limits']:
            hosts = filtered(hosts, request, filters)
        entry = left(hosts)
        found.append({**entry, 'consume': None})
        if not entry['passes']:
            break
        consumed, hosts, request = consumed_by(hosts, request, fitting)
        found[-1]['consume'] = consumed
    return found


def consumed_by(hosts, request, fitting):
    """Return what a case says of consumption, the host and the next request."""
    candidate = hosts.state(0).allocation_candidates[0]
    asked = request.with_providers(candidate)
    before = int(hosts.num_io_ops[0])
    booked = book(consume(hosts, 0, asked), 0, asked, fitting)
    problem = booked.problem
    error = problem and getattr(problem, 'error', type(problem).__name__)
    assert int(booked.hosts.num_io_ops[0]) == before + 1 - (
        error is not None and fitting.as_nova
    )
    host, wanted = booked.hosts.state(0), asked.numa_topology
    if fitting.as_nova:
        asked = asked.replaced(numa_topology=booked.topology)
    entry = {
        'candidate': candidate['number'],
        'error': error,
        'request_topology_cleared': bool(wanted) and booked.topology is None,
        'numa_cells': host.numa_topology and cells_of(host.numa_topology),
        'pci_pools': host.pci_stats.pools,
    }
    return entry, booked.hosts, asked


def cells_of(topology):
    return [
        {
            'id': cell.id,
            'cpu_usage': cell.cpu_usage,
            'memory_usage': cell.memory_usage,
            'pinned_per_core': [len(core & cell.pinned_cpus) for core in cell.siblings],
            'mempages': [pages._asdict() for pages in cell.mempages],
        }
        for cell in topology.cells
    ]


def expected_sequence(case):
    """Return what the case expects, in the words that are used here."""
    expected = case['expected']
    both = {'passes': True, 'candidates': [0]}
    if expected['filters']:
        both = expected['filters']['both']
    entries = expected.get('sequence') or [{**both, 'consume': expected['consume']}]
    return [comparable(entry) for entry in entries]


def comparable(entry):
    """Drop the numbers of pinned CPUs: threads of one core are alike."""
    consumed = entry['consume']
    if consumed is None:
        return entry
    cells = consumed['numa_cells'] and [
        {key: value for key, value in cell.items() if key != 'pinned_cpus'}
        for cell in consumed['numa_cells']
    ]
    error = ERRORS.get(consumed['error'], consumed['error'])
    return {**entry, 'consume': {**consumed, 'numa_cells': cells, 'error': error}}


def expected_filters(case):
    return {
        name: {key: entry[key] for key in ('passes', 'candidates')}
        for name, entry in case['expected']['filters'].items()
    }


def accept(kind, name, made):
    known = json.loads((HERE / 'right_hosts.json').read_text())
    known[kind][name] = made
    (HERE / 'right_hosts.json').write_text(json.dumps(known, indent=1) + '\n')


@pytest.mark.parametrize('mode', ['right', 'nova'])
@pytest.mark.parametrize('name', FILTERED)
def test_filters_pass_the_same(name, mode, request):
    case = CASES[name]
    expected, made = expected_filters(case), filters_of(case, mode)
    if mode == 'right':
        expected = RIGHTLY_ELSE['filters'].get(name, expected)
        if made != expected and request.config.getoption('--regold'):
            accept('filters', name, made)
            return
    assert made == expected


@pytest.mark.parametrize('mode', ['right', 'nova'])
@pytest.mark.parametrize('name', CASES)
def test_instances_take_the_same(name, mode, request):
    case = CASES[name]
    expected, made = expected_sequence(case), sequence_of(case, mode)
    if mode == 'right':
        expected = RIGHTLY_ELSE['sequence'].get(name, expected)
        if made != expected and request.config.getoption('--regold'):
            accept('sequence', name, made)
            return
    assert made == expected


def test_the_right_answer_is_another_only_where_nova_errs():
    for name in {*RIGHTLY_ELSE['filters'], *RIGHTLY_ELSE['sequence']}:
        case = CASES[name]
        assert 'repeat' in case or {'quirk', 'consume-error'} & {*case['tags']}, name


def test_the_right_answer_books_everything():
    for name, entries in RIGHTLY_ELSE['sequence'].items():
        consumed = [entry['consume'] for entry in entries if entry['consume']]
        assert {one['error'] for one in consumed} <= {None}, name
