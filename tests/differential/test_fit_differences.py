# SPDX-License-Identifier: Apache-2.0
"""What counts as a difference between fits, which of nova's defects show, who judges.

The golden cases are fits that show each defect; they go through both sides here, too.
"""

import copy

import pytest

from tests.differential import ours_fits
from tests.differential.fit_comparison import judge_of
from tests.differential.fit_differences import difference
from tests.differential.fit_shrinking import shrink
from tests.differential.fits import fit
from tests.golden.numa_pci.test_numa_pci_hosts import CASES
from tests.support.tables.cases import cases

SHOWN = {
    'memo-false-negative': 'N1',
    'memo-false-positive': 'N1',
    'page-sticky-after-failed-cell': 'N2',
    'page-sticky-multi-create': 'N5',
    'sq-0692-pcipin': 'N5',
    'pin-ht-isolate-legacy': None,
    'seed-host-2': None,
}


def answer(case):
    """Return our answer in the form of nova's: it may tell of an error."""
    ((found, _),) = ours_fits.answers(case, 'nova')
    for entry in (*(found['filters'] or {}).values(), *found['sequence']):
        entry['error'] = None
    return found


def changed(path, value):
    made = answer(CASES['pin-ht-isolate-legacy'])
    *outer, last = path
    inner = made
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return made


PLACED = ('sequence', 0)
CONSUMED = (*PLACED, 'consume')
NODE = (*PLACED, 'guest', 0)


@cases(
    'path, value, subject',
    (
        'a filter that refuses',
        ('filters', 'PciPassthroughFilter', 'passes'),
        False,
        'PciPassthroughFilter',
    ),
    ('another candidate', ('filters', 'both', 'candidates'), [], 'both'),
    ('an instance refused', (*PLACED, 'passes'), False, 'both'),
    ('an error', (*CONSUMED, 'error'), 'X', 'error'),
    (
        'a lost topology',
        (*CONSUMED, 'request_topology_cleared'),
        True,
        'request_topology_cleared',
    ),
    ('another node', (*NODE, 'host_cell'), 7, 'guest'),
    ('another page size', (*NODE, 'pagesize'), 4, 'guest'),
    ('another core', (*NODE, 'cpu_pinning_core'), {'0': 3, '1': 1}, 'guest'),
    ('usage', (*CONSUMED, 'numa_cells', 0, 'cpu_usage'), 9, 'numa_cells'),
    ('a pool', (*CONSUMED, 'pci_pools'), [{}], 'pci_pools'),
)
def test_a_difference(path, value, subject):
    found = difference(changed(path, value), answer(CASES['pin-ht-isolate-legacy']))
    assert found.subject == subject
    assert subject in str(found)


@cases(
    'path, value',
    ('another thread of a core', (*NODE, 'cpu_pinning'), {}),
    ('and booked', (*CONSUMED, 'numa_cells', 0, 'pinned_cpus'), [9]),
    (
        'a filter that nova cannot finish',
        ('filters', 'NUMATopologyFilter'),
        {'passes': False, 'candidates': [], 'error': 'ValueError'},
    ),
)
def test_not_a_difference(path, value):
    ours = answer(CASES['pin-ht-isolate-legacy'])
    assert difference(changed(path, value), ours) is None


def test_golden_cases_go_through_both(fit_comparison):
    compared = fit_comparison.compare(list(CASES.values()))
    assert [problem for _, problem, _ in compared if problem] == []
    defects = dict(zip(CASES, (defect for _, _, defect in compared), strict=True))
    assert {name: defects[name] for name in SHOWN} == SHOWN


@pytest.mark.parametrize('name', SHOWN)
def test_fit_is_written_as_a_golden_case(fit_comparison, name):
    case = CASES[name]
    asked = {key: value for key, value in case.items() if key != 'expected'}
    made = fit_comparison.golden_case(asked)['expected']
    assert made == case['expected']


def judged(name, path=(), value=None):
    """Return what the judge says of our fit of a golden case, changed."""
    case = CASES[name]
    ((found, everyone),) = ours_fits.answers(case, 'right')
    nodes = copy.deepcopy(found['sequence'][0]['guest'])
    if path:
        number, key = path
        nodes[number][key] = value
    return list(judge_of(case, everyone[0]).problems(nodes))


@pytest.mark.parametrize(
    ('name', 'path', 'value', 'about'),
    [
        ('pin-ht-isolate-legacy', (0, 'cpu_pinning'), {'0': 0, '1': 4}, 'shared'),
        ('pin-ht-isolate-legacy', (0, 'cpu_pinning'), {'0': 0, '1': 0}, 'free'),
        ('pin-ht-isolate-legacy', (0, 'cpu_pinning'), {'0': 0}, 'pinned'),
        ('pin-ht-require-odd', (0, 'cpu_pinning'), {'0': 0, '1': 1, '2': 2}, 'same'),
        ('emu-isolate-ht', (0, 'cpuset_reserved'), None, 'reserved'),
        ('seed-host-2', (0, 'pagesize'), 4, 'pages of 4'),
        ('seed-host-2', (0, 'memory'), 4, '4 MiB'),
        ('seed-host-2', (0, 'host_cell'), 9, 'nodes'),
    ],
)
def test_the_judge_sees_what_does_not_fit(name, path, value, about):
    assert judged(name) == []
    assert about in '; '.join(judged(name, path, value))


def test_shrunk_fit_has_only_what_matters():
    def holds(case):
        requests = case['pci_requests'] or {'nova_object.data': {'requests': ()}}
        return bool(requests['nova_object.data']['requests'])

    case = next(case for case in map(fit, range(1000)) if holds(case))
    small = shrink(case, holds)
    assert len(small['pci_requests']['nova_object.data']['requests']) == 1
    assert small['host_numa_topology'] is small['instance_numa_topology'] is None
    assert 'repeat' not in small
    assert not small['flavor_extra_specs']
