# SPDX-License-Identifier: Apache-2.0
"""Contents of placement read through its API, while it changes."""

from __future__ import annotations

import numpy as np
import pytest

from novasched.placement_copy.readers.api import AT_ONCE, UNCHANGED_AT_ONCE
from novasched.providers.contents import build
from novasched.providers.hints import CloudHints, NodeSize
from tests.support.placement.placement_api import CALLS, MANY, POOL, inventory, says


def test_all_is_read(world, served):
    reader, asked = served
    assert says(reader.read()) == world.says()
    requests_ = asked()
    assert requests_[0] == '/resource_providers'
    assert len(requests_) == len(set(requests_))


def test_unused_names_are_known(served):
    table = build(served[0].read())
    assert table.classes == {'VCPU', 'DISK_GB', 'CUSTOM_PORT'}
    assert set(table.traits) == {'T1', 'T2', POOL}


def test_no_providers(world, served):
    reader, _ = served
    world.providers.clear()
    contents = reader.read()
    assert len(build(contents)) == 0
    assert build(contents).classes == {'VCPU', 'DISK_GB', 'CUSTOM_PORT'}
    assert reader.read_since(contents, include_unversioned=False) is contents


@pytest.mark.parametrize('include_unversioned', [False, True])
def test_nothing_changed(served, include_unversioned):
    reader, asked = served
    contents = reader.read()
    asked()
    assert reader.read_since(contents, include_unversioned) is contents
    assert include_unversioned or asked() == ['/resource_providers']


CHANGES = {
    'inventories': lambda w: w.write('h1', inventories={'DISK_GB': inventory(7)}),
    'no inventories': lambda w: w.write('pool', inventories={}, used={}),
    'a claim': lambda w: w.write('h1-nic', used={'CUSTOM_PORT': 2}),
    'traits': lambda w: w.write('h2', traits=['T2', 'T1']),
    'no traits': lambda w: w.write('h1', traits=[]),
    'aggregates': lambda w: w.write('h1', aggregates=['a3']),
    'a new parent': lambda w: w.providers['h1-nic'].update(parent='h2'),
    'a new child': lambda w: w.add('new', parent='h2', DISK_GB=5, traits=['T2']),
    'a child less': lambda w: w.providers.pop('h1-nic'),
    'another one of the uuid': lambda w: (
        w.add('h1-nic', parent='h1', CUSTOM_PORT=1),
        w.providers['h1-nic'].update(generation=0),
    ),
}


@pytest.mark.parametrize('change', CHANGES)
def test_a_change(world, served, change):
    reader, _ = served
    contents = reader.read()
    CHANGES[change](world)
    after = reader.read_since(contents, include_unversioned=False)
    assert after is not contents
    assert says(after) == world.says()
    assert reader.read_since(after, include_unversioned=True) is after
    ids = dict(zip(contents.uuids.values(), contents.uuids, strict=True))
    assert all(after.uuids.get(ids[u], u) == u for u in ids if u in world.providers)


def test_only_what_changed_is_read_again(world, served):
    for number in range(100):
        world.add(f'other-{number}', VCPU=1)
    reader, asked = served
    contents = exact(reader)
    world.write('h1', used={'VCPU': 3})
    asked()
    after = reader.read_since(contents, include_unversioned=False)
    assert sorted(asked()) == [
        *('/resource_classes', '/resource_providers'),
        *(
            f'/resource_providers/h1/{table}'
            for table in ('aggregates', 'inventories', 'traits', 'usages')
        ),
        '/traits',
    ]
    assert after.traits is contents.traits
    assert says(after) == world.says()


SILENT = {
    'freed where there is room': lambda w: w.providers['h1'].update(used={}),
    'freed where no unit of it may be taken': (
        lambda w: w.providers['pool'].update(used={'DISK_GB': 5})
    ),
    'members of an aggregate': lambda w: w.providers['h1'].update(aggregates=['a2']),
    'no members of an aggregate': lambda w: w.providers['h1'].update(aggregates=[]),
}


