# SPDX-License-Identifier: Apache-2.0
"""A scheduler in this process, and the real placement over HTTP behind a proxy.

``cloud(hosts)`` makes databases, providers and a proxy; see FaultyCloud.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import uuid
import warnings

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from novasched.placement import session
from novasched_lab.resource_providers import Inventory, Provider
from tests.faults.audit import Audit
from tests.faults.callers import Impatient
from tests.faults.clients import Clients
from tests.faults.daemons import PROMPT, QUEUE, Daemons
from tests.faults.proxy import Proxy
from tests.functional.conftest import STUFF, Cloud, named_uuid
from tests.live.servers.keystone import Keystone
from tests.live.servers.placement import Placement
from tests.live.servers.process import running
from tests.live.servers.rabbitmq import RabbitMQ
from tests.support.databases.databases import Copies
from tests.support.suite.own_logs import caplog, threads_of_others

__all__ = ['caplog', 'threads_of_others']

CONF = """
[placement]
auth_type = admin_token
endpoint = {url}
token = admin
endpoint_override = {url}
timeout = {timeout_s}
"""
PASSWORD = """
[placement]
auth_type = password
auth_url = {keystone}
username = nova
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
"""
HELD = """
SELECT DISTINCT consumer_id, uuid FROM allocations
JOIN resource_providers ON resource_providers.id = resource_provider_id
"""
LONG_AGO = """
UPDATE allocations SET created_at = '2020-01-01 00:00:00', updated_at = NULL
"""
EMPTY_TRIES = 5
VHOSTS = 8
"""They take turns, as each costs a start of the broker a tenth of a second."""
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

    def __init__(
        self, directory, placement, hosts, more, timeout_s, options, stack, copies
    ):
        self._past_the_proxy = placement
        self.proxy = Proxy(placement.url)
        self.proxy.start()
        stack.callback(self.proxy.stop)
        text = CONF.format(url=self.proxy.url, timeout_s=timeout_s)
        adapter = adapter_of(directory / 'placement.conf', text)
        stack.callback(adapter.session.session.close)
        self._more = more
        super().__init__(
            directory, adapter, hosts, options, stack, copies, mounted='http://'
        )
        self.names |= {one.uuid: one.name for one in more}
        self.proxy.forget()

    def _conf(self, directory, options):
        rabbit = 'oslo_messaging_rabbit'
        options = {**options, rabbit: {**PROMPT, **options.get(rabbit, {})}}
        return super()._conf(directory, options)

    def user_of_placement(self):
        return self._past_the_proxy

    @property
    def placement_path(self):
        return _path(self.placement)

    def _provide(self, providers):
        super()._provide([*providers, *self._more])

    def provider(self, host):
        made = super().provider(host)
        amounts = {kind: getattr(host, own) for kind, own in STUFF.items()}
        present = {kind: Inventory(n) for kind, n in amounts.items() if n}
        return Provider(made.uuid, made.name, present, aggregates=made.aggregates)

    def held(self):
        """What is claimed: names of providers by consumer, read past the service."""
        found = {}
        for consumer, provider in self.placement.rows(HELD):
            found.setdefault(consumer, set()).add(self.names[provider])
        return found

    def amounts(self, consumer):
        """What a consumer holds: amounts by resource class by name of provider."""
        held = self.placement.allocations(consumer)
        return {self.names[provider]: dict(part) for provider, part in held.items()}

    def held_long_ago(self):
        """Let all that is held be held for years."""
        engine = sa.create_engine(self.placement.database_url)
        with engine.begin() as connection:
            connection.execute(sa.text(LONG_AGO))
        engine.dispose()


def adapter_of(path, text):
    """Make the adapter as the service does, from the text of a nova.conf."""
    path.write_text(text)
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
    with running(Placement(scratch, url, 'sqlite_synchronous = False')) as server:
        yield server


@pytest.fixture(scope='session')
def rabbitmq(tmp_path_factory):
    """A broker with virtual hosts to give away."""
    with running(RabbitMQ(tmp_path_factory.mktemp('broker'))) as server:
        yield server


@pytest.fixture(scope='session')
def _urls(rabbitmq):
    return itertools.cycle([rabbitmq.create_vhost() for _ in range(VHOSTS)])


@pytest.fixture
def url(rabbitmq, _urls):
    """A virtual host that no test has used, or none of the last ones."""
    given = next(_urls)
    rabbitmq.delete_queue(given, QUEUE)
    return given


@pytest.fixture
def connect(rabbitmq, url):
    """Make callers."""
    callers = []

    def caller(**attributes):
        callers.append(Impatient(rabbitmq, url))
        vars(callers[-1]).update(attributes)
        return callers[-1]

    yield caller
    for each in callers:
        each.close()


@pytest.fixture(scope='session')
def _copies(tmp_path_factory):
    """What clouds had written when they were made; the next one like it is copied."""
    return Copies(tmp_path_factory.mktemp('copies'))


@pytest.fixture
def cloud(tmp_path, placement, _copies):
    """Make a cloud: `cloud(hosts, more_providers, **{group: {option: value}})`."""
    # What a test left whose end failed, or a claim that arrived after it.
    _empty(placement, _copies)
    made = []
    with contextlib.ExitStack() as stack:
        stack.callback(_empty, placement, _copies)

        def make(hosts, more=(), *, timeout_s=PATIENT_S, **options):
            # What is made of copies must be the first to write to its files.
            copies = None if made else _copies
            given = hosts, list(more), timeout_s, options, stack, copies
            made.append(FaultyCloud(tmp_path, placement, *given))
            return made[-1]

        yield make


def _path(placement):
    """The file of placement's database, None where a server has it."""
    url = sa.make_url(placement.database_url)
    return url.database if url.drivername == 'sqlite' else None


