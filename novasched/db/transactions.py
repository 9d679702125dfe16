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

from novasched import connections, errors, printable
from novasched.clock import SYSTEM_CLOCK
from novasched.cluster.cell_executor import retry_once

Result = TypeVar('Result')

FAILURES: tuple[type[Exception], ...] = (
    sa_exc.SQLAlchemyError,
    db_exc.DBError,
    db_exc.DBInvalidUnicodeParameter,
)
DEADLOCK_RETRIES = 5

INTERRUPTIONS = (db_exc.DBConnectionError, db_exc.DBDeadlock)

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
        self._kept = _KeptConnection()

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
        """Lend a connection that stays open; each statement shows what is committed.

        Nothing is asked of the server but the statements: there is no check of the
        connection, no begin and no end. For one who asks at the same time as another,
        or of SQLite, whose statements begin transactions, it is as with ``read``.
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
            failure = (
                errors.StoreInterrupted
                if isinstance(problem, INTERRUPTIONS)
                else errors.StoreFailed
            )
            raise failure(self.name, describe(problem, self.engine)) from problem


KEPT_S = 60.0
"""How long a connection stays out of its pool, which checks those that it lends."""


class _KeptConnection:
    """One open connection at most, lent to one at a time; others get one of the pool.
    Each statement is a transaction of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: tuple[sa.Connection, float] | None = None
        self._is_closed = False

    @contextmanager
    def lent(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        now_s = SYSTEM_CLOCK.monotonic()
        with self._lock:
            free, self._free = self._free, None
        if free is not None and free[1] <= now_s:
            _give_back(free[0])
            free = None
        used, until_s = free or (engine.connect(), now_s + KEPT_S)
        try:
            if free is None:
                used.execution_options(isolation_level='AUTOCOMMIT')
            yield used
        except BaseException:
            used.close()
            raise
        with self._lock:
            if self._free is None and not self._is_closed:
                self._free = used, until_s
                return
        used.close()

    def close(self) -> None:
        """Close the connection, if it is not lent, without a word to the server: it may
        hang."""
        with self._lock:
            free, self._free, self._is_closed = self._free, None, True
        if free is not None:
            free[0].invalidate()
            free[0].close()


def _give_back(kept: sa.Connection) -> None:
    """Return a connection to its pool; one that was lost is closed."""
    try:
        kept.execute(_CHECK)
    except FAILURES:
        kept.invalidate()
    kept.close()


_CHECK: sa.Select[tuple[int]] = sa.select(sa.literal_column('1'))


def utcnow(connection: sa.Connection) -> datetime.datetime:
    """Return the time of day of a server, UTC without a zone."""
    functions: dict[str, sa.Function[datetime.datetime]] = {
        'mysql': sa.func.utc_timestamp(type_=sa.DateTime),
        'mariadb': sa.func.utc_timestamp(type_=sa.DateTime),
        'postgresql': sa.func.timezone(
            'UTC', sa.func.clock_timestamp(), type_=sa.DateTime
        ),
    }
    now = functions.get(connection.dialect.name, sa.func.current_timestamp())
    return connection.execute(sa.select(now)).scalar_one()


def location(engine: sa.Engine) -> str:
    """Return the URL of a database, its password masked and without options."""
    return engine.url.set(query={}).render_as_string(hide_password=True)


def describe(problem: BaseException, engine: sa.Engine | None = None) -> str:
    """Return a phrase for what a driver raised, else the first line of its own message,
    passwords masked.

    ``engine``: the server is named where there is no connection to it.
    """
    cause: BaseException = problem
    if isinstance(cause, db_exc.DBError):
        cause = cause.inner_exception or cause
    if isinstance(cause, sa_exc.DBAPIError):
        cause = cause.orig or cause
    said = str(cause)
    number = None
    if len(cause.args) == 2 and isinstance(cause.args[0], int):  # as PyMySQL has them
        number = cause.args[0]
        said = f'{cause.args[1]} (error {number})'
    is_unreachable = number in UNREACHABLE_ERRORS or _NO_CONNECTION.search(said)
    words = connections.reason(cause) if is_unreachable else connections.phrase(said)
    if words and is_unreachable and engine is not None and engine.url.host:
        port = f':{engine.url.port}' if engine.url.port else ''
        words = f'{engine.url.host}{port} cannot be reached: {words}'
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = words or (lines[0] if lines else type(problem).__name__)
    return printable.mask(text)


UNREACHABLE_ERRORS = (2002, 2003, 2005)
"""Those of a client of MariaDB whose server cannot be reached."""
_NO_CONNECTION = re.compile(
    r'could not translate host name|'
    r'connection to server .* failed: (?!FATAL)'
)
"""What psycopg2 says there."""
