# SPDX-License-Identifier: Apache-2.0
"""Tables made of rows of placement, whole and after changes."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from novasched import errors
from novasched.providers.contents import build
from tests.support.clouds import recorded_worlds
from tests.support.tables.cases import cases

WORLDS = json.loads(
    (pathlib.Path(__file__).parents[2] / 'samples/candidates_cases.json').read_text()
)['worlds']


ASTRAY = 'whose parent does not exist, is of another tree, or is below it'


def contents(*parents, roots=None, inventories=(), usage=(), traits=(), aggregates=()):
    """Providers with the ids 1, 2, ..., whose parents have these ids; 0: none."""
    made = recorded_worlds.contents({'providers': [], 'consumers': []})
    ids = range(1, len(parents) + 1)

    def root(id_):
        return root(parents[id_ - 1]) if parents[id_ - 1] else id_

    roots = [root(id_) for id_ in ids] if roots is None else roots
    return dataclasses.replace(
        made,
        providers=recorded_worlds.table_of(
            (id_, 0, *of) for id_, *of in zip(ids, roots, parents, strict=True)
        ),
        inventories=recorded_worlds.table_of(
            ((*row, 0, 1, 99, 1, 1.0, 1.0) for row in inventories), 9, float
        ),
        usage=recorded_worlds.table_of(usage, 3),
        traits=recorded_worlds.table_of(traits, 2),
        aggregates=recorded_worlds.table_of(aggregates, 2),
        uuids={id_: f'p{id_}' for id_ in ids},
        class_names={0: 'VCPU', 1: 'MEMORY_MB'},
        trait_names={7: 'T7', 9: 'T9'},
        aggregate_uuids={3: 'a3'},
    )


def same(table, other):
    """Assert that two tables say the same."""
    for field in dataclasses.fields(table):
        mine, theirs = getattr(table, field.name), getattr(other, field.name)
        if field.name == 'inventories':
            assert mine.keys() == theirs.keys()
            for name, inventory in mine.items():
                for column in dataclasses.fields(inventory):
                    values = getattr(inventory, column.name)
                    assert np.array_equal(values, getattr(theirs[name], column.name))
        elif field.name == 'members':
            assert {k: v.tolist() for k, v in mine.items()} == {
                k: v.tolist() for k, v in theirs.items()
            }
        else:
            assert np.array_equal(mine, theirs), field.name


@cases('parents, uuids, tops, ends',
    ('none', [], [], [], []),
    ('flat', [0, 0], ['p1', 'p2'], [0, 1], [1, 2]),
    ('a tree of three floors, and a single provider', [0, 0, 1, 3, 1],
     ['p1', 'p3', 'p4', 'p5', 'p2'], [0, 0, 0, 0, 4], [4, 3, 3, 4, 5]),
    ('a parent made later', [2, 0], ['p2', 'p1'], [0, 0], [2, 2]),
)  # fmt: skip
def test_each_provider_comes_right_before_those_below_it(parents, uuids, tops, ends):
    table = build(contents(*parents))
    assert list(table.uuids) == uuids
    assert table.roots.tolist() == tops
    assert table.ends.tolist() == ends
    assert len(table) == len(parents)


@cases(
    'rows, uuids, parents, tops, wrong',
    (
        'no root',
        [(1, 0), (9, 0), (0, 1)],
        ['p1'],
        [-1],
        [0],
        {'root': '2 whose root does not exist, such as provider 2'},
    ),
    (
        'a root that has another, and no parent below it',
        [(2, 0), (3, 0), (3, 0)],
        ['p1', 'p3', 'p2'],
        [-1, -1, 1],
        [0, 1, 1],
        {
            'root': '1 whose root has another root, such as provider 1',
            'parent': f'1 {ASTRAY}, such as provider 2',
        },
    ),
    (
        'parents that do not exist or are of another tree',
        [(1, 9), (1, 1), (3, 1), (1, 3), (1, 9)],
        ['p1', 'p2', 'p4', 'p5', 'p3'],
        [0, 0, 0, 0, 4],
        [0, 0, 0, 0, 4],
        {'parent': f'4 {ASTRAY}, such as provider 1'},
    ),
    (
        'circles',
        [(1, 0), (1, 3), (1, 2), (1, 3), (5, 5)],
        ['p1', 'p2', 'p3', 'p4', 'p5'],
        [-1, 0, 0, 0, 4],
        [0, 0, 0, 0, 4],
        {'parent': f'4 {ASTRAY}, such as provider 2'},
    ),
)
def test_trees_that_do_not_fit_together(rows, uuids, parents, tops, wrong):
    tops_of, parents_of = zip(*rows, strict=True)
    made = contents(*parents_of, roots=tops_of, inventories=[(2, 0, 4)])
    table = build(made)
    assert list(table.uuids) == uuids
    assert table.parents.tolist() == parents
    assert table.roots.tolist() == tops
    named = {f'resource_providers.{n}_provider_id': text for n, text in wrong.items()}
    assert table.orphans == named


@pytest.mark.parametrize('names', ['class_names', 'uuids'])
def test_contents_without_names_are_not_believed(names):
    wrong = dataclasses.replace(contents(0, inventories=[(1, 0, 4)]), **{names: {}})
    with pytest.raises(errors.InconsistentProviders):
        build(wrong)


ROWS = {
    'inventories': [(1, 0, 4), (2, 1, 4)],
    'usage': [(1, 0, 3), (2, 1, 1)],
    'traits': [(1, 7), (2, 9)],
    'aggregates': [(1, 3), (2, 3)],
}


@pytest.mark.parametrize(
    ('table', 'row', 'column'),
    [
        ('inventories', (4, 0, 1), 'inventories.resource_provider_id'),
        ('inventories', (1, 5, 1), 'inventories.resource_class_id'),
        ('usage', (4, 0, 1), 'allocations.resource_provider_id'),
        ('usage', (1, 5, 1), 'allocations.resource_class_id'),
        ('traits', (4, 7), 'resource_provider_traits.resource_provider_id'),
        ('traits', (1, 8), 'resource_provider_traits.trait_id'),
        ('aggregates', (4, 3), 'resource_provider_aggregates.resource_provider_id'),
        ('aggregates', (1, 8), 'resource_provider_aggregates.aggregate_id'),
    ],
)
def test_rows_that_name_what_does_not_exist_are_left_out(table, row, column):
    sound = build(contents(0, 1, **ROWS))
    table = build(contents(0, 1, **{**ROWS, table: [row, *ROWS[table], row]}))
    wrong = next(each for each in row if each in (4, 5, 8))
    text = f'2 with ids that do not exist, such as {wrong}'
    assert table.orphans == {column: text}
    same(dataclasses.replace(table, orphans={}), sound)


def test_without_providers_all_rows_are_left_out():
    table = build(contents(**ROWS))
    assert len(table) == 0
    assert len(table.orphans) == 4


@pytest.mark.parametrize('world', WORLDS, ids=lambda world: world['shape'])
def test_summaries(world):
    table = build(recorded_worlds.contents(world))
    for index, provider in enumerate(world['providers']):
        summary = table.summary(table.rows_by_uuid[provider['uuid']])
        parent = provider['parent']
        assert summary['parent_provider_uuid'] == (
            None if parent is None else world['providers'][parent]['uuid']
        )
        assert sorted(summary['traits']) == sorted(provider['traits'])
        resources = {
            name: [each['capacity'], each['used']]
            for name, each in summary['resources'].items()
        }
        if str(index) in world['summaries']:  # the others are in no candidate's tree
            assert resources == world['summaries'][str(index)]


@pytest.mark.parametrize('world', WORLDS, ids=lambda world: world['shape'])
def test_updated_contents_equal_a_full_load(world):
    after = recorded_worlds.contents(world)
    before = earlier(after)
    changed = before.changed(after.providers)
    updated = before.updated(fresh(after, changed), changed)
    table = build(updated, (before, build(before)))
    same(table, build(after))


def earlier(contents):
    """Contents before a third of the providers changed, and a third was created."""
    ids = contents.providers[:, 0]
    parents = set(contents.providers[:, 3].tolist())
    new = [id_ for id_ in ids.tolist() if id_ % 3 == 0 and id_ not in parents]
    made = only(contents, np.setdiff1d(ids, new))
    providers = made.providers.copy()
    changed = providers[:, 0] % 3 == 1
    providers[changed, 1] += 5
    known = np.isin(made.traits[:, 0], providers[changed, 0])
    return dataclasses.replace(
        made,
        providers=providers,
        traits=made.traits[~known],
        inventories=made.inventories[
            ~np.isin(made.inventories[:, 0], providers[changed, 0])
        ],
    )


def only(contents, ids):
    """What the contents say of some providers."""
    return dataclasses.replace(
        contents,
        uuids={id_: contents.uuids[id_] for id_ in ids.tolist()},
        **{
            name: rows[np.isin(rows[:, 0], ids)]
            for name in ('providers', 'inventories', 'usage', 'traits', 'aggregates')
            for rows in [getattr(contents, name)]
        },
    )


def fresh(contents, ids):
    """All providers, and what the contents say of some of them."""
    return dataclasses.replace(only(contents, ids), providers=contents.providers)


def test_a_provider_that_is_gone_leaves_nothing_behind():
    before = contents(0, 1, inventories=[(2, 0, 4)], traits=[(2, 7)], usage=[(2, 0, 1)])
    after = contents(0)
    none = np.array([], int)
    table = build(before.updated(fresh(after, none), none))
    same(table, build(dataclasses.replace(after)))
    assert list(table.uuids) == ['p1']
    assert not table.inventories


@pytest.mark.parametrize('changed', [None, 'inventories', 'traits'])
def test_unchanged_columns_are_reused(changed):
    stocks = [(1, 0, 4), (2, 0, 4)]
    before = contents(0, 0, inventories=stocks, traits=[(1, 7), (2, 9)])
    table = build(before)
    providers = before.providers.copy()
    providers[0, 1] += 1
    ids = before.changed(providers)
    usage = np.array([[1, 0, 3]])
    now = dataclasses.replace(before, providers=providers, usage=usage)
    if changed:
        rows = getattr(now, changed).copy()
        rows[0, -1] += 2
        now = dataclasses.replace(now, **{changed: rows})
    after = build(before.updated(fresh(now, ids), ids), (before, table))
    assert ids.tolist() == [1]
    same(after, build(now))
    assert (after.trait_bits is table.trait_bits) == (changed != 'traits')
    stock, known = after.inventories['VCPU'], table.inventories['VCPU']
    assert (stock.room is known.room) == (changed != 'inventories')
    assert stock.used.tolist() == [3, 0]


def test_suspects_that_are_there_count_as_changed():
    before = contents(0, 0, 0)
    assert before.changed(before.providers, [2, 9]).tolist() == [2]


def test_every_provider_is_new_at_first():
    assert contents().changed(contents(0, 0).providers).tolist() == [1, 2]


def test_single_precision_hides_a_unit_from_the_query_alone():
    one = contents(0)
    row = [1, 0, 10, 0, 1, 99, 1, 0.7, float(np.float32(0.7))]
    table = build(
        dataclasses.replace(one, inventories=recorded_worlds.table_of([row], 9, float))
    )
    inventory = table.inventories['VCPU']
    assert inventory.room.tolist() == [6]
    assert inventory.capacity.tolist() == [7]
    assert inventory.fitting(6).tolist() == [0]
    assert inventory.fitting(7).tolist() == []


def test_a_generation_that_fell_is_noticed():
    before = contents(0, 0)
    rows = before.providers.copy()
    rows[0, 1] = 3
    assert not before.has_regressed(rows)
    assert dataclasses.replace(before, providers=rows).has_regressed(before.providers)
    assert not before.has_regressed(contents(0, 0, 0).providers)


def test_changes_that_were_missed_are_counted():
    before = contents(0, 0, 0, inventories=[(1, 0, 5), (2, 0, 5)], traits=[(3, 7)])
    same = contents(0, 0, 0, inventories=[(2, 0, 5), (1, 0, 5)], traits=[(3, 7)])
    assert before.missed(same) == 0
    later = contents(0, 0, 0, inventories=[(1, 0, 6), (2, 0, 6)], traits=[(3, 9)])
    assert before.missed(later) == 3
    later.providers[1, 1] = 1  # said that it had changed
    assert before.missed(later) == 2


def test_names_are_kept_where_nothing_came_or_went():
    before = contents(0, 0)
    table = build(before)
    after = build(contents(0, 0), (before, table))
    assert after.uuids is table.uuids
    assert build(contents(0, 0, 0), (before, table)).uuids == ['p1', 'p2', 'p3']


def test_usage_counts_in_a_new_table_only():
    table = build(contents(0, 1, inventories=[(1, 0, 5), (2, 1, 5)]))
    assert not table.is_flat
    kept = table.rows_by_uuid
    taken = {'p1': {'VCPU': 2, 'UNKNOWN': 1}, 'p2': {'VCPU': 9}, 'p9': {'VCPU': 1}}
    after = table.after(taken)
    assert after.inventories['VCPU'].used.tolist() == [2]
    assert after.inventories['VCPU'].most.tolist() == [3]
    assert after.inventories['MEMORY_MB'] is table.inventories['MEMORY_MB']
    assert table.inventories['VCPU'].used.tolist() == [0]
    assert after.rows_by_uuid is kept
