# SPDX-License-Identifier: Apache-2.0
"""A copy of placement whose database is away, hangs, or is another one.

The copy is read through a gate, by an account that may only read, from views of
placement's tables, which a test changes: placement itself sees nothing of that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db import engines
from novasched.db.transactions import Database
from novasched.placement_copy import refresh
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.contents import build
from novasched.runtime.periodic import PeriodicRunner
from tests.functional.conftest import Host
from tests.live.servers.mariadb import MariaDB
from tests.live.servers.placement import Placement
from tests.live.servers.postgresql import PostgreSQL
from tests.live.servers.process import running, wait_until
from tests.live.servers.tcp_gate import TcpGate
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases
from tests.support.tables.combinations import SERVERS

HOSTS = [Host('h1', vcpus=16), Host('h2', vcpus=1), Host('h3', vcpus=3)]
LARGE = 4
"""vCPUs of a server that fits on h1 alone."""
FULL = {'VCPU': 16}
QUERY = '^/allocation_candidates'
TABLES = (
    'resource_providers',
    'inventories',
    'allocations',
    'resource_provider_traits',
    'resource_provider_aggregates',
    'resource_classes',
    'traits',
    'placement_aggregates',
)
KEPT = ('resource_providers', 'allocations')
ONE_TRY = '[placement]\nallocation_conflict_retry_count = 1'
PATIENCE_S = 3.0
LATE_S = 8.0
"""What a request may take besides, on a busy machine."""
WAIT_S = 30
READER = 'reader'
PASSWORD = 'reader-secret'
LOGGERS = ('novasched.placement_copy.copy', 'novasched.cluster.periodic')


class Seen:
    """What the account of the copy sees: views, and tables of an earlier time.

    They are in a schema of their own, which MariaDB calls a database.
    """

    def __init__(self, url):
        self._engine = sa.create_engine(
            url, isolation_level='AUTOCOMMIT', poolclass=sa.NullPool
        )
        made = sa.make_url(url)
        self._is_mysql = self._engine.dialect.name == 'mysql'
        self._source = made.database if self._is_mysql else 'public'
        self._run('CREATE SCHEMA seen', 'CREATE SCHEMA earlier')
        if self._is_mysql:
            self._run(f"CREATE USER {READER} IDENTIFIED BY '{PASSWORD}'")
            made = made.set(database='seen')
        else:
            self._run(
                f"CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}'",
                f'GRANT USAGE ON SCHEMA seen TO {READER}',
            )
            made = made.update_query_dict({'options': '-c search_path=seen'})
        made = made.set(username=READER, password=PASSWORD)
        self._changed = set(TABLES)
        self.url = made.render_as_string(hide_password=False)
        self.restore()

    def restore(self):
        """Show all tables as they are."""
        for table in sorted(self._changed):
            self.show(table)
        self._changed.clear()
        self.permit()

    def show(self, table, of=None, where='1 = 1'):
        self._changed.add(table)
        source = f'{of or self._source}.{table}'
        self._run(
            f'DROP VIEW IF EXISTS seen.{table}',
            f'CREATE VIEW seen.{table} AS SELECT * FROM {source} WHERE {where}',
        )

    def hide(self, table):
        """Let a table be missing."""
        self._changed.add(table)
        self._run(f'DROP VIEW IF EXISTS seen.{table}')

    def truncate(self, table):
        self.show(table, where='1 = 0')
        self.permit()

    def permit(self):
        self._run(
            f'GRANT SELECT ON seen.* TO {READER}'
            if self._is_mysql
            else f'GRANT SELECT ON ALL TABLES IN SCHEMA seen TO {READER}'
        )

    def forbid(self):
        self._run(
            f'REVOKE SELECT ON seen.* FROM {READER}'
            if self._is_mysql
            else f'REVOKE SELECT ON ALL TABLES IN SCHEMA seen FROM {READER}'
        )

    def dump(self):
        """Keep tables as they are now, for ``show_earlier``."""
        for table in KEPT:
            self._run(
                f'DROP TABLE IF EXISTS earlier.{table}',
                f'CREATE TABLE earlier.{table} AS SELECT * FROM {self._source}.{table}',
            )

    def change_earlier(self, statement):
        self._run(statement)

    def show_earlier(self):
        for table in KEPT:
            self.show(table, 'earlier')
        self.permit()

    def read(self):
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        return DatabaseReader(Database(engine)).read()

    def _run(self, *statements):
        with self._engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)


@pytest.fixture(scope='module', params=SERVERS)
def server(request, tmp_path_factory):
    """A database server that a test may stop."""
    is_postgres = request.param == 'postgres'
    made = PostgreSQL() if is_postgres else MariaDB(tmp_path_factory.mktemp('db'))
    with running(made):
        yield made


@pytest.fixture(scope='module')
def url(server):
    return server.create_database('placement')


@pytest.fixture(scope='module')
def placement(tmp_path_factory, url):
    """Placement on this server, in the place of the one on SQLite."""
    made = Placement(tmp_path_factory.mktemp('copied'), url, ONE_TRY)
    with running(made):
        yield made


@pytest.fixture(scope='module')
def all_seen(url, placement):
    return Seen(url)


@pytest.fixture
def seen(all_seen):
    """What the account sees."""
    yield all_seen
    all_seen.restore()


@pytest.fixture
def gate(server):
    """A gate between the copy and the server."""
    made = TcpGate(server.port)
    yield made
    made.stop()


class Copied:
    """A cloud with one scheduler, whose copy is kept in a thread."""

    def __init__(self, made, engine, caplog, patience_s):
        self.cloud = made
        reader = DatabaseReader(Database(engine))
        self.scheduler = made.compose(providers=reader)
        self.keeper = self.scheduler.copy
        inner = vars(self.keeper).get('_inner', self.keeper)
        inner._patience_s = patience_s
        self._caplog = caplog
        self._runner = PeriodicRunner('copy', self.keeper.periodic_tasks(), [0.0])
        self._runner.start()

    def close(self):
        self._runner.stop()
        self.keeper.stop()
        self._runner.join(WAIT_S)

    def wait_read(self):
        """Wait until the copy was read anew."""
        now = time.monotonic()
        wait_until(
            lambda: self.keeper._copy is not None and self.keeper._copy.as_of > now,
            WAIT_S,
            'the copy is read',
        )

    def ask(self, uuid, vcpus=LARGE):
        """Ask for a server; return the hosts, and how long it took."""
        began = time.monotonic()
        values = {'vcpus': vcpus, 'memory_mb': 64, 'root_gb': 1}
        found = self.cloud.ask(self.scheduler, [uuid], **values)
        return found, time.monotonic() - began

    def asked(self):
        """How often placement was asked for candidates."""
        return len(self.cloud.proxy.asked('GET', QUERY))

    def lines(self, level):
        """What the log says of the copy once it was there."""
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name in LOGGERS and record.levelno == level
            if 'is there' not in record.getMessage()
        ]

    def wait_line(self, level):
        wait_until(lambda: self.lines(level), WAIT_S, f'a line of level {level}')


@pytest.fixture
def copied(cloud, seen, gate, caplog, monkeypatch):
    """Make it: `copied(patience_s, timeout_s)`; by default a request waits as long as
    a busy machine may need, and the time limit is the real one."""
    caplog.set_level(logging.INFO)
    for name in ('INTERVAL_S', 'IDLE_INTERVAL_S'):
        monkeypatch.setattr(refresh, name, 0.1)
    monkeypatch.setattr(refresh, 'SHARE', 1.0)
    with contextlib.ExitStack() as stack:
        made = cloud(HOSTS)
        conf = make_conf(placement_database={'connection': gate.url(seen.url)})

        def make(patience_s=WAIT_S, **limits):
            engine = engines.placement_engine(conf, **limits)
            stack.callback(engine.dispose)
            found = Copied(made, engine, caplog, patience_s)
            stack.callback(found.close)
            return found

        made.fill = lambda uuid: made.hold(uuid, h1=FULL)
        yield made, make


@contextlib.contextmanager
def refused(seen, gate):
    gate.refuse()
    yield
    gate.allow()


@contextlib.contextmanager
def forbidden(seen, gate):
    seen.forbid()
    gate.cut()  # MariaDB looks when a connection is made
    yield
    seen.permit()


def hidden(*tables):
    @contextlib.contextmanager
    def fault(seen, gate):
        for table in tables:
            seen.hide(table)
        yield
        seen.restore()

    return fault


def truncated(table):
    @contextlib.contextmanager
    def fault(seen, gate):
        seen.truncate(table)
        yield
        seen.restore()

    return fault


@pytest.fixture
def reader(seen, gate):
    """A reader by way of the gate."""
    conf = make_conf(placement_database={'connection': gate.url(seen.url)})
    engine = engines.placement_engine(conf)
    yield DatabaseReader(Database(engine))
    engine.dispose()


def test_a_connection_that_is_lost_before_a_read_is_a_failure_of_the_store(
    reader, gate
):
    reader.read()
    gate.cut_on(b'ISOLATION LEVEL REPEATABLE READ')
    with pytest.raises(errors.StoreInterrupted):
        reader.read()
    assert reader.read().class_names


def test_rows_read_together_are_of_one_moment(reader, copied, new_uuid):
    made, _ = copied

    def held(connection):
        return connection.exec_driver_sql('SELECT SUM(used) FROM allocations').scalar()

    with reader._snapshot() as connection:
        before = held(connection)
        made.fill(new_uuid())
        assert held(connection) == before
    with reader._snapshot() as connection:
        assert held(connection) == (before or 0) + FULL['VCPU']


@cases(
    'fault',
    ('nobody listens', refused),
    ('an account without rights', forbidden),
    ('no providers', truncated('resource_providers')),
    more=[('a table is missing', hidden('inventories'))],
)
def test_placement_is_asked_while_the_copy_cannot_be_read(
    copied, seen, gate, new_uuid, fault
):
    made, make = copied
    other = new_uuid()
    made.fill(other)
    found = make()
    found.wait_read()
    with fault(seen, gate):
        made.hold(new_uuid(), h2={'VCPU': 1})
        found.wait_line(logging.WARNING)
        made.placement.release(other)
        for count in range(1, 4):
            hosts, took_s = found.ask(new_uuid())
            assert hosts == [['h1']]
            assert took_s < LATE_S
            assert found.asked() == count
    found.wait_line(logging.INFO)
    assert found.ask(new_uuid())[0] == [['h1']]
    assert found.asked() == 3
    assert len(found.lines(logging.WARNING)) == len(found.lines(logging.INFO)) == 1
    assert not found.lines(logging.ERROR)


@cases(
    'fault',
    ('nobody listens', refused),
    ('an empty database', hidden(*TABLES)),
    ('ids without names', truncated('resource_classes')),
)
def test_a_copy_that_cannot_be_read_at_the_start_comes_later(
    copied, seen, gate, new_uuid, fault
):
    _, make = copied
    with fault(seen, gate):
        found = make()
        found.wait_line(logging.WARNING)
        assert found.ask(new_uuid())[0] == found.ask(new_uuid())[0] == [['h1']]
        assert found.asked() == 2
    found.wait_line(logging.INFO)
    assert found.ask(new_uuid())[0] == [['h1']]
    assert found.asked() == 2
    assert len(found.lines(logging.WARNING)) == len(found.lines(logging.INFO)) == 1


@pytest.mark.parametrize('limits', [{}, {'timeout_s': 2}], ids=['holds', 'times out'])
def test_a_database_that_hangs_delays_requests_once(copied, gate, new_uuid, limits):
    made, make = copied
    other = new_uuid()
    made.fill(other)
    found = make(PATIENCE_S, **limits)
    found.wait_read()
    gate.hold()
    made.placement.release(other)
    took, threads = [], []
    for _ in range(2):
        target = lambda: took.append(found.ask(new_uuid()))  # noqa: E731
        threads.append(threading.Thread(target=target))
        threads[-1].start()
    for each in threads:
        each.join(WAIT_S)
    assert [hosts for hosts, _ in took] == [[['h1']]] * 2
    assert max(took_s for _, took_s in took) < PATIENCE_S + LATE_S
    again = []
    for uuid in (new_uuid() for _ in range(3)):
        again.append(found.ask(uuid))
        made.placement.release(uuid)
    assert [hosts for hosts, _ in again] == [[['h1']]] * 3
    # Each of them may meet a busy machine, but none has waited.
    assert min(took_s for _, took_s in again) < PATIENCE_S
    assert found.asked() == 5
    gate.let_go()
    found.wait_line(logging.INFO)
    assert found.ask(new_uuid())[0] == [['h1']]
    assert found.asked() == 5
    assert len(found.lines(logging.WARNING)) == len(found.lines(logging.INFO)) == 1


def same(keeper, seen):
    """Whether the copy is what the account sees."""
    table, whole = keeper._copy.table, build(seen.read())
    return (
        list(table.uuids) == list(whole.uuids)
        and table.ids.tolist() == whole.ids.tolist()
        and {n: i.used.tolist() for n, i in table.inventories.items()}
        == {n: i.used.tolist() for n, i in whole.inventories.items()}
    )


def test_a_server_with_an_earlier_state_takes_over(copied, seen, gate, new_uuid):
    """The ids that it gives again may have the same generations."""
    made, make = copied
    seen.dump()
    for _ in range(3):
        made.hold(new_uuid(), h1={'VCPU': 1})
    found = make()
    found.wait_read()
    seen.show_earlier()
    gate.cut()
    wait_until(lambda: same(found.keeper, seen), WAIT_S, 'the earlier state')
    assert found.ask(new_uuid())[0] == [['h1']]
    seen.restore()
    gate.cut()
    wait_until(lambda: same(found.keeper, seen), WAIT_S, 'the state now')
    assert found.ask(new_uuid())[0] == [['h1']]
    seen.dump()
    again = new_uuid()
    seen.change_earlier(
        f"UPDATE earlier.resource_providers SET uuid = '{again}' "
        f"WHERE uuid = '{made.hosts['h2'].uuid}'"
    )
    seen.show_earlier()
    gate.cut()
    wait_until(lambda: same(found.keeper, seen), WAIT_S, 'the other provider')
    assert again in found.keeper._copy.table.uuids
    assert not found.asked()


def test_a_server_that_is_started_again(copied, server, new_uuid):
    _, make = copied
    found = make()
    found.wait_read()
    server.stop()
    try:
        found.wait_line(logging.WARNING)
    finally:
        server.start()
    found.wait_line(logging.INFO)
    assert found.ask(new_uuid())[0] == [['h1']]
    assert not found.asked()
    assert len(found.lines(logging.WARNING)) == len(found.lines(logging.INFO)) == 1
