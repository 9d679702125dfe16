# SPDX-License-Identifier: Apache-2.0
"""One short transaction at a time, with foreign exceptions translated."""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import api as db_api  # type: ignore[import-untyped]
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from novasched import errors, printable
from novasched.runtime import connections
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.executor import retry_once

Result = TypeVar('Result')

FAILURES: tuple[type[Exception], ...] = (
    sa_exc.SQLAlchemyError,
    db_exc.DBError,
    db_exc.DBInvalidUnicodeParameter,
)
DEADLOCK_RETRIES = 5

INTERRUPTIONS = (db_exc.DBConnectionError, db_exc.DBDeadlock)
UNAVAILABLE_ERRORS = (
    *(1040, 1203, 1226),
    *(1047, 1053, 1205, 1290, 1836, 1927),
    *(2002, 2003, 2006, 2013),
    *(9001, 9002),
)
"""Errors that end by themselves, of MariaDB, its clients and ProxySQL.

The server has too many connections. It has no quorum, stops, is read-only, holds a lock
or ended the connection. A client has no connection. ProxySQL reaches no server in time.
"""
UNAVAILABLE_STATES = ('57P01', '57P02', '57P03', '53300', '25006')
"""States of PostgreSQL: it stops or starts, too many connections, a standby."""

_LOCKED = 'database is locked'
REPLICA = 'novasched_replica'
"""The execution option of an engine that holds the engine of its replica."""


