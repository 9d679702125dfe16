# SPDX-License-Identifier: Apache-2.0
"""The embedded cloud: the real placement in this process, and its databases."""

import contextlib
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors
from novasched.db import engines, tables
from novasched_lab.local import cluster
from novasched_lab.local.databases import DatabaseUrls, made_databases
from novasched_lab.local.placement import EmbeddedPlacement
from novasched_lab.local.walkthrough import NO_TRANSPORT, fill
from novasched_lab.resource_providers import Inventory, Provider, provide, withdraw

VERSION = '1.36'
AGGREGATE = str(uuid.uuid4())


def node(name='node', vcpus=8, **kwargs):
    inventories = {'VCPU': Inventory(vcpus), 'MEMORY_MB': Inventory(4096, reserved=512)}
    return Provider(str(uuid.uuid4()), name, inventories, **kwargs)


def candidates(adapter, query):
    answer = adapter.get(f'/allocation_candidates?{query}', microversion=VERSION)
    assert answer.status_code == 200, answer.text
    return set(answer.json()['provider_summaries'])


def claim(adapter, provider, vcpus=1):
    body = {
        'allocations': {provider.uuid: {'resources': {'VCPU': vcpus}}},
        'project_id': 'project',
        'user_id': 'user',
        'consumer_generation': None,
    }
    consumer = uuid.uuid4()
    return adapter.put(f'/allocations/{consumer}', json=body, microversion=VERSION)


@pytest.fixture
def adapter(tmp_path):
    with EmbeddedPlacement(tmp_path / 'placement.sqlite') as adapter:
        yield adapter


def test_a_provider_is_found_by_resources_trait_and_aggregate(adapter):
    wanted = node('wanted', aggregates=frozenset({AGGREGATE}))
    provide(adapter, [wanted, node('other'), node('plain', traits=frozenset())])
    query = f'resources=VCPU:8&required=OWNER_NOVA&member_of={AGGREGATE}'
    assert candidates(adapter, query) == {wanted.uuid}


def test_the_adapter_serves_several_threads(adapter):
    provider = node(vcpus=16)
    provide(adapter, [provider])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: claim(adapter, provider), range(20)))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [204] * 16 + [409] * 4


def test_an_error_status_does_not_raise(adapter):
    answer = adapter.get('/nowhere', microversion=VERSION)
    assert (answer.status_code, answer.reason) == (404, 'Not Found')


def test_a_provider_that_placement_refuses_leaves_none_of_the_batch(adapter):
    first, second = node('same'), node('same')
    with pytest.raises(errors.SetupError, match='POST /resource_providers'):
        provide(adapter, [first, second])
    assert candidates(adapter, 'resources=VCPU:1') == set()


def test_withdrawn_providers_are_gone(adapter):
    provider = node()
    provide(adapter, [provider])
    withdraw(adapter, [provider, node('never created')])
    assert candidates(adapter, 'resources=VCPU:1') == set()


def test_a_provider_in_use_is_not_withdrawn(adapter):
    provider = node()
    provide(adapter, [provider])
    claim(adapter, provider)
    with pytest.raises(errors.SetupError, match='DELETE /resource_providers'):
        withdraw(adapter, [provider])


def test_a_file_keeps_its_content(tmp_path):
    provider = node()
    with EmbeddedPlacement(tmp_path / 'placement.sqlite') as adapter:
        provide(adapter, [provider])
    with EmbeddedPlacement(tmp_path / 'placement.sqlite') as adapter:
        assert candidates(adapter, 'resources=VCPU:1') == {provider.uuid}


def test_there_is_one_at_a_time(adapter, tmp_path):
    with (
        pytest.raises(errors.SetupError, match='already runs'),
        EmbeddedPlacement(tmp_path / 'another'),
    ):
        pass
    assert candidates(adapter, 'resources=VCPU:1') == set()


@pytest.fixture
def conf(tmp_path):
    conf = cfg.ConfigOpts()
    for group, opts in engines.OPTS.items():
        conf.register_opts(opts, group=group)
    conf([], default_config_files=[])
    conf.set_override('connection', f'sqlite:///{tmp_path}/api', 'api_database')
    conf.set_override('connection', f'sqlite:///{tmp_path}/cell', 'database')
    return conf


@pytest.fixture
def ask():
    """Run a statement on the database at a URL; return the rows."""

    def ask(url, statement):
        engine = sa.create_engine(url)
        try:
            with engine.begin() as connection:
                result = connection.execute(statement)
                return result.fetchall() if result.returns_rows else []
        finally:
            engine.dispose()

    return ask


@contextlib.contextmanager
def filled_databases(walkthrough, conf):
    """Make tables and rows of a cluster where a configuration says."""
    cell = conf.database.connection
    urls = DatabaseUrls(conf.api_database.connection, cell, cell)
    with made_databases(conf, urls, NO_TRANSPORT, walkthrough.cell_uuid):
        fill(conf, urls, walkthrough)
        yield


NAMES = sa.text("SELECT name FROM sqlite_master WHERE type = 'table'")


def test_databases_are_filled_and_empty_again(conf, ask):
    walkthrough = cluster.read()
    count = sa.select(sa.func.count())
    api, cell = conf.api_database.connection, conf.database.connection
    with filled_databases(walkthrough, conf):
        assert ask(cell, count.select_from(tables.compute_nodes)) == [(16,)]
        assert ask(cell, count.select_from(tables.services)) == [(16,)]
        assert ask(api, count.select_from(tables.host_mappings)) == [(16,)]
        assert ask(api, count.select_from(tables.aggregates)) == [(6,)]
    assert ask(api, NAMES) == []
    assert ask(cell, NAMES) == []


def test_one_database_can_be_both(conf, ask):
    conf.set_override('connection', conf.database.connection, 'api_database')
    with filled_databases(cluster.read(), conf):
        names = {name for (name,) in ask(conf.database.connection, NAMES)}
        assert {*tables.API.tables, *tables.CELL.tables} <= names
    assert ask(conf.database.connection, NAMES) == []


@pytest.mark.parametrize('group', ['api_database', 'database'])
def test_a_database_in_use_stays_as_it_is(conf, ask, group):
    url = conf[group].connection
    ask(url, sa.text('CREATE TABLE mine (id INTEGER)'))
    with (
        pytest.raises(errors.OptionError, match='has tables, such as mine'),
        filled_databases(cluster.read(), conf),
    ):
        pass
    assert ask(url, NAMES) == [('mine',)]
