# SPDX-License-Identifier: Apache-2.0
"""A provider that was deleted and created with its uuid is not taken for the old one.

It has the generation of the old one again, once as many writes were made to it.
"""

import time

import pytest

from novasched.placement_copy.readers.api import ApiReader
from tests.functional.conftest import Host, named_uuid, new_uuids

CONTENTS = ('inventories', 'traits', 'aggregates')
SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
GOLD = 'CUSTOM_GOLD'
REQUIRED = {'extra_specs': {f'trait:{GOLD}': 'required'}}
ZONE = {'availability_zone': 'az1'}


def recreate(made, host, **others):
    """Delete the provider of a host and create it, by as many writes."""
    placement, uuid = made.placement, made.hosts[host].uuid
    path = f'/resource_providers/{uuid}'
    generation = placement.get(path)['generation']
    was = {what: placement.of(uuid, what) for what in CONTENTS}
    placement.request('DELETE', path)
    placement.request('POST', '/resource_providers', {'uuid': uuid, 'name': host})
    for what, value in (was | others).items():
        made.change(host, what, value)
    while placement.get(path)['generation'] < generation:
        made.change(host, 'inventories', was['inventories'])
    assert placement.get(path)['generation'] == generation


@pytest.fixture(params=['api', 'database'])
def copied(request):
    """Compose a scheduler whose copy is read by the API or from the database."""

    def run(made):
        if request.param == 'database':
            return made.copied()
        return made.copied(ApiReader(made.adapter, share=1.0))

    return run


@pytest.fixture
def gold_cloud(cloud):
    """Two golden hosts in a zone, the first one the better one, written often."""
    made = cloud([Host('h1', zone='az1', memory_mb=16384), Host('h2', zone='az1')])
    made.placement.put(f'/traits/{GOLD}', None)
    for name, host in made.hosts.items():
        traits = [*made.placement.of(host.uuid, 'traits'), GOLD]
        for _ in range(4):
            made.change(name, 'traits', traits)
    return made


@pytest.mark.parametrize('looks', [False, True], ids=['no look', 'a look'])
@pytest.mark.parametrize('lost', ['trait', 'aggregate'])
@pytest.mark.scenario('F42', 'I6')
def test_recreated_host_is_not_answered_for_what_it_has_lost(
    gold_cloud, copied, lost, looks
):
    made = gold_cloud
    scheduler = copied(made)
    wanted = REQUIRED if lost == 'trait' else ZONE
    if lost == 'trait':
        there = made.placement.of(made.hosts['h1'].uuid, 'traits')
        others = {'traits': [trait for trait in there if trait != GOLD]}
    else:
        others = {'aggregates': [named_uuid('az2')]}
    assert made.ask(scheduler, new_uuids(), **SMALL, **wanted) == [['h1']]
    for consumer in made.held():
        made.placement.release(consumer)
    scheduler.copy._read(include_unversioned=True)
    recreate(made, 'h1', **others)
    if looks:
        scheduler.copy._read(include_unversioned=False)
    assert made.ask(scheduler, new_uuids(), **SMALL, **wanted) == [['h2']]


@pytest.mark.scenario('F42')
def test_look_for_changes_finds_a_recreated_provider(gold_cloud, copied):
    made = gold_cloud
    scheduler = copied(made)
    uuid = made.hosts['h1'].uuid
    time.sleep(1)  # placement tells whole seconds
    recreate(made, 'h1', traits=[])

    def traits():
        table = scheduler.copy.current(60).table
        return table.summary(table.rows_by_uuid[uuid])['traits']

    assert GOLD in traits()
    scheduler.copy._read(include_unversioned=False)
    assert traits() == []
