# SPDX-License-Identifier: Apache-2.0
"""A provider that was deleted and created with its uuid is not taken for the old one.

It has the generation of the old one again, once as many writes were made to it.
"""

import time

import pytest

from novasched.placement_copy.readers.api import ApiReader
from tests.functional.conftest import Host, named_uuid, new_uuids

VERSION = '1.36'
SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
GOLD = 'CUSTOM_GOLD'
REQUIRED = {'extra_specs': {f'trait:{GOLD}': 'required'}}
ZONE = {'availability_zone': 'az1'}


class Providers:
    """Writes to placement as its operators and computes do."""

    def __init__(self, made):
        self._made = made
        self._send('put', f'/traits/{GOLD}', None)

    def _send(self, method, url, body):
        answer = self._made.adapter.request(
            url, method.upper(), json=body, microversion=VERSION
        )
        assert answer.status_code < 300, answer.text

    def _url(self, host):
        return f'/resource_providers/{self._made.hosts[host].uuid}'

    def of(self, host, what=''):
        url = f'{self._url(host)}{what and "/"}{what}'
        found = self._made.adapter.get(url, microversion=VERSION).json()
        return found[what] if what else found

    def write(self, host, what, value):
        generation = self.of(host)['generation']
        body = {'resource_provider_generation': generation, what: value}
        self._send('put', f'{self._url(host)}/{what}', body)

    def recreate(self, host, **others):
        """Delete the provider of a host and create it, by as many writes."""
        generation = self.of(host)['generation']
        names = 'inventories', 'traits', 'aggregates'
        was = {name: self.of(host, name) for name in names}
        self._send('delete', self._url(host), None)
        body = {'uuid': self._made.hosts[host].uuid, 'name': host}
        self._send('post', '/resource_providers', body)
        for name, value in (was | others).items():
            self.write(host, name, value)
        while self.of(host)['generation'] < generation:
            self.write(host, 'inventories', was['inventories'])
        assert self.of(host)['generation'] == generation


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
    providers = Providers(made)
    for host in made.hosts:
        traits = [*providers.of(host, 'traits'), GOLD]
        for _ in range(4):
            providers.write(host, 'traits', traits)
    return made, providers


@pytest.mark.parametrize('looks', [False, True], ids=['no look', 'a look'])
@pytest.mark.parametrize('lost', ['trait', 'aggregate'])
@pytest.mark.scenario('F42', 'I6')
def test_recreated_host_is_not_answered_for_what_it_has_lost(
    gold_cloud, copied, lost, looks
):
    made, providers = gold_cloud
    scheduler = copied(made)
    wanted = REQUIRED if lost == 'trait' else ZONE
    if lost == 'trait':
        others = {'traits': [t for t in providers.of('h1', 'traits') if t != GOLD]}
    else:
        others = {'aggregates': [named_uuid('az2')]}
    assert made.ask(scheduler, new_uuids(), **SMALL, **wanted) == [['h1']]
    for consumer in made.held():
        made.adapter.delete(f'/allocations/{consumer}')
    scheduler.copy._read(include_unversioned=True)
    providers.recreate('h1', **others)
    if looks:
        scheduler.copy._read(include_unversioned=False)
    assert made.ask(scheduler, new_uuids(), **SMALL, **wanted) == [['h2']]


@pytest.mark.scenario('F42')
def test_look_for_changes_finds_a_recreated_provider(gold_cloud, copied):
    made, providers = gold_cloud
    scheduler = copied(made)
    uuid = made.hosts['h1'].uuid
    time.sleep(1)  # placement tells whole seconds
    providers.recreate('h1', traits=[])

    def traits():
        table = scheduler.copy.current(60).table
        return table.summary(table.rows_by_uuid[uuid])['traits']

    assert GOLD in traits()
    scheduler.copy._read(include_unversioned=False)
    assert traits() == []
