# SPDX-License-Identifier: Apache-2.0
"""What keeps hosts from being offered, of made and of recorded clouds."""

import json
import pathlib
from dataclasses import replace

import numpy as np
import pytest

from novasched.providers.candidates import search
from novasched.providers.contents import build
from novasched.providers.diagnosis import conditions, diagnose, judge
from novasched.resources.query import Group, Query
from novasched.scheduler.reasons import Code
from tests.support.clouds import recorded_worlds as worlds
from tests.support.placement.placement_worlds import CLASSES, TRAITS
from tests.support.tables.cases import cases

RECORDED = json.loads(
    (pathlib.Path(__file__).parents[2] / 'samples/candidates_cases.json').read_text()
)
KNOWN = ['COMPUTE_ACCELERATORS', 'CUSTOM_ZONE', *TRAITS, *CLASSES]
GOLD = 'CUSTOM_GOLD'
OFF = 'COMPUTE_STATUS_DISABLED'


def host(uuid, vcpu=8, traits=(), aggregates=(), parent=None, **inventories):
    if vcpu:
        inventories['VCPU'] = [vcpu, 0, 1, vcpu, 1, 1.0]
    return {
        'uuid': uuid,
        'parent': parent,
        'inventories': inventories,
        'traits': list(traits),
        'aggregates': list(aggregates),
    }


def table_of(*providers, used=()):
    """``used``: pairs of the index of a provider and its VCPUs in use."""
    consumers = [{str(index): {'VCPU': amount}} for index, amount in used]
    world = {'providers': list(providers), 'consumers': consumers}
    return build(worlds.contents(world, [GOLD, OFF], ['VCPU', 'PCPU']))


def vcpus(amount=4, **more):
    return Query((Group(resources={'VCPU': amount}, **more),))


def reasons(query, table, **hosts):
    named = hosts or {uuid: uuid for uuid in table.uuids if '-' not in uuid}
    said = diagnose(query, table, named)
    assert (
        sum(each['hosts'] for each in said['reasons']) + said['offered']
        == (said['hosts'])
    )
    return [
        (each['code'], each['what'], each['hosts'], each['only'], each['largest'])
        for each in said['reasons']
    ]


def test_a_cloud_where_each_host_lacks_something_else():
    query = Query(
        (
            Group(
                resources={'VCPU': 4},
                required=frozenset({GOLD}),
                member_of=(frozenset({'az1'}),),
                not_member_of=frozenset({'private'}),
            ),
        ),
        root_forbidden=frozenset({OFF}),
    )
    good = {'traits': [GOLD], 'aggregates': ['az1']}
    table = table_of(
        host('good', **good),
        host('off', traits=[GOLD, OFF], aggregates=['az1']),
        host('elsewhere', traits=[GOLD]),
        host('kept', traits=[GOLD], aggregates=['az1', 'private']),
        host('plain', aggregates=['az1']),
        host('bare', vcpu=0, PCPU=[4, 0, 1, 4, 1, 1.0], **good),
        host('small', vcpu=3, **good),
        host('full', **good),
        host('fuller', **good),
        host('both', traits=[OFF], aggregates=['az1']),
        host('off elsewhere', traits=[GOLD, OFF]),
        used=[(7, 5), (8, 7)],
    )
    assert reasons(query, table) == [
        (Code.AGGREGATE_MISSING, 'az1', 2, 1, None),
        (Code.DISABLED, '', 2, 1, None),
        (Code.EXHAUSTED, 'VCPU', 2, 2, 3),
        (Code.AGGREGATE_FORBIDDEN, 'private', 1, 1, None),
        (Code.TRAIT_MISSING, GOLD, 1, 1, None),
        (Code.CLASS_MISSING, 'VCPU', 1, 1, None),
        (Code.AMOUNT_NOT_ALLOWED, 'VCPU', 1, 1, 3),
    ]
    met = conditions(query, table, ['good', 'plain', 'both', 'unknown'])
    assert {words: mask.tolist() for words, mask in met.items()} == {
        'enabled compute service': [True, True, False, True],
        f'trait {GOLD}': [True, False, False, True],
        'resource provider': [True, True, True, False],
    }


@cases('query, expected',
    ('in_tree', vcpus(in_tree='a'), [(Code.NOT_IN_TREE, 'a', 1, 1, None)]),
    ('a forbidden trait', vcpus(forbidden=frozenset({GOLD})),
     [(Code.TRAIT_FORBIDDEN, GOLD, 1, 1, None)]),
    ('a forbidden trait that nothing has',
     vcpus(forbidden=frozenset({'CUSTOM_UNHEARD_OF'})), []),
    ('a required trait that nothing has',
     vcpus(required=frozenset({'CUSTOM_UNHEARD_OF'})),
     [(Code.TRAIT_MISSING, 'CUSTOM_UNHEARD_OF', 2, 2, None)]),
    ('one of two traits', vcpus(required_any=(frozenset({GOLD, OFF}),)),
     [(Code.TRAIT_MISSING, f'{OFF},{GOLD}', 1, 1, None)]),
    ('a class that nothing has', Query((Group(resources={'PCPU': 1}),)),
     [(Code.CLASS_MISSING, 'PCPU', 2, 2, None)]),
    ('offered for the fallback',
     Query((Group(resources={'PCPU': 1}),), fallback=vcpus()), []),
)  # fmt: skip
def test_single_conditions(query, expected):
    table = table_of(host('a', traits=[GOLD]), host('b'))
    assert reasons(query, table) == expected


