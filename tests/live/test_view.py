# SPDX-License-Identifier: Apache-2.0
"""The cluster view on MariaDB and PostgreSQL: what is asked, and nothing is missed."""

from __future__ import annotations

import datetime
import functools
import json
import random
import re
import time
import uuid
from typing import NamedTuple

import pytest
import requests
import sqlalchemy as sa
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from oslo_config import cfg

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched import app
from novasched.db import engines, tables
from novasched.objects.context import RequestContext
from novasched.process import opts
from novasched.rpc.transport import transport_from_conf
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.checks import view_checks
from tests.support.clouds import factories
from tests.support.databases.databases import NOON, Databases, instance, node, service
from tests.support.tables.combinations import SERVERS

HOSTS = 1000
PLACEMENT = 'http://placement.example'


@pytest.fixture(scope='module', params=SERVERS)
def urls(request):
    server = request.getfixturevalue(request.param)
    names = {'database': 'view_cell', 'api_database': 'view_api'}
    return {group: server.create_database(name) for group, name in names.items()}


@pytest.fixture
def conf(urls):
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override('transport_url', 'fake://')
    made.set_override('host_state_max_age', 0, 'novasched')
    for group, url in urls.items():
        made.set_override('connection', url, group)
    return made


@pytest.fixture
def databases(conf):
    made = Databases(engines.api_engine(conf), engines.main_engine(conf))
    made.create_tables()
    made.empty()
    view_checks.map_cell(made, conf.database.connection)
    yield made
    for engine in made:
        engine.dispose()


def test_a_decision_sees_what_was_committed_before(databases, conf):
    view_checks.a_decision_sees_what_was_committed_before(databases, conf, changes=300)


# The statements of a request.


class Statement(NamedTuple):
    """What was asked of a database: the rows that came, and how long it took."""

    text: str
    parameters: int
    rows: int
    took_ms: float


class Asked:
    """Counts what is asked of the databases, by the engines' own events."""

    def __init__(self):
        self.statements = []
        self.connections = 0
        self._began_s = 0.0

    def watch(self, engine):
        """Count what is asked by an engine from now on."""
        sa.event.listen(engine, 'before_cursor_execute', self._before)
        sa.event.listen(engine, 'after_cursor_execute', self._after)
        sa.event.listen(engine, 'checkout', self._checkout)
        return engine

    def clear(self):
        self.statements.clear()
        self.connections = 0

    def _before(self, *_):
        self._began_s = time.perf_counter()

    def _after(self, connection, cursor, statement, parameters, *_):
        took_ms = 1000 * (time.perf_counter() - self._began_s)
        found = Statement(statement, len(parameters), cursor.rowcount, took_ms)
        self.statements.append(found)

    def _checkout(self, *_):
        self.connections += 1

    def tables(self):
        """The table that each statement reads first, and the rows that came."""
        names = (re.search(r'\nFROM (\w+)', each.text)[1] for each in self.statements)
        return [(n, each.rows) for n, each in zip(names, self.statements, strict=True)]


class Granting(requests.adapters.BaseAdapter):
    """A placement that offers room on every host and grants every claim."""

    def send(self, request, **options):
        answer = requests.Response()
        answer.request, answer.url, answer.status_code = request, request.url, 200
        body = {'allocations': {}}
        if 'allocation_candidates' in request.path_url:
            body = candidates()
        elif request.method != 'GET':
            answer.status_code = 204
        answer._content = json.dumps(body).encode()
        return answer

    def close(self):
        """There is nothing to let go."""


@functools.cache
def candidates():
    stuff = {'VCPU': 1, 'MEMORY_MB': 1, 'DISK_GB': 1}
    free = {name: {'capacity': 100, 'used': 0} for name in stuff}
    uuids = [node_uuid(number) for number in range(HOSTS)]
    return {
        'allocation_requests': [
            {'allocations': {u: {'resources': stuff}}, 'mappings': {'': [u]}}
            for u in uuids
        ],
        'provider_summaries': {
            u: {'resources': free, 'root_provider_uuid': u, 'traits': []} for u in uuids
        },
    }


def node_uuid(number):
    return str(uuid.UUID(int=number + 1))


@pytest.fixture
def cloud(databases):
    """A thousand hosts that were written long ago and are alive."""
    for first in range(0, HOSTS, 500):
        numbers = range(first, first + 500)
        with databases.cell.begin() as connection:
            connection.execute(
                sa.insert(tables.services), list(map(a_service, numbers))
            )
            connection.execute(
                sa.insert(tables.compute_nodes), list(map(a_node, numbers))
            )
    return databases


def a_service(number):
    return service(host=f'h{number}', last_seen_up=view_checks.utcnow())


def a_node(number):
    return node(
        uuid=node_uuid(number),
        host=f'h{number}',
        hypervisor_hostname=f'n{number}',
        free_disk_gb=90,
        free_ram_mb=3000,
        stats='{}',
        supported_instances='[["x86_64", "kvm", "hvm"]]',
    )


