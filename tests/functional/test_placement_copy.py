# SPDX-License-Identifier: Apache-2.0
"""A scheduler with a copy of placement, and the real placement behind it."""

from __future__ import annotations

import contextlib
import random
import sqlite3

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db.transactions import Database
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.contents import build
from tests.functional.conftest import Host, new_uuids
from tests.functional.test_candidates import GPU_ONLY, add_gpus
from tests.support.tables.cases import cases

SMALL = {'memory_mb': 64, 'root_gb': 1}


def write(made, *statements):
    """Write what placement's API would not."""
    with contextlib.closing(sqlite3.connect(made.placement_path)) as connection:
        for each in statements:
            connection.execute(each)
        connection.commit()


def engine_of(made):
    engine = sa.create_engine(f'sqlite:///{made.placement_path}')
    made.stack.callback(engine.dispose)
    return engine


def offered(made, query):
    """The uuids of the hosts that placement itself offers."""
    url = f'/allocation_candidates?{query}'
    answer = made.placement.get(url)
    return {next(iter(each['allocations'])) for each in answer['allocation_requests']}


def test_rows_that_placement_does_not_see_cost_no_copy(cloud, caplog):
    made = cloud([Host('h1', zone='az1'), Host('h2', zone='az1')])
    write(
        made,
        'INSERT INTO allocations (resource_provider_id, consumer_id, '
        "resource_class_id, used) VALUES (999999, 'c', 0, 1)",
        'INSERT INTO inventories (resource_provider_id, resource_class_id, total, '
        'reserved, min_unit, max_unit, step_size, allocation_ratio) '
        'VALUES (999999, 0, 1, 0, 1, 1, 1, 1.0)',
        'INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) '
        'VALUES (999999, 1), (1, 999999)',
    )
    assert len(offered(made, 'resources=VCPU:1,MEMORY_MB:64,DISK_GB:1')) == 2
    scheduler = made.copied()
    made.ask(scheduler, new_uuids(), vcpus=1, **SMALL)
    scheduler.copy.keep_up()
    made.ask(scheduler, new_uuids(), vcpus=1, **SMALL, availability_zone='az1')
    assert [each.from_copy for each in made.decisions] == [True, True]
    said = [line for line in caplog.messages if 'are left out' in line]
    assert len(said) == 4


def test_a_database_that_was_set_back_is_read_as_a_whole(cloud):
    made = cloud([Host('h1'), Host('h2')])
    reader = DatabaseReader(Database(engine_of(made)))
    before = reader.read()
    write(
        made,
        'UPDATE resource_providers SET generation = generation - 1 WHERE id = 1',
        'UPDATE inventories SET total = 5 WHERE resource_provider_id = 2',
    )
    after = build(reader.read_since(before, include_unversioned=False))
    assert after.inventories['VCPU'].capacity.tolist() == [8, 5]


def test_placement_is_not_asked_for_candidates(cloud):
    made = cloud([Host('h1', vcpus=2), Host('h2', vcpus=2)])
    scheduler = made.copied()
    found = [made.ask(scheduler, new_uuids(), vcpus=2, **SMALL) for _ in range(2)]
    assert sorted(found) == [[['h1']], [['h2']]]
    assert made.faults.seen == {'PUT': 2}
    assert sorted(made.held().values(), key=str) == [{'h1'}, {'h2'}]
    made.faults.seen.clear()
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(), vcpus=2, **SMALL)
    assert not made.faults.seen
    assert not scheduler.copy.fallbacks


def test_every_host_is_considered(cloud):
    hosts = [Host(f'h{number}', memory_mb=2048 * number) for number in (1, 2, 3)]
    made = cloud(hosts, scheduler={'max_placement_results': 1})
    assert made.ask(made.copied(), new_uuids(), vcpus=1, **SMALL) == [['h3']]
    assert len(made.decisions[0].ranked) == 3
    assert len(offered(made, 'resources=VCPU:1&limit=1')) == 1


def test_silently_freed_resources_are_found(cloud):
    made = cloud([Host('h1', vcpus=2)])
    (other,) = new_uuids()
    made.hold(other, h1={'VCPU': 2})
    scheduler = made.copied()
    made.placement.release(other)
    assert made.ask(scheduler, new_uuids(), vcpus=2, **SMALL) == [['h1']]


def test_claim_of_another_costs_a_refusal_and_the_next_host(cloud):
    made = cloud([Host('h1', memory_mb=16384), Host('h2')])
    scheduler = made.copied()
    made.hold(*new_uuids(), h1={'VCPU': 8})
    assert made.ask(scheduler, new_uuids(), vcpus=2, **SMALL) == [['h2']]
    scheduler.copy.keep_up()
    made.faults.seen.clear()
    assert made.ask(scheduler, new_uuids(), vcpus=2, **SMALL) == [['h2']]
    assert made.faults.seen == {'PUT': 1}


def test_hosts_that_were_all_refused_are_looked_at_again(cloud):
    made = cloud([Host('h1')])
    scheduler = made.copied()
    (other,) = new_uuids()
    made.hold(other, h1={'VCPU': 8})

    def free(request, send):
        answer = send()
        made.placement.release(other)
        return answer

    made.faults.on('PUT', 1, free)
    assert made.ask(scheduler, new_uuids(), vcpus=2, **SMALL) == [['h1']]


def test_hosts_that_give_only_what_their_children_have_are_found(cloud):
    made = cloud([Host('h1'), Host('h2')])
    children = add_gpus(made, 'h2', 'a', 'b')
    scheduler = made.copied()
    uuids = new_uuids(2)
    for uuid in uuids:
        found = made.ask(scheduler, [uuid], extra_specs=GPU_ONLY, root_gb=0)
        assert found == [['h2']]
    held = [
        *made.placement.allocations(uuids[0]),
        *made.placement.allocations(uuids[1]),
    ]
    assert sorted(held) == sorted(children)
    assert made.faults.seen['GET'] == 2  # of this test itself


@cases('seed', ('first', 1), more=(('second', 0), ('third', 2)))
def test_the_same_hosts_are_chosen_as_with_placement(cloud, seed):
    """Nothing is cut, and no two hosts weigh the same."""
    rng = random.Random(seed)
    hosts = [
        Host(
            f'h{number}',
            vcpus=rng.randrange(4, 32),
            memory_mb=rng.randrange(2048, 65536),
            disk_gb=rng.randrange(20, 500),
            zone=rng.choice([None, 'east', 'west']),
        )
        for number in range(8)
    ]
    made = cloud(hosts)
    for host in rng.sample(sorted(made.hosts), 2):
        add_gpus(made, host, 'gpu')
    asked, computed, found = made.compose(), made.copied(), set()
    for _ in range(12):
        request = {
            'vcpus': rng.choice([1, 4, 16]),
            'memory_mb': rng.choice([64, 4096, 32768]),
            'root_gb': rng.choice([0, 10, 200]),
            'availability_zone': rng.choice([None, 'east', 'west']),
            'extra_specs': rng.choice([{}, {}, {'resources:VGPU': '1'}]),
        }
        chosen = answer(made, computed, request)
        assert chosen == answer(made, asked, request)
        found.add(str(chosen))
    assert len(found) > 3
    assert not computed.copy.fallbacks


def answer(made, scheduler, request):
    """The hosts for two servers, without a claim; None: there is none."""
    try:
        return made.ask(scheduler, None, num_instances=2, **request)
    except errors.NoValidHost:
        return None