@pytest.mark.parametrize('change', SILENT)
def test_change_without_a_generation_is_found_by_a_thorough_read(world, served, change):
    reader, _ = served
    contents = reader.read()
    SILENT[change](world)
    assert reader.read_since(contents, include_unversioned=False) is contents
    after = reader.read_since(contents, include_unversioned=True)
    assert says(after) == world.says()
    assert np.array_equal(after.providers, contents.providers)


@pytest.mark.parametrize('change', SILENT)
def test_suspects_are_read_again(world, served, change):
    reader, _ = served
    contents = reader.read()
    ids = {uuid: id_ for id_, uuid in contents.uuids.items()}
    recheck = {ids['h1'], ids['pool'], 4711}
    assert reader.read_since(contents, False, recheck) is contents
    SILENT[change](world)
    after = reader.read_since(contents, False, recheck)
    assert says(after) == world.says()


def test_a_trait_and_a_class_come_and_go(world, served):
    reader, _ = served
    contents = reader.read()
    world.traits, world.classes = ['T1', 'T2', 'T9', POOL], ['DISK_GB', 'VCPU']
    after = reader.read_since(contents, include_unversioned=True)
    assert set(build(after).traits) == {'T1', 'T2', 'T9', POOL}
    assert build(after).classes == {'DISK_GB', 'VCPU', 'CUSTOM_PORT'}  # still in use
    world.write('h1-nic', inventories={})
    world.traits.remove('T9')
    after = reader.read_since(after, include_unversioned=False)
    assert set(build(after).traits) == {'T1', 'T2', POOL}
    assert build(after).classes == {'DISK_GB', 'VCPU'}


@pytest.mark.parametrize('table', ['inventories', 'aggregates'])
def test_a_provider_that_goes_during_a_load_is_left_out(world, served, table):
    def go(path):
        if path == f'/resource_providers/h1-numa/{table}':
            world.providers.pop('h1-numa', None)
            world.providers.pop('h1-nic', None)

    world.before_answer = go
    contents = served[0].read()
    assert says(contents) == world.says()
    assert served[0].read_since(contents, include_unversioned=True) is contents


def test_a_tree_that_goes_during_a_load_after_its_leaves_were_read(world, served):
    world.providers = {u: world.providers[u] for u in reversed(world.providers)}

    def go(path):
        if path == '/resource_providers/h1-numa/inventories':
            world.providers.pop('h1-numa', None)
            world.providers.pop('h1-nic', None)

    world.before_answer = go
    assert says(served[0].read()) == world.says()


def test_a_leaf_whose_parent_goes_at_the_end_of_a_load(world, served):
    world.add('leaf', parent='shelf')
    world.add('shelf')
    world.before_answer = lambda path: (
        path == '/resource_providers/shelf/traits' and world.providers.pop('shelf')
    )
    assert says(served[0].read()).keys().isdisjoint(['shelf', 'leaf'])


def changed_before(world, call, change):
    """Let the world change right before it answers this call for the first time."""
    left = [change]
    world.before_answer = lambda path: path == call and left and left.pop()(world)
    return left


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('call', CALLS)
def test_change_during_a_load_is_found_by_the_next_read(world, served, call, change):
    reader, _ = served
    left = changed_before(world, call, CHANGES[change])
    contents = reader.read()
    build(contents)
    assert not left or 'pool' in call
    world.before_answer = lambda path: None
    after = reader.read_since(contents, include_unversioned=False)
    assert left or says(after) == world.says()


def test_one_of_the_same_uuid_and_generation_during_a_load(world, served):
    """A provider made again may reach the generation that the old one had."""

    def again(world):
        world.add('h1', traits=['T2'], VCPU=1)

    world.write('h1')
    world.write('h1', aggregates=['a2'])
    changed_before(world, '/resource_providers/h1/aggregates', again)
    reader, _ = served
    contents = reader.read()
    assert says(reader.read_since(contents, include_unversioned=False)) == world.says()


