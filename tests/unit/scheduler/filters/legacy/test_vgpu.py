# SPDX-License-Identifier: Apache-2.0
"""Virtual GPUs: candidates that have them, and hosts that have the type."""

from __future__ import annotations

from novasched.scheduler.filters.legacy.own import VGPUFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases

FILTER = VGPUFilter()


def candidate(*amounts):
    """A candidate with a provider of CPUs, and one for each number of GPUs."""
    allocations = {'root': {'resources': {'VCPU': 1}}, 'none': {}}
    for number, amount in enumerate(amounts):
        allocations[f'gpu{number}'] = {'resources': {'VGPU': amount}}
    return {'allocations': allocations, 'mappings': {}}


def request(**specs):
    given = {key.replace('__', ':'): value for key, value in specs.items()}
    return factories.request(extra_specs=given)


def left(hosts, request_):
    """The candidates of each host that passes, at table and at host grain."""
    passed = FILTER.apply(hosts, request_)
    states = [h for h in hosts.states() if FILTER.host_passes(h, request_)]
    assert [h.allocation_candidates for h in states] == (
        passed.allocation_candidates.tolist()
    )
    return passed.allocation_candidates.tolist()


@cases(
    'specs, candidates, expected',
    ('a plain flavor', {}, [candidate()], [candidate()]),
    ('has one', {'resources__VGPU': '1'}, [candidate(1)], [candidate(1)]),
    ('has none', {'resources__VGPU': '1'}, [candidate()], None),
    (
        'of all providers together',
        {'resources__VGPU': '2'},
        [candidate(1), candidate(1, 1), candidate(), candidate(3)],
        [candidate(1, 1), candidate(3)],
    ),
    (
        'of all groups together',
        {'resources1__VGPU': '1', 'resources_GPU__VGPU': '1'},
        [candidate(1)],
        None,
    ),
    ('placement was not asked', {'resources__VGPU': '1'}, [], []),
    ('none is asked', {'resources__VGPU': '0'}, [candidate()], [candidate()]),
    (
        'amounts that do not count',
        {'resources__VGPU': 'x', 'resources2__VGPU': '-1'},
        [candidate()],
        [candidate()],
    ),
    (
        'other extra specs',
        {'resources__VGPUX': '1', 'trait__VGPU': '1'},
        [candidate()],
        [candidate()],
    ),
)
def test_candidates(specs, candidates, expected):
    hosts = factories.hosts(allocation_candidates=[candidates])
    assert left(hosts, request(**specs)) == ([] if expected is None else [expected])
    assert hosts.allocation_candidates.tolist() == [candidates]


def test_each_host_keeps_its_own_candidates():
    lists = [[candidate(1)], [candidate()], [candidate(), candidate(2)], []]
    hosts = factories.hosts(allocation_candidates=lists)
    expected = [[candidate(1)], [candidate(2)], []]
    assert left(hosts[[3, 2, 1, 0]], request(resources__VGPU='1')) == expected[::-1]


@cases(
    'wanted, of_aggregate, reported, passes',
    ('of an aggregate', 'v35', 'v35,v36', None, True),
    ('not declared', 'v35', None, None, False),
    ('another', 'v37', 'v35,v36', None, False),
    ('any of two', 'v37, v36', 'v35,v36', None, True),
    ('reported as JSON', 'v35', None, '["v35", "v36"]', True),
    ('reported with commas', 'v35', None, 'v34, v35', True),
    ('reported as nonsense', 'v35', None, '{"v35": 1}', False),
    ('reported a number', 'v35', None, '[35, "v36"]', False),
    ('a type that looks like a number', '35', None, '35', True),
    ('reported without an end', 'v35', None, '[' * 99999, False),
    ('either of both', 'v35', 'v1', 'v35', True),
    ('an empty type', '', 'v1', 'v1', False),
    ('none is asked', None, None, None, True),
)
def test_types(wanted, of_aggregate, reported, passes):
    aggregates = ()
    if of_aggregate is not None:
        aggregates = (factories.aggregate(1, vgpu_types=of_aggregate),)
    stats = {} if reported is None else {'vgpu_types': reported}
    hosts = factories.hosts(aggregates=[aggregates], stats=[stats])
    specs = {} if wanted is None else {'vgpu__type': wanted}
    assert bool(left(hosts, request(**specs))) is passes


def test_both_must_hold():
    aggregates = [(factories.aggregate(1, vgpu_types='v1'),), ()]
    lists = [[candidate()], [candidate(1)]]
    hosts = factories.hosts(aggregates=aggregates, allocation_candidates=lists)
    assert left(hosts, request(vgpu__type='v1', resources__VGPU='1')) == []


@cases(
    'columns, code, text',
    (
        'another type',
        {'stats': [{'vgpu_types': 'v3, v2'}]},
        Code.VGPU_DIFFERS,
        'virtual GPUs are v2, v3, not v1,v9',
    ),
    (
        'not declared',
        {},
        Code.VGPU_DIFFERS,
        'virtual GPUs are of no known type, not v1,v9',
    ),
    (
        'too few',
        {
            'stats': [{'vgpu_types': 'v9'}],
            'allocation_candidates': [[candidate(), candidate(1)]],
        },
        Code.VGPU_MISSING,
        '2 virtual GPUs asked, candidates have 1',
    ),
)
def test_why(columns, code, text):
    host = factories.hosts(**columns or {'count': 1}).state(0)
    reason = FILTER.why(host, request(vgpu__type='v1,v9', resources__VGPU='2'))
    assert reason == (code, text)