def test_hosts_without_dedicated_cpus_are_judged_by_the_fallback():
    table = table_of(
        host('a', vcpu=0, PCPU=[2, 0, 1, 2, 1, 1.0]),
        host('b'),
        host('c', traits=[OFF]),
        used=[(1, 6)],
    )
    off = frozenset({OFF})
    fallback = replace(vcpus(4), root_forbidden=off)
    query = Query(
        (Group(resources={'PCPU': 4}),), fallback=fallback, root_forbidden=off
    )
    assert reasons(query, table) == [
        (Code.DISABLED, '', 1, 1, None),
        (Code.AMOUNT_NOT_ALLOWED, 'PCPU', 1, 1, 2),
        (Code.EXHAUSTED, 'VCPU', 1, 1, 2),
    ]


def test_children_serve_groups():
    """A child has what the root has not; a group is judged among those that match."""
    device = {'vcpu': 0, 'parent': 0, 'DEVICE': [1, 0, 1, 1, 1, 1.0]}
    table = table_of(
        host('a'), host('a-1', **device, traits=[GOLD]), host('a-2', **device)
    )

    def asking(*suffixes, required=frozenset(), policy=None, **more):
        groups = [Group(s, {'DEVICE': 1}, required=required, **more) for s in suffixes]
        return Query((Group(resources={'VCPU': 1}), *groups), group_policy=policy)

    gold = frozenset({GOLD})
    assert reasons(asking('_1'), table) == []
    assert reasons(asking('_1', required=gold), table) == []
    assert reasons(asking('_1', required=frozenset({OFF})), table) == [
        (Code.TRAIT_MISSING, OFF, 1, 1, None)
    ]
    assert reasons(asking('_1', '_2', '_3', policy='none'), table) == [
        (Code.EXHAUSTED, 'DEVICE', 1, 1, 2)
    ]
    assert reasons(asking('_1', '_2', required=gold, policy='isolate'), table) == [
        (Code.NOT_TOGETHER, '', 1, 1, None)
    ]


def test_only_trees_with_compute_nodes_are_judged():
    table = table_of(host('a'), host('b'), host('storage'))
    said = diagnose(vcpus(9), table, {'b': 'cmp-b', 'gone': 'cmp-c'}, 12.34, 'api')
    assert said == {
        'age_s': 12.3,
        'source': 'api',
        'hosts': 1,
        'offered': 0,
        'reasons': [
            {
                'code': 'amount-not-allowed',
                'what': 'VCPU',
                'named': '',
                'hosts': 1,
                'only': 1,
                'wanted': 9,
                'largest': 8,
                'example': 'cmp-b',
            }
        ],
    }


def test_the_example_is_the_host_that_is_nearest_to_being_offered():
    table = table_of(
        host('a', aggregates=['az1']),
        host('b', aggregates=['az1']),
        host('c', aggregates=['az1'], traits=[OFF]),
        host('d', vcpu=4),
        host('e'),
        used=[(0, 7), (1, 3), (3, 3)],
    )
    query = Query(
        (Group(resources={'VCPU': 6}, member_of=(frozenset({'az1'}),)),),
        root_forbidden=frozenset({OFF}),
    )
    said = diagnose(query, table, {uuid: uuid for uuid in 'abcde'})['reasons']
    assert {each['code']: each['example'] for each in said} == {
        Code.EXHAUSTED: 'b',
        Code.AGGREGATE_MISSING: 'e',
        Code.DISABLED: 'c',
    }


def test_aggregates_are_named():
    uuids = frozenset({'u1', 'u2', 'u3', 'u4', 'u5'})
    query = vcpus(member_of=(uuids,), not_member_of=frozenset({'u6'}))
    table = table_of(host('a'), host('b', aggregates=['u1', 'u6']))
    names = {f'u{number}': f'rack-{number}' for number in (6, 4, 3, 2, 1)}
    said = diagnose(query, table, {'a': 'a', 'b': 'b'}, aggregates=names)['reasons']
    assert [(each['code'], each['named']) for each in said] == [
        (Code.AGGREGATE_MISSING, 'rack-1, rack-2, rack-3 or 2 others'),
        (Code.AGGREGATE_FORBIDDEN, 'rack-6'),
    ]


@pytest.mark.parametrize(
    'case', [case for case in RECORDED['cases'] if case['status'] == 200]
)
def test_conditions_of_recorded_queries(case):
    """All are met by whatever is offered, and the counts add up."""
    world = RECORDED['worlds'][case['world']]
    query = worlds.query(case['query'])
    table = build(worlds.contents(world, KNOWN, KNOWN))
    judgement = judge(query, table)
    expected = np.zeros(len(table), bool)
    expected[search(query, table).anchors] = True
    assert (judgement.offered == expected).all()
    named = dict(zip(table.uuids, table.uuids, strict=True))
    said = diagnose(query, table, named)
    assert said['offered'] == expected.sum()
    assert said['hosts'] == len(np.unique(table.roots))
    assert sum(r['hosts'] for r in said['reasons']) == said['hosts'] - said['offered']