def _empty(placement, copies):
    """Leave placement without providers and consumers."""
    if path := _path(placement):
        copies.fill(path, 'nothing', lambda: _delete_all(placement))
    else:
        _delete_all(placement)


def _delete_all(placement):
    """Delete all providers and what consumers hold of them.

    Once more, if a claim that was held back arrives amid that.
    """
    for attempt in range(EMPTY_TRIES):
        try:
            for consumer in placement.consumers():
                placement.release(consumer)
            found = placement.get('/resource_providers')['resource_providers']
            for one in sorted(found, key=lambda p: p['parent_provider_uuid'] is None):
                placement.request('DELETE', f'/resource_providers/{one["uuid"]}')
        except AssertionError:
            if attempt == EMPTY_TRIES - 1:
                raise
        else:
            return


@pytest.fixture
def by_password(tmp_path):
    """Have the scheduler of a cloud get its tokens of an identity service, which is
    returned: `by_password(cloud)`."""

    def serve(made):
        keystone = Keystone()
        keystone.placement_url = made.proxy.url
        keystone.start()
        made.stack.callback(keystone.stop)
        text = PASSWORD.format(keystone=keystone.url)
        adapter = adapter_of(tmp_path / 'password.conf', text)
        made.stack.callback(adapter.session.session.close)
        made.serve(placement=adapter)
        return keystone

    return serve


@pytest.fixture
def new_uuid():
    """Make uuids."""
    return lambda: str(uuid.uuid4())


# -- what is audited, and the processes around it


@pytest.fixture
def audit(placement):
    """The oracle of the test; reads placement past the proxy."""
    return Audit.of(placement)


@pytest.fixture
def broker(rabbitmq):
    """The broker, for tests that may stop it; they start it again."""
    return rabbitmq


@pytest.fixture(autouse=True)
def lost_sockets(request):
    """Collect, quietly, what client libraries leave open when a broker is killed, or
    one of two who talk over it."""
    yield
    if 'rabbitmq' not in request.fixturenames:
        return
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', ResourceWarning)
        gc.collect()


@pytest.fixture
def callers(audit):
    """Make clients whose requests are in the audit's journal: `callers(cloud)`."""
    made = []

    def make(cloud):
        made.append(Clients(cloud, audit))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def daemons(audit, broker, tmp_path):
    """Make daemons for a cloud: `daemons(cloud).start(workers=2)`."""
    made = []

    def make(cloud, **sections):
        made.append(Daemons(cloud, broker, tmp_path, audit, sections))
        return made[-1]

    yield make
    for each in made:
        each.stop()
