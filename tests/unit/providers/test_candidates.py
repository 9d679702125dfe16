# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates as placement 16 gave them, for recorded clouds and queries."""

import itertools
import json
import pathlib

import pytest

from novasched import errors
from novasched.providers.candidates import FEW, search
from novasched.providers.contents import build
from novasched.resources.query import Group, Query
from tests.support.clouds import recorded_worlds as worlds

RECORDED = json.loads(
    (pathlib.Path(__file__).parents[2] / 'samples/candidates_cases.json').read_text()
)
STANDARD = {'HW_CPU_X86_AVX', 'OWNER_NOVA', 'VCPU'}


def names_of(query):
    """Traits and classes that exist in placement whether anything has them or not."""
    made = worlds.query(query)
    traits = made.root_required | made.root_forbidden
    for group in made.groups:
        traits |= group.required.union(group.forbidden, *group.required_any)
    return (
        {name for name in traits if not name.startswith('NO_SUCH')},
        {n for group in made.groups for n in group.resources if n != 'NO_SUCH'},
    )


def plain(candidates, order):
    """Return candidates as they were recorded, in an order that can be compared."""
    found = []
    for candidate in candidates:
        allocations = {
            index: each['resources']
            for uuid, each in candidate['allocations'].items()
            for index in [order[uuid]]
        }
        mappings = {
            suffix: sorted(order[uuid] for uuid in uuids)
            for suffix, uuids in candidate['mappings'].items()
        }
        found.append(json.dumps([allocations, mappings], sort_keys=True))
    assert len(found) == len(set(found))
    return sorted(found)


def recorded(candidates):
    return sorted(
        json.dumps([{int(k): v for k, v in a.items()}, m], sort_keys=True)
        for a, m in candidates
    )


@pytest.mark.parametrize('case', RECORDED['cases'])
def test_candidates_equal_recorded_answers_of_placement(case):
    world = RECORDED['worlds'][case['world']]
    text = case['query']
    if case['status'] == 400:
        with pytest.raises(errors.InvalidCandidateQuery):
            search(
                worlds.query(text), build(worlds.contents(world, STANDARD, STANDARD))
            )
        return
    table = build(worlds.contents(world, *names_of(text)))
    indexes = {p['uuid']: index for index, p in enumerate(world['providers'])}
    searched = search(worlds.query(text), table)
    found = list(searched)
    assert plain(found, indexes) == recorded(case['candidates'])
    apart = {
        json.dumps(c) for row in searched.anchors.tolist() for c in searched.under(row)
    }
    assert apart == {json.dumps(candidate) for candidate in found}
    assert all(any(searched.under(row)) for row in searched.anchors.tolist())


def devices(hosts, count, *, size=1):
    """Hosts with so many devices each, of ``size`` units."""
    providers = []
    for host in range(hosts):
        top = len(providers)
        providers.append(provider(f'h{host}', None, VCPU=[64, 0, 1, 64, 1, 1.0]))
        providers += [
            provider(f'h{host}d{n}', top, DEVICE=[size, 0, 1, size, 1, 1.0])
            for n in range(count)
        ]
    world = {'providers': providers, 'consumers': []}
    return build(worlds.contents(world))


def provider(uuid, parent, **inventories):
    return {
        'uuid': uuid,
        'parent': parent,
        'inventories': inventories,
        'traits': [],
        'aggregates': [],
    }


def asking(groups, policy, amount=1):
    """A query for VCPU of a host and for so many groups of devices."""
    return Query(
        (
            Group(resources={'VCPU': 1}),
            *(
                Group(suffix=f'_{n}', resources={'DEVICE': amount})
                for n in range(groups)
            ),
        ),
        group_policy=policy,
    )


@pytest.mark.parametrize('hosts', [1, 2, FEW + 1])
@pytest.mark.parametrize('policy', ['isolate', 'none'])
def test_many_devices_for_many_groups(hosts, policy):
    found = search(asking(64, policy), devices(hosts, 64))
    assert len(found.anchors) == hosts
    first = list(itertools.islice(found, hosts))
    assert len({next(iter(c['allocations'])) for c in first}) == hosts
    assert all(len(c['allocations']) == 65 for c in first)
    assert len(list(itertools.islice(found, 50))) == 50


@pytest.mark.parametrize('hosts', [1, FEW + 1])
@pytest.mark.parametrize('policy', ['isolate', 'none'])
def test_too_few_devices(hosts, policy):
    found = search(asking(64, policy), devices(hosts, 63))
    assert len(found.anchors) == 0
    assert list(found) == []


def test_all_ways_to_give_devices_to_groups():
    found = search(asking(3, 'isolate'), devices(1, 5))
    assert len(list(found)) == 5 * 4 * 3
    found = search(asking(3, 'none'), devices(1, 2, size=2))
    assert len(list(found)) == 2**3 - 2


def test_one_host_after_the_other_before_the_second_of_any():
    found = list(search(asking(1, None), devices(3, 2)))
    hosts = [min(c['allocations'])[:2] for c in found]
    assert hosts == ['h0', 'h1', 'h2', 'h0', 'h1', 'h2']


def test_a_search_without_end_is_given_up():
    found = search(asking(3, 'isolate'), devices(1, 5), max_nodes=3)
    assert len(list(found)) < 5 * 4 * 3


@pytest.mark.parametrize(
    ('groups', 'amounts'), [(0, {'VCPU': 1}), (1, None)], ids=['host', 'devices']
)
def test_amounts_of_root_are_known_if_it_has_one_candidate(groups, amounts):
    assert search(asking(groups, None), devices(2, 1)).amounts_of_root == amounts


def test_the_tree_of_an_unknown_provider():
    query = Query((Group(resources={'VCPU': 1}, in_tree='x'),))
    assert list(search(query, devices(1, 1))) == []