OF_HOSTS = CloudHints(aggregates=lambda: ['a1', 'a2'])


def exact(reader):
    """Read all, and what was guessed."""
    contents = reader.read(OF_HOSTS)
    while contents.guessed:
        contents = reader.read_since(contents, include_unversioned=False)
    return contents


def test_a_load_takes_few_requests(many, served):
    """Units, reserved amounts and ratios are guessed, and read in turns."""
    many.write('host-7', inventories={'VCPU': inventory(8, 2.0, max_unit=4)})
    many.write('host-8', inventories={'VCPU': inventory(8)}, used={'VCPU': 8})
    reader, asked = served
    sizes = {'host-1': NodeSize(3, 1, 1), 'host-2': NodeSize(64, 1, 1)}
    hints = CloudHints(lambda: sizes, lambda: ['a3'])
    contents = reader.read(hints)
    full = [f'/resource_providers/host-8/{table}' for table in TABLES]
    pool = [f'/resource_providers/pool/{table}' for table in TABLES]
    assert sorted(asked()) == sorted(
        [
            '/resource_providers',
            '/resource_classes',
            '/traits',
            f'/resource_providers?required={POOL}',
            '/allocation_candidates?resources=VCPU:1',
            *(f'/resource_providers?member_of=in:a{number}' for number in (2, 3)),
            *full,
            *pool,
        ]
    )
    assert contents.members == {'a2', 'a3'}
    assert len(contents.guessed) == MANY + 5 - 2
    found, said = says(contents), many.says()
    units = {
        host: found[host]['inventories']['VCPU'][1]
        for host in ('host-1', 'host-2', 'host-7')
    }
    assert units == {'host-1': 3, 'host-2': 64, 'host-7': 16}
    for each in (*found.values(), *said.values()):
        each['aggregates'] = None
        for one in each['inventories'].values():
            del one[:3]
    assert found == said
    while contents.guessed:
        contents = reader.read_since(contents, include_unversioned=False)
    assert says(contents)['host-7']['inventories']['VCPU'] == [1, 4, 1, 16, 0]
    assert not [each for each in asked() if each.startswith('/allocation')]


def test_a_cloud_of_which_little_is_free_is_read_in_turns(many, served):
    for number in range(50):
        many.write(f'host-{number}', used={'VCPU': 8, 'DISK_GB': 9})
    reader, asked = served
    contents = reader.read()
    classes = [each for each in asked() if each.startswith('/allocation')]
    assert [each.partition('=')[2] for each in classes] == [
        f'{name}:1' for name in ('VCPU', 'DISK_GB', 'CUSTOM_PORT')
    ]
    full = {f'host-{number}' for number in range(50)}

    def without_inventory(contents):
        found = {u for u, each in says(contents).items() if not each['inventories']}
        return found & full

    bare = without_inventory(contents)
    assert len(bare) in (50 - AT_ONCE, 50 - AT_ONCE + 1)  # the pool may be among them
    sizes = dict.fromkeys(full, NodeSize(8, 1, 9, False))
    sizes['host-45'] = NodeSize(8, 1, 9, True)
    known = reader.read(CloudHints(lambda: sizes))
    assert not without_inventory(known)
    assert says(known)['host-45'] == many.says()['host-45']
    assert {says(known)[uuid]['inventories']['VCPU'][-1] for uuid in full} == {8}
    contents = reader.read(CloudHints(lambda: sizes))
    while contents.guessed:
        contents = reader.read_since(contents, False, hints=OF_HOSTS)
    assert says(contents) == many.says()


TABLES = ('inventories', 'usages', 'traits', 'aggregates')


def test_members_of_an_aggregate_that_somebody_asks_for_are_read(many, served):
    reader, asked = served
    contents = reader.read()
    assert not contents.knows(['a1'])
    asked()
    after = reader.read_since(contents, False, hints=OF_HOSTS)
    assert after.knows(['a1', 'a2'])
    assert '/resource_providers?member_of=in:a1' in asked()
    while after.guessed:
        after = reader.read_since(after, False, hints=OF_HOSTS)
    assert says(after) == many.says()
    assert reader.read_since(after, False, hints=OF_HOSTS) is after


