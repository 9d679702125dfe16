# SPDX-License-Identifier: Apache-2.0
"""Reading the decision log: lists, counts and single records.

Their order is the order of writing, by file and row, never by the clock.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from novasched import errors
from novasched.decisions import files
from novasched.decisions.body import RecordBody, RecordedServer, body_of
from novasched.decisions.comparison import SIMILAR, ComparedServer
from novasched.decisions.counting import (
    GROUPINGS,
    Count,
    Tally,
    counts_of,
    tally_of,
)
from novasched.decisions.files import HEAD
from novasched.decisions.record import (
    ALPHABET,
    ID_LENGTH,
    DecisionRecord,
    Head,
    Servers,
    decode,
    time_of_id,
)
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)
_T = TypeVar('_T')

LEAST_PREFIX = 6
MOST_ROWS = 2**63 - 1
MOST_NAMED = 500
"""Ids in one statement."""
_COLUMNS = ', '.join(f'd."{name}"' for name in HEAD)
_MISTYPED = str.maketrans('ilou', '110v')


@dataclass(frozen=True)
class Criteria:
    """Conditions that records meet; None for any value. Times are in microseconds since
    1970, ``until`` is not included."""

    server: str | None = None
    request: str | None = None
    project: str | None = None
    flavor: str | None = None
    zone: str | None = None
    host: str | None = None
    result: str | None = None
    blocker: str | None = None
    plugin: str | None = None
    code: str | None = None
    since: int | None = None
    until: int | None = None
    differs: bool | None = None
    """Whether nova chose otherwise for a server of it, as a shadow saw."""

    @property
    def table(self) -> str:
        """The table without which a file has no such record; '': it may have."""
        return COMPARED if self.differs else ''

    def where(self) -> tuple[str, list[Any]]:
        """Return a condition of SQL about a decision d, and its values."""
        given = [
            (_CONDITIONS[name], value)
            for name, value in asdict(self).items()
            if value is not None and value is not False
        ]
        values = [value for sql, value in given for _ in range(sql.count('?'))]
        return ' AND '.join(sql for sql, _ in given) or '1', values


COMPARED = 'compared'
_OF_SERVER = 'd.rowid IN (SELECT decision FROM servers WHERE {} = ?)'
_CONDITIONS = {
    'server': 'd.rowid IN '
    "(SELECT decision FROM servers WHERE uuid >= ? AND uuid <= ? || '~')",
    'request': '(d.request_id = ? OR d.global_request_id = ?)',
    'project': 'd.project_id = ?',
    'flavor': 'd.flavor = ?',
    'zone': 'd.zone = ?',
    'host': _OF_SERVER.format('host'),
    'result': 'd.result = ?',
    'blocker': 'd.blocker = ?',
    'plugin': 'd.plugin = ?',
    'code': 'd.code = ?',
    'since': 'd.at >= ?',
    'until': 'd.at < ?',
    'differs': 'd.rowid IN (SELECT decision FROM compared WHERE verdict NOT IN '
    f'{tuple(map(str, SIMILAR))})',
}


ANSWER_WITHIN_S = 60.0
"""How long one database may work on an answer."""
CHECK_EVERY = 100_000
"""Instructions of SQLite between two looks at the clock: some milliseconds."""


class Mark(NamedTuple):
    """A place in the log: after a row of a file."""

    number: int = 0
    rowid: int = 0


def whole_id(typed: str) -> str:
    """Return the id, or the beginning of one, that was typed; letters that the
    alphabet of ids has not are those that look alike.

    Raises errors.DecisionNotFound for what is none.
    """
    letters = typed.strip().lower().removeprefix('d-').translate(_MISTYPED)
    prefix = f'd-{letters}'
    is_too_long = len(prefix) > ID_LENGTH
    is_too_short = len(typed) < LEAST_PREFIX or not letters
    if is_too_short or is_too_long or set(letters) - set(ALPHABET):
        raise errors.DecisionNotFound(typed)
    return prefix


class DecisionReader(abc.ABC):
    """Answers questions from several databases; one that cannot be read is left out,
    with a warning."""

    def __init__(self, warn: Callable[[str], None], clock: Clock) -> None:
        self._warn = warn
        self.clock = clock

    @abc.abstractmethod
    def _numbers(self) -> Sequence[int]:
        """Return the numbers of the databases, the oldest first."""

    @abc.abstractmethod
    def _opened(
        self, number: int
    ) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Open a database to read. Raises sqlite3.Error and FileNotFoundError."""

    def each(
        self,
        ask: Callable[[sqlite3.Connection, int], _T],
        numbers: Sequence[int] | None = None,
        table: str = '',
    ) -> Iterator[_T]:
        """Yield the answers of databases, the newest first if none are given. Those
        without a ``table`` that is made only where it is needed are left out."""
        for number in reversed(self._numbers()) if numbers is None else numbers:
            try:
                with self._opened(number) as connection:
                    version = files.version_of(connection)
                    if version == 0:  # just begun
                        continue
                    if version > files.SCHEMA_VERSION:
                        self._warn(
                            f'{self._name(number)} was written by a later release'
                        )
                        continue
                    if table and not files.has_table(connection, table):
                        continue
                    with self._bounded(connection):
                        answer = ask(connection, number)
            except FileNotFoundError:
                continue
            except (sqlite3.Error, OSError, ValueError, OverflowError) as problem:
                self._warn(f'{self._name(number)} cannot be read: {problem}')
                continue
            yield answer

    def select(
        self, statement: str, values: Sequence[Any] = (), table: str = ''
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of databases, the newest first; see each()."""
        return self.each(
            lambda c, _: c.execute(statement, values).fetchall(), table=table
        )

    @contextlib.contextmanager
    def _bounded(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Interrupt what takes too long, which is a sqlite3.OperationalError."""
        end = self.clock.monotonic() + ANSWER_WITHIN_S
        connection.set_progress_handler(
            lambda: self.clock.monotonic() > end, CHECK_EVERY
        )
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    def _name(self, number: int) -> str:
        return files.name_of(number)

    # -- lists

    def find(
        self,
        criteria: Criteria,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Head]:
        """Return heads, the newest first; ``before``: those older than a record, which
        may be of another machine.

        Raises errors.DecisionNotFound for what is no id, and AmbiguousDecision.
        """
        end = None if before is None else self._one(before)
        below = ''
        if before is not None and end is None:
            below = whole_id(before).ljust(ID_LENGTH, '0')
            until = time_of_id(below) + 1000
            if criteria.until is not None:
                until = min(until, criteria.until)
            criteria = replace(criteria, until=until)
        found: list[Head] = []
        numbers = [
            number
            for number in reversed(self._numbers())
            if end is None or number <= end.number
        ]
        condition, values = criteria.where()
        if below:
            condition, values = f'{condition} AND d.id < ?', [*values, below]

        def ask(connection: sqlite3.Connection, number: int) -> list[Head]:
            last = end.rowid if end and end.number == number else MOST_ROWS
            rows = connection.execute(
                f'SELECT {_COLUMNS} FROM decisions d WHERE {condition} '
                'AND d.rowid < ? ORDER BY d.rowid DESC LIMIT ?',
                (*values, last, limit - len(found)),
            )
            return [Head(*row) for row in rows]

        for heads in self.each(ask, numbers, criteria.table):
            found += heads
            if len(found) >= limit:
                break
        return found

    def end(self) -> Mark:
        """Return the place after the newest record."""
        return next(self.each(_end), Mark())

    def newer(
        self, criteria: Criteria, mark: Mark, limit: int = 500
    ) -> tuple[list[Head], Mark]:
        """Return heads after a place, the oldest first, and the place after all that
        was looked at."""
        found: list[Head] = []
        condition, values = criteria.where()

        def ask(connection: sqlite3.Connection, number: int) -> tuple[Mark, list[Any]]:
            end = _end(connection, number)
            after = mark.rowid if number == mark.number else 0
            rows = connection.execute(
                f'SELECT d.rowid, {_COLUMNS} FROM decisions d WHERE {condition} '
                'AND d.rowid > ? AND d.rowid <= ? ORDER BY d.rowid LIMIT ?',
                (*values, after, end.rowid, limit - len(found)),
            )
            return end, rows.fetchall()

        numbers = [number for number in self._numbers() if number >= mark.number]
        for end, rows in self.each(ask, numbers, criteria.table):
            found += [Head(*head) for _, *head in rows]
            if len(found) >= limit:
                return found, Mark(end.number, rows[-1][0])
            mark = end if end.rowid else mark
        return found, mark

    def compared(self, since_us: int) -> Iterator[ComparedServer]:
        """Yield what a shadow compared since a time, the newest first."""
        statement = (
            'SELECT d.id, d.at, d.request_id, d.flavor, d.took_us, c.server, '
            'c.verdict, c.cause, c.detail, c.ours, c.nova, c.known_by, c.seen_ms, '
            f'c.nova_ms, c.refused, c.weighers FROM {COMPARED} c '
            'JOIN decisions d ON d.rowid = c.decision '
            'WHERE d.at >= ? ORDER BY d.rowid DESC, c.rowid'
        )
        for rows in self.select(statement, (since_us,), COMPARED):
            yield from (ComparedServer(*row) for row in rows)

    def has_compared(self) -> bool:
        """Return whether a shadow has compared anything that is kept."""
        return any(self.each(lambda *_: True, table=COMPARED))

    def listened(self, since_us: int) -> list[tuple[int, int]]:
        """Return the times in which a shadow tapped requests, the oldest first."""
        statement = 'SELECT since, until FROM listened WHERE until >= ?'
        found: dict[int, int] = {}
        for rows in self.select(statement, (since_us,), 'listened'):
            for since, until in rows:
                found[since] = max(until, found.get(since, 0))
        return sorted(found.items())

    def servers_of(self, ids: Sequence[str]) -> dict[str, Servers]:
        """Return the servers and the hosts that were picked, by the ids of records."""
        found: dict[str, list[tuple[str, str]]] = {}
        for start in range(0, len(ids), MOST_NAMED):
            some = ids[start : start + MOST_NAMED]
            for rows in self.select(
                'SELECT d.id, s.uuid, s.host FROM decisions d JOIN servers s '
                'ON s.decision = d.rowid '
                f'WHERE d.id IN ({", ".join("?" * len(some))}) ORDER BY s.rowid',
                some,
            ):
                for one, uuid, host in rows:
                    found.setdefault(one, []).append((uuid, host))
                if len(found) == start + len(some):
                    break
        return {
            one: Servers(
                [uuid for uuid, _ in pairs if uuid],
                list(dict.fromkeys(host for _, host in pairs if host)),
            )
            for one, pairs in found.items()
        }

    def bodies_of(self, ids: Sequence[str]) -> dict[str, RecordBody]:
        """Return the bodies of some of the newest records, by id."""
        found: dict[str, RecordBody] = {}
        for rows in self.select(
            'SELECT d.id, b.body FROM decisions d JOIN bodies b '
            'ON b.decision = d.rowid '
            f'WHERE d.id IN ({", ".join("?" * len(ids))})',
            ids,
        ):
            for one, body in rows:
                with contextlib.suppress(ValueError):  # it cannot be read
                    found[one] = body_of(decode(body))
            if len(found) == len(ids):
                break
        return found

    # -- single records

    def _places(self, typed: str) -> list[tuple[Mark, str]]:
        """Return where the records are whose ids begin so."""
        prefix = whole_id(typed)

        def ask(connection: sqlite3.Connection, number: int) -> list[tuple[Mark, str]]:
            rows = connection.execute(
                'SELECT rowid, id FROM decisions WHERE id >= ? AND id < ? LIMIT 10',
                (prefix, prefix + '~'),
            )
            return [(Mark(number, rowid), one) for rowid, one in rows]

        is_whole = len(prefix) == ID_LENGTH
        numbers = self._likeliest(time_of_id(prefix)) if is_whole else None
        found: list[tuple[Mark, str]] = []
        for places in self.each(ask, numbers):
            found += places
            if found and is_whole:
                break
        return found

    def _likeliest(self, at: int) -> Sequence[int]:
        """Return the numbers of all databases, first those that may have been written
        at a time."""
        return self._numbers()[::-1]

    def _one(self, typed: str) -> Mark | None:
        found = self._places(typed)
        if len(found) > 1:
            raise errors.AmbiguousDecision(typed, [one for _, one in found])
        return found[0][0] if found else None

    def read(self, id_prefix: str) -> DecisionRecord | None:
        """Return a record by its id, or by the beginning of it; None if there is none.

        Raises errors.AmbiguousDecision if several ids begin so, and DecisionNotFound
        for what is no id.
        """
        if (place := self._one(id_prefix)) is None:
            return None
        asked = self.each(lambda c, _: _record(c, place.rowid), [place.number])
        return next(asked, None)

    def whole(self, id_prefix: str) -> bytes | None:
        """Return a request that was kept whole, as it is stored; None if it was not.

        Raises as read() does, and errors.DecisionNotFound where there is no record.
        """
        place = self._one(id_prefix)
        if place is None:
            raise errors.DecisionNotFound(id_prefix)

        def ask(connection: sqlite3.Connection, _: int) -> bytes | None:
            row = connection.execute(
                'SELECT document FROM whole_requests WHERE decision = ?', (place.rowid,)
            ).fetchone()
            return row[0] if row else None

        return next(self.each(ask, [place.number], 'whole_requests'), None)

    # -- counts

    def count(self, by: str, criteria: Criteria) -> list[Count]:
        """Count records by one of GROUPINGS, the most frequent value first.

        Only those that were not scheduled have a plugin, blocker or code. A record of
        several servers counts for each of their hosts.
        """
        return counts_of(by, [self.tally(by, criteria)])

    def tally(self, by: str, criteria: Criteria) -> Tally:
        """Return numbers of records by value and reason, of which counts are made."""
        condition, values = criteria.where()
        statement = GROUPINGS[by].statement(condition)
        found = self.select(statement, values, criteria.table)
        return tally_of(by, itertools.chain.from_iterable(found))

    def oldest_at(self) -> int | None:
        def ask(connection: sqlite3.Connection, _: int) -> int | None:
            row = connection.execute(
                'SELECT at FROM decisions ORDER BY rowid LIMIT 1'
            ).fetchone()
            return row[0] if row else None

        found = (at for at in self.each(ask, self._numbers()) if at is not None)
        return next(found, None)


def _end(connection: sqlite3.Connection, number: int) -> Mark:
    """Return the place after the newest record of a database."""
    row = connection.execute('SELECT max(rowid) FROM decisions').fetchone()
    return Mark(number, row[0] or 0)


def _record(connection: sqlite3.Connection, rowid: int) -> DecisionRecord | None:
    """Return a record with all that it refers to."""
    row = connection.execute(
        f'SELECT {_COLUMNS} FROM decisions d WHERE d.rowid = ?', (rowid,)
    ).fetchone()
    kept = connection.execute(
        'SELECT body FROM bodies WHERE decision = ?', (rowid,)
    ).fetchone()
    if row is None:
        return None
    if kept is None:
        servers = connection.execute(
            'SELECT uuid, host FROM servers WHERE decision = ? ORDER BY rowid', (rowid,)
        )
        named = [RecordedServer(uuid, host or None) for uuid, host in servers]
        return DecisionRecord(Head(*row), RecordBody(servers=named))
    body = body_of(decode(kept[0]))
    lists = {made.host_list for made in body.whole_decisions}
    return DecisionRecord(
        Head(*row),
        body,
        _values(connection, 'host_lists', 'names', lists),
        _values(connection, 'profiles', 'profile', {body.profile}),
    )


def _values(
    connection: sqlite3.Connection, table: str, column: str, hashes: set[Any]
) -> Mapping[str, Any]:
    statement = f'SELECT hash, {column} FROM {table} WHERE hash = ?'
    found = [connection.execute(statement, (one,)).fetchone() for one in hashes if one]
    return {row[0]: decode(row[1]) for row in found if row}


class DecisionFiles(DecisionReader):
    """The log in a directory; any process may read it beside those that write.

    ``warn`` gets a line about a file that cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        warn: Callable[[str], None] = LOG.warning,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(warn, clock)
        self.directory = directory

    def _numbers(self) -> Sequence[int]:
        try:
            found = files.numbered(self.directory)
        except FileNotFoundError:
            return []
        except OSError as problem:
            self._warn(f'{self.directory} cannot be read: {problem.strerror}')
            return []
        return [file.number for file in found if file.is_database]

    def _likeliest(self, at: int) -> Sequence[int]:
        numbers = list(self._numbers())

        def is_before(number: int) -> bool:
            """Return whether a file was last written before that time."""
            path = self.directory / files.name_of(number)
            try:
                return path.stat().st_mtime < at / 1e6
            except OSError:
                return True

        before = [number for number in numbers if is_before(number)]
        # What is still in a write-ahead log does not show in that time.
        return [n for n in numbers if n not in before] + before[::-1]

    @contextlib.contextmanager
    def _opened(self, number: int) -> Iterator[sqlite3.Connection]:
        path = self.directory / files.name_of(number)
        try:
            with files.opened_to_read(path) as connection:
                yield connection
        except sqlite3.OperationalError:
            path.stat()  # unlinked meanwhile: FileNotFoundError
            raise

    def _name(self, number: int) -> str:
        return str(self.directory / super()._name(number))
