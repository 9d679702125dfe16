# SPDX-License-Identifier: Apache-2.0
"""Database engines, made from the options of [database] and [api_database]."""

from __future__ import annotations

import functools
import importlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc  # type: ignore[import-untyped]
from oslo_db import options
from oslo_db.sqlalchemy import engines as db_engines  # type: ignore[import-untyped]
from oslo_log import log as logging
from sqlalchemy import exc as sa_exc

from novasched import errors
from novasched.db import statements, transactions
from novasched.ports import Cell
from novasched.runtime import connections

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'database': list(options.database_opts),
    'api_database': list(options.database_opts),
    'placement_database': list(options.database_opts),
}
"""Options of oslo.db; nova takes the same list for the groups."""

TIMEOUT_S = 60.0
"""How long one statement may take: as long as nova waits for a cell, and as a full
read of one in the background may. Requests wait less; cluster.cells sees to it."""

API_TIMEOUT_S = 5.0
"""How long the API database may take for a statement: all are small, and requests for
server groups wait for one."""

PLACEMENT_TIMEOUT_S = 30.0
"""Placement's tables are read in the background: none waits so long for them."""

CONNECT_TIMEOUT_S = 10.0

USABLE = 'Use mysql+pymysql, postgresql+psycopg2 or sqlite'
EXTRAS = {
    'mysql+pymysql': "pip install 'novasched[mysql]'",
    'postgresql': "pip install 'novasched[postgres]'",
    'postgresql+psycopg2': "pip install 'novasched[postgres]'",
}
"""What to do where a driver is missing, if novasched has an extra for it."""

ARGUMENT_FAILURES = (AttributeError, LookupError, OSError, TypeError, ValueError)
"""What drivers raise for options of a URL that they do not know or cannot use."""

MAIN = '[database] connection'
API = '[api_database] connection'
API_REPLICA = '[api_database] slave_connection'
PLACEMENT = '[placement_database] connection'
MAIN_REPLICA = '[database] slave_connection'
CELL = 'cell_mappings.database_connection'


def api_engine(conf: cfg.ConfigOpts, *, timeout_s: float = TIMEOUT_S) -> sa.Engine:
    """Return an engine for the API database; it connects when it is first used.

    Raises errors.OptionError.
    """
    group = conf.api_database
    engine = _engine(group, group.connection, API, timeout_s)
    return _with_replica(engine, group, API_REPLICA, timeout_s)


def main_engine(conf: cfg.ConfigOpts, *, timeout_s: float = TIMEOUT_S) -> sa.Engine:
    """Return an engine for this service's own main database; see api_engine."""
    group = conf.database
    return _engine(group, group.connection, MAIN, timeout_s)


def placement_engine(
    conf: cfg.ConfigOpts, *, timeout_s: float = PLACEMENT_TIMEOUT_S
) -> sa.Engine | None:
    """Return an engine for placement's database, if it is named; see api_engine."""
    group = conf.placement_database
    if not group.connection:
        return None
    return _engine(group, group.connection, PLACEMENT, timeout_s)


def cell_engine(
    conf: cfg.ConfigOpts, url: str, *, timeout_s: float = TIMEOUT_S
) -> sa.Engine:
    """Return an engine for the database of a cell; see api_engine.

    All options but ``connection`` come from [database]. Its replica serves only the
    database that is named there: nova reads every cell from it.
    """
    engine = _engine(conf.database, url, CELL, timeout_s)
    if _same_database(engine.url, conf.database.connection):
        return _with_replica(engine, conf.database, MAIN_REPLICA, timeout_s)
    return engine


READ_ONLY = {
    'mysql': 'SET SESSION TRANSACTION READ ONLY',
    'mariadb': 'SET SESSION TRANSACTION READ ONLY',
    'postgresql': 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
    'sqlite': 'PRAGMA query_only = ON',
}
"""What makes every transaction of a connection one that only reads, by dialect."""


