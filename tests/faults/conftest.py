# SPDX-License-Identifier: Apache-2.0
"""A scheduler in this process, and the real placement over HTTP behind a proxy.

``cloud(hosts)`` makes databases, providers and a proxy; see FaultyCloud.
"""

from __future__ import annotations

import contextlib
import shutil
import uuid

import pytest
from oslo_config import cfg

from novasched.embedded.placement import Inventory, Provider, provide
from novasched.placement import session
from tests.faults.proxy import Proxy
from tests.functional.conftest import STUFF, Cloud, named_uuid
from tests.live.servers.placement import Placement

CONF = """
[placement]
auth_type = admin_token
endpoint = {url}
token = admin
endpoint_override = {url}
timeout = {timeout_s}
"""
PATIENT_S = 60
"""No placement needs as long, on any machine: what ends it is a fault."""


def child(host, name, **amounts):
    """A provider under the root of a host: amounts by resource class."""
    return Provider(
        named_uuid(f'{host.name} {name}'),
        f'{host.name}_{name}',
        {kind: Inventory(amount) for kind, amount in amounts.items()},
        traits=frozenset(),
        parent=host.uuid,
    )


class FaultyCloud(Cloud):
    """A Cloud whose schedulers reach placement through ``proxy``.

    ``placement`` is the way past it, for the test itself.
    """

    def __init__(self, directory, placement, hosts, more, timeout_s, options, stack):
        self.placement = placement
        self._template = placement.dir / 'nova.sqlite'
        self.proxy = Proxy(placement.url)
        self.proxy.start()
        stack.callback(self.proxy.stop)
        adapter = _adapter(directory / 'placement.conf', self.proxy.url, timeout_s)
        stack.callback(adapter.session.session.close)
        super().__init__(directory, adapter, hosts, options, stack, mounted='http://')
        provide(adapter, more)
        self.names = {one.uuid: one.name for one in more}
        self.names |= {host.uuid: host.name for host in hosts}
        self.proxy.forget()

    def _database(self, directory, name):
        path = directory / name
        if self._template.exists():
            shutil.copy(self._template, path)
        made = super()._database(directory, name)
        if not self._template.exists():
            shutil.copy(path, self._template)
        return made

    def _provider(self, host):
        made = super()._provider(host)
        amounts = {kind: getattr(host, own) for kind, own in STUFF.items()}
        present = {kind: Inventory(n) for kind, n in amounts.items() if n}
        return Provider(made.uuid, made.name, present, aggregates=made.aggregates)

    def held(self):
        """What is claimed: names of providers by consumer."""
        return {one: set(self.amounts(one)) for one in self.placement.consumers()}

    def amounts(self, consumer):
        """What a consumer holds: amounts by resource class by name of provider."""
        held = self.placement.allocations(consumer)
        return {self.names[provider]: dict(part) for provider, part in held.items()}

    def hold(self, consumer, **hosts):
        """Give a consumer amounts on hosts, past the proxy."""
        by_name = {name: provider for provider, name in self.names.items()}
        body = {
            'allocations': {
                by_name[name]: {'resources': amounts} for name, amounts in hosts.items()
            },
            'project_id': 'project',
            'user_id': 'user',
            'consumer_generation': self._generation(consumer),
        }
        self.placement.put(f'/allocations/{consumer}', body)

    def forget_aggregates(self, host):
        """Take a host out of all aggregates of placement, past the proxy."""
        path = f'/resource_providers/{self.hosts[host].uuid}'
        generation = self.placement.get(path)['generation']
        body = {'aggregates': [], 'resource_provider_generation': generation}
        self.placement.put(f'{path}/aggregates', body)

    def _generation(self, consumer):
        return self.placement.get(f'/allocations/{consumer}').get('consumer_generation')


def _adapter(path, url, timeout_s):
    """Make the adapter as the service does, from a nova.conf."""
    path.write_text(CONF.format(url=url, timeout_s=timeout_s))
    conf = cfg.ConfigOpts()
    for group, listed in session.OPTS.items():
        conf.register_opts(listed, group)
    conf([], default_config_files=[str(path)], default_config_dirs=[])
    return session.from_conf(conf)


@pytest.fixture(scope='session')
def placement(tmp_path_factory):
    """The placement service over HTTP."""
    scratch = tmp_path_factory.mktemp('faults')
    url = f'sqlite:///{scratch}/placement.sqlite'
    server = Placement(scratch, url, 'sqlite_synchronous = False')
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def cloud(tmp_path, placement):
    """Make a cloud: `cloud(hosts, more_providers, **{group: {option: value}})`."""
    with contextlib.ExitStack() as stack:
        stack.callback(_empty, placement)

        def make(hosts, more=(), *, timeout_s=PATIENT_S, **options):
            return FaultyCloud(
                tmp_path, placement, hosts, list(more), timeout_s, options, stack
            )

        yield make


def _empty(placement):
    """Delete all providers and what consumers hold of them."""
    for consumer in placement.consumers():
        placement.release(consumer)
    found = placement.get('/resource_providers')['resource_providers']
    for one in sorted(found, key=lambda p: p['parent_provider_uuid'] is None):
        placement.request('DELETE', f'/resource_providers/{one["uuid"]}')


@pytest.fixture
def new_uuid():
    """Make uuids."""
    return lambda: str(uuid.uuid4())