@pytest.fixture
def asked():
    return Asked()


@pytest.fixture
def scheduler(cloud, conf, asked):
    """A scheduler whose databases are watched and whose placement grants it all."""
    session = Session(auth=token_endpoint.Token(PLACEMENT, 'token'))
    session.session.mount(PLACEMENT, Granting())
    transport = transport_from_conf(conf)
    made = app.compose(
        conf,
        app.Dependencies(
            api_engine=asked.watch(cloud.api),
            make_cell_engine=lambda url: asked.watch(engines.cell_engine(conf, url)),
            placement=Adapter(session, service_type='placement'),
            transport=transport,
            notifier=Unheard(),
            clock=SYSTEM_CLOCK,
            rng=random.Random(1),
        ),
    )
    made.view.load()
    yield made
    made.view.close()
    transport.cleanup()


class Unheard:
    """Notifications that go nowhere."""

    def of_release(self, release):
        return self

    def select_destinations(self, context, spec, phase):
        pass


@pytest.fixture
def ask(scheduler, asked):
    """Ask for a host once what was read for the first time is read; give its name."""

    def select(**values):
        request = factories.request(**{'image': {}, 'is_bfv': False, **values})
        (selections,) = scheduler.manager.select_destinations(
            RequestContext(overwrite=False), request, [str(uuid.uuid4())], True, True
        )
        return selections[0].service_host

    select()
    asked.clear()
    return select


def test_a_quiet_request_asks_one_narrow_question(ask, asked):
    ask()
    assert asked.tables() == [('compute_nodes', 1)]
    assert max(statement.parameters for statement in asked.statements) <= 10
    assert asked.connections == 0  # by the one that is kept


def test_a_request_for_a_zone_asks_whether_aggregates_changed(ask, asked, cloud):
    row = {'uuid': str(uuid.uuid4()), 'name': 'a', 'created_at': NOON}
    (number,) = cloud.add(tables.aggregates, row)
    zone = {'key': 'availability_zone', 'value': 'az7'}
    stamp = {'created_at': NOON, 'aggregate_id': number}
    cloud.add(tables.aggregate_metadata, stamp | zone)
    ask(availability_zone='az7')
    asked.clear()
    ask(availability_zone='az7')
    found = asked.tables()
    assert found == [('aggregates', 3), ('compute_nodes', 1)]


def test_a_new_host_brings_its_service_alone(ask, asked, cloud):
    cloud.add(tables.services, a_service(HOSTS))
    cloud.add(
        tables.compute_nodes, a_node(HOSTS) | {'created_at': view_checks.utcnow()}
    )
    ask()
    assert asked.tables() == [('compute_nodes', 1)] * 2 + [('services', 1)]


@pytest.mark.parametrize('behind_s', [15, 59])
def test_a_host_stamped_by_a_clock_that_is_behind_brings_no_other_row(
    ask, asked, cloud, behind_s
):
    stamp = view_checks.utcnow() - datetime.timedelta(seconds=behind_s)
    cloud.add(tables.services, a_service(HOSTS) | {'created_at': stamp})
    cloud.add(tables.compute_nodes, a_node(HOSTS) | {'created_at': stamp})
    ask()
    news, service, *others = asked.tables()
    assert (news, service) == (('compute_nodes', 1), ('services', 1))
    assert others == [('compute_nodes', 1)] * 2
    asked.clear()
    ask()
    assert asked.tables() == [('compute_nodes', 1)]


def test_a_late_write_that_looks_old_is_found_by_the_marks_of_all(ask, asked, cloud):
    table, old = tables.compute_nodes, NOON - datetime.timedelta(days=9)
    with cloud.cell.begin() as connection:
        connection.execute(
            sa.update(table)
            .where(table.c.host == 'h5')
            .values(updated_at=old, free_ram_mb=1)
        )
    ask()
    news, recent, every, row = asked.tables()
    assert (news, recent) == (('compute_nodes', 1), ('compute_nodes', 0))
    assert (every, row) == (('compute_nodes', HOSTS), ('compute_nodes', 1))


def test_unreported_move_is_found_by_one_query(ask, asked, scheduler, cloud):
    member = str(uuid.uuid4())
    group = factories.group(members=[member])
    for number in range(HOSTS):
        for _ in range(2):
            told = [member] if number == 0 else []
            scheduler.view.instances.sync(f'h{number}', told)
    cloud.add(tables.instances, instance(uuid=member, host='h1'))
    assert ask(instance_group=group) == 'h1'
    assert 'instances' not in [name for name, _ in asked.tables()]
    asked.clear()
    scheduler.view.check_instances()
    assert asked.tables() == [('instances', 1)]
    assert ask(instance_group=group) == 'h0'


def test_the_instances_of_all_hosts_are_one_question(ask, asked):
    group = factories.group(members=[str(uuid.uuid4())])
    ask(instance_group=group)
    members = 'instance_group_member'  # before the decision, and after the claim
    found = [name for name, _ in asked.tables()]
    assert found == ['compute_nodes', members, 'instances', members]