def read_only(engine: sa.Engine) -> sa.Engine:
    """Return the engine, whose connections refuse to write from now on."""
    statement = READ_ONLY.get(engine.dialect.name)

    def forbid(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        if engine.dialect.name != 'sqlite':
            connection.commit()

    if statement is not None:
        replica = engine.get_execution_options().get(transactions.REPLICA)
        for each in filter(None, (engine, replica)):
            sa.event.listen(each, 'connect', forbid)
    return engine


def warnings(conf: cfg.ConfigOpts) -> list[str]:
    groups = ((conf.api_database, API_REPLICA), (conf.database, MAIN_REPLICA))
    return [
        f'{option} is used for reading, as synchronous_reader is off: decisions may '
        'miss what the replica does not have yet'
        for group, option in groups
        if _reads_from_replica(group)
    ]


def check(
    engine: sa.Engine,
    option: str,
    *,
    max_retries: int = 0,
    retry_interval_s: float = 10,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Connect once, to find out whether the database, and its replica, can be used.

    A server that cannot be reached is asked again ``max_retries`` times, or for ever if
    that is -1. Raises errors.OptionError that names ``option``, or the replica's.
    """
    attempts = 0
    while True:
        try:
            with engine.connect():
                break
        except ARGUMENT_FAILURES as problem:
            raise errors.OptionError(
                option,
                f'{transactions.location(engine)} cannot be used: its driver does not '
                f'take an option of the URL ({transactions.describe(problem)})',
                'Correct what stands behind the ? of the URL, and in '
                'connection_parameters',
            ) from problem
        except transactions.FAILURES as problem:
            said = transactions.describe(problem)
            unreachable = isinstance(problem, db_exc.DBConnectionError)
            if not unreachable or attempts == max_retries:
                raise errors.OptionError(
                    option,
                    f'{transactions.location(engine)} cannot be used: {said}',
                    'Check that the server runs, that the database exists, '
                    'and that the user and the password are right',
                ) from problem
        attempts += 1
        LOG.warning('%s: %s. Trying again in %s s.', option, said, retry_interval_s)
        wait(retry_interval_s)
    replica = engine.get_execution_options().get(transactions.REPLICA)
    if replica is not None:
        check(
            replica,
            API_REPLICA if option == API else MAIN_REPLICA,
            max_retries=max_retries,
            retry_interval_s=retry_interval_s,
            wait=wait,
        )


def _check_tls(url: sa.URL, option: str) -> None:
    """Load the files that PyMySQL would load. Raises errors.OptionError; libpq itself
    names those that it cannot use."""
    if not url.drivername.startswith(('mysql', 'mariadb')):
        return
    named = {
        name: value if isinstance(value, str) else value[-1]
        for name, value in url.query.items()
    }
    connections.check_authorities(f'{option}: ssl_ca', named.get('ssl_ca'))
    cert, key = named.get('ssl_cert'), named.get('ssl_key')
    connections.check_certificate(
        f'{option}: ssl_cert', cert, f'{option}: ssl_key', key
    )


def _engine(
    group: cfg.ConfigOpts.GroupAttr,
    connection: str | None,
    option: str,
    timeout_s: float,
) -> sa.Engine:
    if not connection:
        raise errors.OptionError(option, 'not set', 'Set it to the URL of a database')
    url = _bounded(_parsed(connection, group.connection_parameters, option), timeout_s)
    _check_tls(url, option)
    try:
        engine: sa.Engine = db_engines.create_engine(
            url.render_as_string(hide_password=False),
            mysql_sql_mode=group.mysql_sql_mode,
            mysql_wsrep_sync_wait=group.mysql_wsrep_sync_wait,
            connection_recycle_time=group.connection_recycle_time,
            connection_debug=group.connection_debug,
            max_pool_size=group.max_pool_size,
            max_overflow=group.max_overflow,
            pool_timeout=group.pool_timeout,
            sqlite_synchronous=group.sqlite_synchronous,
            connection_trace=group.connection_trace,
            max_retries=0,
        )
    except (sa_exc.ArgumentError, ImportError) as problem:
        raise errors.OptionError(
            option,
            f'no usable driver: {transactions.describe(problem)}',
            EXTRAS.get(url.drivername, USABLE),
        ) from problem
    engine.update_execution_options(compiled_cache=statements.SHARED)
    if engine.dialect.driver == 'pymysql':
        connect = _with_shared_context()
        sa.event.listen(
            engine, 'do_connect', lambda _, __, args, named: connect(*args, **named)
        )
    return engine


@functools.cache
def _with_shared_context() -> Callable[..., Any]:
    """Return PyMySQL's connection, all of which share what is used where no option
    asks for TLS and the server has it.

    Each would load the certificates of all authorities that the machine knows, which
    takes 50 ms and 1 MB, to verify nothing by them.
    """
    driver: Any = importlib.import_module('pymysql.connections')
    made: list[Any] = []

    class UnverifiedConnection(driver.Connection):  # type: ignore[misc]
        def _create_ssl_ctx(self, options: Any) -> Any:
            if options:
                return super()._create_ssl_ctx(options)
            if not made:
                made.append(super()._create_ssl_ctx({}))
            return made[0]

    return UnverifiedConnection


def _reads_from_replica(group: cfg.ConfigOpts.GroupAttr) -> bool:
    return bool(group.slave_connection) and not group.synchronous_reader


def _same_database(url: sa.URL, connection: str | None) -> bool:
    """Return whether a URL leads to the database of another one."""
    if not connection:
        return False
    other = _parsed(connection, '', MAIN)
    return all(
        getattr(url, x) == getattr(other, x) for x in ('host', 'port', 'database')
    )


def _with_replica(
    engine: sa.Engine,
    group: cfg.ConfigOpts.GroupAttr,
    option: str,
    timeout_s: float,
) -> sa.Engine:
    """Give an engine its replica for reading, if the options say so."""
    if not _reads_from_replica(group):
        return engine
    replica = _engine(group, group.slave_connection, option, timeout_s)
    sa.event.listen(engine, 'engine_disposed', lambda _: replica.dispose())
    return engine.execution_options(**{transactions.REPLICA: replica})


def _parsed(connection: str, parameters: str, option: str) -> sa.URL:
    """Return the URL with the options of connection_parameters appended."""
    if _cuts_password(connection):
        raise errors.OptionError(
            option,
            'an @ stands behind what seems to be the end of the password',
            'Write what is special in user and password percent-encoded: @ as %40',
        )
    try:
        url = sa.make_url(connection)
        return url.update_query_string(parameters, append=True) if parameters else url
    except (sa_exc.ArgumentError, ValueError) as problem:
        raise errors.OptionError(
            option,
            'not a database URL',
            'Write it as driver://user:password@host:port/database',
        ) from problem


def _cuts_password(connection: str) -> bool:
    """Return whether the host, or what is behind it, may be a part of the password.

    So it is where a password holds an @, which ends it.
    """
    kind, _, rest = connection.partition('://')
    before, _, query = rest.partition('@')[2].partition('?')
    name, _, behind = query.partition('@')
    return not kind.startswith('sqlite') and (
        '@' in before or bool(behind and '=' not in name)
    )


def _bounded(url: sa.URL, timeout_s: float) -> sa.URL:
    """Give the URL the driver's timeouts, except those that it has already."""
    limits = _limits(url.drivername, timeout_s)
    return url.update_query_dict({**limits, **url.query})


def _limits(drivername: str, timeout_s: float) -> Mapping[str, str]:
    """Return the timeouts of a driver, in its own words; none if it is unknown."""
    whole = str(max(1, math.ceil(timeout_s)))
    connect = str(max(1, math.ceil(min(timeout_s, CONNECT_TIMEOUT_S))))
    milliseconds = str(max(1, math.ceil(timeout_s * 1000)))
    backend, _, driver = drivername.partition('+')
    if backend in ('mysql', 'mariadb') and driver in ('', 'pymysql', 'mysqldb'):
        return {
            'connect_timeout': connect,
            'read_timeout': whole,
            'write_timeout': whole,
        }
    if backend == 'postgresql' and driver in ('', 'psycopg2', 'psycopg'):
        return {
            'connect_timeout': connect,
            'options': f'-c statement_timeout={milliseconds}',
            'tcp_user_timeout': milliseconds,
            'keepalives_idle': connect,  # notices a network that is gone
        }
    return {'timeout': str(timeout_s)} if backend == 'sqlite' else {}


def engine_of(
    cell: Cell, make_engine: Callable[[str], sa.Engine]
) -> tuple[sa.Engine, str]:
    """Return the engine of a cell and what to call its database in errors.

    Raises errors.StoreFailed where its mapping is invalid.
    """
    name = f'Cell {label(cell)}'
    if not cell.database_connection:
        raise errors.StoreFailed(name, 'its mapping has no database_connection')
    try:
        return make_engine(cell.database_connection), name
    except errors.OptionError as problem:
        raise errors.StoreFailed(name, str(problem)) from problem


def label(cell: Cell) -> str:
    """Return the name of a cell in logs: its uuid, and its name if it has one."""
    return f'{cell.uuid}({cell.name})' if cell.name else cell.uuid