class Database:
    """A database and the name that errors call it by.

    Every method raises errors.StoreFailed for whatever the driver raises.
    """

    def __init__(self, engine: sa.Engine, name: str | None = None) -> None:
        self.engine = engine
        self.name = name or location(engine)
        self._kept = _KeptConnections()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Open a transaction that is rolled back at the end.

        So the next read never sees the snapshot of this one. It goes to the replica,
        if the engine has one.
        """
        with self.translated(), self._reader.connect() as connection:
            yield connection

    @contextmanager
    def steady(self) -> Iterator[sa.Connection]:
        """Borrow an autocommit connection: each statement shows what is committed.

        The server gets only the statements: no check of the connection, no begin and no
        end. SQLite's statements begin transactions: there it is the same as ``read``.
        """
        if self.engine.dialect.name == 'sqlite':
            with self.read() as connection:
                yield connection
            return
        with self.translated(), self._kept.lent(self._reader) as connection:
            yield connection

    @property
    def _reader(self) -> sa.Engine:
        reader: sa.Engine
        reader = self.engine.get_execution_options().get(REPLICA, self.engine)
        return reader

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._kept.close()
        self.engine.dispose()

    def reading(self, question: Callable[[sa.Connection], Result]) -> Result:
        """Ask in a transaction; once more, on a new connection, if it broke off."""

        def attempt() -> Result:
            with self.read() as connection:
                return question(connection)

        return retry_once(attempt)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Open a transaction that is committed at the end."""
        with self.translated(), self.engine.begin() as connection:
            yield connection

    def insert(self, statement: sa.Insert) -> bool:
        """Insert in a transaction of its own; False if a unique key forbids it."""
        with self.translated():
            try:
                with self.engine.begin() as connection:
                    connection.execute(statement)
            except db_exc.DBDuplicateEntry:
                return False
        return True

    def retrying(self, step: Callable[[sa.Connection], Result]) -> Result:
        """Run a step in a transaction of its own, and again after a deadlock.

        In SQLite that is a step which has read what another has changed since.
        """

        def attempt() -> Result:
            try:
                with self.engine.begin() as connection:
                    return step(connection)
            except FAILURES as problem:
                if describe(problem) == _LOCKED:
                    raise db_exc.DBDeadlock(problem) from problem
                raise

        retry = db_api.wrap_db_retry(
            max_retries=DEADLOCK_RETRIES,
            retry_on_deadlock=True,
            retry_interval=0.1,
            max_retry_interval=1,
        )
        with self.translated():
            result: Result = retry(attempt)()
        return result

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what a database driver raises into errors.StoreFailed."""
        try:
            yield
        except FAILURES as problem:
            failure, service = errors.StoreFailed, ''
            if isinstance(problem, INTERRUPTIONS):
                failure = errors.StoreInterrupted
            if is_unavailable(problem):
                service = self.name[:1].lower() + self.name[1:]
            text = describe(problem, self.engine)
            raise failure(self.name, text, service) from problem


KEPT_S = 300.0
"""How long a connection stays out of its pool, which checks those that it lends."""
IDLE_S = 120.0
"""How long one may lie idle: firewalls drop those that nothing passes by."""


class _KeptConnections:
    """Open connections, each lent to one at a time, and never given back to their pool.
    Each statement is a transaction of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[tuple[sa.Connection, float, float]] = []
        self._waiting = 0
        self._is_closed = False

    @contextmanager
    def lent(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        used, opened_s = self._take() or self._open(engine)
        try:
            yield used
        except BaseException:
            _drop(used)
            self._drop_free()  # what broke one connection may have broken all
            raise
        with self._lock:
            # One who waits for the pool would not get what is kept here.
            is_wanted = self._waiting and _is_exhausted(engine.pool)
            if not self._is_closed and not is_wanted:
                self._free.append((used, opened_s, SYSTEM_CLOCK.monotonic()))
                return
        _drop(used)

    def _take(self) -> tuple[sa.Connection, float] | None:
        now_s = SYSTEM_CLOCK.monotonic()
        while True:
            with self._lock:
                if not self._free:
                    return None
                kept, opened_s, used_s = self._free.pop()
            if now_s - opened_s < KEPT_S and now_s - used_s < IDLE_S:
                return kept, opened_s
            _drop(kept)

    def _open(self, engine: sa.Engine) -> tuple[sa.Connection, float]:
        with self._lock:
            self._waiting += 1
        try:
            made = engine.connect()
        finally:
            with self._lock:
                self._waiting -= 1
        try:
            made.execution_options(isolation_level='AUTOCOMMIT')
        except BaseException:
            _drop(made)
            raise
        return made, SYSTEM_CLOCK.monotonic()

    def close(self) -> None:
        """Close the connections that are not lent; the others follow them."""
        self._is_closed = True
        self._drop_free()

    def _drop_free(self) -> None:
        with self._lock:
            free, self._free = self._free, []
        for kept, _, _ in free:
            _drop(kept)


def _drop(kept: sa.Connection) -> None:
    """Close a connection without a question to its server, which may hang."""
    kept.invalidate()
    kept.close()


def _is_exhausted(pool: sa.Pool) -> bool:
    return isinstance(pool, sa.QueuePool) and pool.checkedout() >= pool.size()


def utcnow(connection: sa.Connection) -> datetime.datetime:
    """Return the time of day of a server, UTC without a zone."""
    now: sa.Function[datetime.datetime] = sa.func.current_timestamp()
    if connection.dialect.name in ('mysql', 'mariadb'):
        now = sa.func.utc_timestamp(type_=sa.DateTime)
    elif connection.dialect.name == 'postgresql':
        now = sa.func.timezone('UTC', sa.func.clock_timestamp(), type_=sa.DateTime)
    return connection.execute(sa.select(now)).scalar_one()


def location(engine: sa.Engine) -> str:
    """Return the URL of a database, its password masked and without options."""
    return engine.url.set(query={}).render_as_string(hide_password=True)


def describe(problem: BaseException, engine: sa.Engine | None = None) -> str:
    """Return a phrase for what a driver raised, else the first line of its own message,
    passwords masked.

    ``engine``: the server is named where there is no connection to it.
    """
    cause = _cause(problem)
    said, number = str(cause), _number(cause)
    if number is not None:
        said = f'{cause.args[1]} (error {number})'
    is_unreachable = number in UNREACHABLE_ERRORS or _NO_CONNECTION.search(said)
    words = connections.reason(cause) if is_unreachable else connections.phrase(said)
    if words and is_unreachable and engine is not None and engine.url.host:
        port = f':{engine.url.port}' if engine.url.port else ''
        words = f'{engine.url.host}{port} cannot be reached: {words}'
    lines = said.strip().splitlines() or [type(problem).__name__]
    return printable.mask(words or lines[0].strip())


def _number(cause: BaseException) -> int | None:
    """Return the number of an error, as PyMySQL has them."""
    is_numbered = len(cause.args) == 2 and isinstance(cause.args[0], int)
    return cause.args[0] if is_numbered else None


def is_unavailable(problem: BaseException) -> bool:
    """Return whether a database did not answer, and may soon: by its type, or by what
    the server or the driver says."""
    if isinstance(problem, (*INTERRUPTIONS, sa_exc.TimeoutError)):  # no connection free
        return True
    cause = _cause(problem)
    number = cause.args[0] if cause.args else None
    state = getattr(cause, 'pgcode', None)
    return (
        number in UNAVAILABLE_ERRORS
        or state in UNAVAILABLE_STATES
        or bool(_NO_CONNECTION.search(str(cause)) or _NOT_NOW.search(str(cause)))
    )


def _cause(problem: BaseException) -> BaseException:
    """Return the exception of the driver itself."""
    cause = problem
    if isinstance(cause, db_exc.DBError):
        cause = cause.inner_exception or cause
    if isinstance(cause, sa_exc.DBAPIError):
        cause = cause.orig or cause
    return cause


UNREACHABLE_ERRORS = (2002, 2003, 2005)
"""Errors of a client of MariaDB whose server cannot be reached."""
_NO_CONNECTION = re.compile(
    r'could not translate host name|'
    r'connection to server .* failed: (?!FATAL)'
)
"""What psycopg2 says there."""
_NOT_NOW = re.compile(
    r'the database system is (starting up|shutting down|in recovery|not (yet )?accept)|'
    r'too many clients already|remaining connection slots|'
    r'server login has been failing|no more connections allowed|server_login_retry'
)
"""What PostgreSQL says to clients while it starts, stops or is full."""