def test_a_tree_is_read_as_a_whole(world, served):
    found = says(served[0].read_tree('h1-numa'))
    assert found == {u: each for u, each in world.says().items() if u.startswith('h1')}
    assert not len(served[0].read_tree('h9').providers)


def tables_read(asked, table):
    return [each for each in asked if each.endswith(f'/{table}')]


def test_of_many_changed_providers_the_usage_is_read_at_once(many, served):
    reader, asked = served
    contents = exact(reader)
    for number in range(MANY):
        used = {'VCPU': 8, 'DISK_GB': 9} if number % 10 == 0 else {'VCPU': 1}
        many.write(f'host-{number}', used=used, traits=['T2'])
    asked()
    contents = reader.read_since(contents, include_unversioned=False)
    mine, theirs = says(contents), many.says()
    assert {u: p['inventories'] for u, p in mine.items()} == {
        u: p['inventories'] for u, p in theirs.items()
    }
    requests_ = asked()
    assert len(tables_read(requests_, 'inventories')) == AT_ONCE
    assert len(tables_read(requests_, 'usages')) == MANY // 10


def test_busy_providers_do_not_starve_the_others(many, served):
    reader, _ = served
    contents = exact(reader)
    hosts = [f'host-{number}' for number in range(MANY)]
    for host in hosts:
        many.write(host, traits=[])
        many.write(host, inventories={'VCPU': inventory(9)})
    for _ in range(MANY // AT_ONCE):
        contents = reader.read_since(contents, include_unversioned=False)
        for host in hosts[:AT_ONCE]:
            many.write(host)
    assert says(contents) == many.says()
    contents = reader.read_since(contents, include_unversioned=False)
    assert reader.read_since(contents, include_unversioned=False) is contents


def test_new_providers_do_not_wait(many, served):
    reader, _ = served
    contents = exact(reader)
    for number in range(2 * AT_ONCE):
        many.add(f'new-{number}', parent='h1', traits=['T1'], CUSTOM_PORT=1)
        many.write(f'host-{number}')
    assert says(reader.read_since(contents, include_unversioned=False)) == many.says()


def test_where_many_are_new_all_is_read_by_few_requests(many, served):
    reader, asked = served
    contents = exact(reader)
    for number in range(3 * AT_ONCE):
        many.add(f'new-{number}', VCPU=8)
    asked()
    after = reader.read_since(contents, include_unversioned=False)
    assert len(asked()) < 20
    assert len(after.providers) == len(many.providers)
    assert after.guessed


def test_thorough_reads_find_in_turns_what_was_missed(many, served):
    reader, asked = served
    contents = exact(reader)
    for uuid in ('h1', 'host-50', f'host-{MANY - 1}'):
        many.providers[uuid].update(aggregates=['new'], traits=['T2'])
    most = 0
    for _ in range(len(many.providers) // UNCHANGED_AT_ONCE + 1):
        asked()
        contents = reader.read_since(contents, include_unversioned=True)
        most = max(most, len(tables_read(asked(), 'inventories')))
    assert says(contents) == many.says()
    assert most == UNCHANGED_AT_ONCE


def test_freed_usage_of_odd_and_shared_providers_is_found_at_once(many, served):
    many.add('odd', VCPU=inventory(8, min_unit=2))
    many.providers['odd']['used'] = {'VCPU': 4}
    reader, asked = served
    contents = exact(reader)
    many.providers['odd']['used'] = {'VCPU': 2}
    many.providers['host-90']['used'] = {'DISK_GB': 1}
    asked()
    assert says(reader.read_since(contents, include_unversioned=True)) == many.says()
    usages = set(tables_read(asked(), 'usages'))
    assert usages == {f'/resource_providers/{uuid}/usages' for uuid in ('odd', 'pool')}
