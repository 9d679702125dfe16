# SPDX-License-Identifier: Apache-2.0
"""Writing the decision log: one transaction for a batch of records."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from novasched import errors
from novasched.decisions import files
from novasched.decisions.encoding import EncodedRecord, RecordEncoder
from novasched.decisions.files import BUSY_TIMEOUT_S, HEAD, StoreSettings
from novasched.decisions.record import (
    MADE,
    WAITING,
    Head,
    decode,
    encode,
)
from novasched.decisions.retention import Retention
from novasched.runtime import state_directory
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

FILE_AGE_S = 86400.0
WAITING_FILES = 2
"""Records that wait for a diagnosis are looked for in so many of the newest files."""
MOST_AT_ONCE = 100
"""Records that are completed in one go, of those that wait for a diagnosis."""
CLOSE_S = 2.0
Diagnoses = Mapping[str, Mapping[str, Any] | None]
"""Placement diagnoses by the id of the record; None if there will be none."""
_UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
MOST_VALUES = 999
"""Values that one statement of an old SQLite takes."""
_COMPARED = (
    'decision, server, verdict, cause, detail, ours, nova, known_by, seen_ms, nova_ms, '
    'refused, weighers'
)
_DECISIONS = f'decisions (rowid, {", ".join(HEAD)})'


def insert(
    connection: sqlite3.Connection,
    records: Sequence[EncodedRecord],
    known: frozenset[str] = frozenset(),
) -> None:
    """Insert records that are not there, in a transaction; ``known`` are hashes that
    are there.

    Few statements do it: at each of them other threads may take the interpreter.
    """
    by_id = {record.id: record for record in records}
    marks = ', '.join('?' * len(by_id))
    there = f'SELECT id FROM decisions WHERE id IN ({marks})'
    for (one,) in connection.execute(there, list(by_id)):
        del by_id[one]
    ((last,),) = connection.execute('SELECT ifnull(max(rowid), 0) FROM decisions')
    rows = list(enumerate(by_id.values(), last + 1))
    _insert(connection, _DECISIONS, [(rowid, *record.head) for rowid, record in rows])
    bodies = [(rowid, r.body) for rowid, r in rows if r.body is not None]
    _insert(connection, 'bodies (decision, body)', bodies)
    servers = [(uuid, rowid, host) for rowid, r in rows for uuid, host in r.servers]
    _insert(connection, 'servers (uuid, decision, host)', servers)
    if compared := [(rowid, *each) for rowid, r in rows for each in r.compared]:
        connection.execute(files.COMPARED)
        _insert(connection, f'compared ({_COMPARED})', compared)
    if whole := [(rowid, r.whole) for rowid, r in rows if r.whole is not None]:
        connection.execute(files.WHOLE)
        _insert(connection, 'whole_requests (decision, document)', whole)
    host_lists = {key: names for _, r in rows for key, names in r.host_lists.items()}
    profiles = {key: profile for _, r in rows for key, profile in r.profiles.items()}
    for table, values in (('host_lists', host_lists), ('profiles', profiles)):
        new = [(key, values[key]) for key in values.keys() - known]
        _insert(connection, table, new, 'INSERT OR IGNORE')


def _insert(
    connection: sqlite3.Connection,
    table: str,
    rows: Sequence[Sequence[Any]],
    verb: str = 'INSERT',
) -> None:
    """Insert rows, with the columns that stand behind the name of the table."""
    if not rows:
        return
    most = MOST_VALUES // len(rows[0])
    marks = f'({", ".join("?" * len(rows[0]))})'
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        connection.execute(
            f'{verb} INTO {table} VALUES {", ".join([marks] * len(some))}',
            list(itertools.chain.from_iterable(some)),
        )


def insert_lost(connection: sqlite3.Connection, records: int, now_s: float) -> None:
    connection.execute(files.LOST)
    connection.execute('INSERT INTO lost VALUES (?, ?)', (int(now_s * 1e6), records))


def insert_listened(
    connection: sqlite3.Connection, since_s: float, until_s: float
) -> None:
    """Insert that requests were tapped, or until when since that time."""
    connection.execute(files.LISTENED)
    times = int(since_s * 1e6), int(until_s * 1e6)
    connection.execute('INSERT OR REPLACE INTO listened VALUES (?, ?)', times)


def completed(connection: sqlite3.Connection, diagnoses: Diagnoses) -> set[str]:
    """Put diagnoses into the records that wait for them, or give them up; return the
    ids of those records."""
    done = set()
    for decision, diagnosis in diagnoses.items():
        row = connection.execute(
            'SELECT d.rowid, b.body FROM decisions d JOIN bodies b '
            'ON b.decision = d.rowid WHERE d.id = ? AND d.diagnosis = ?',
            (decision, WAITING),
        ).fetchone()
        if row is None:
            continue
        rowid, body = row
        if diagnosis is not None:
            changed = encode({**decode(body), 'placement': diagnosis})
            connection.execute(
                'UPDATE bodies SET body = ? WHERE decision = ?', (changed, rowid)
            )
        connection.execute(
            'UPDATE decisions SET diagnosis = ? WHERE rowid = ?',
            ('' if diagnosis is None else MADE, rowid),
        )
        done.add(decision)
    return done


def awaiting_diagnosis(connection: sqlite3.Connection) -> Iterator[tuple[Head, Any]]:
    """Yield the heads and bodies that wait for a diagnosis, the newest first,
    MOST_AT_ONCE at most; a body that cannot be decoded is empty."""
    columns = ', '.join(f'd.{name}' for name in HEAD)
    for *head, encoded in connection.execute(
        f'SELECT {columns}, b.body FROM decisions d JOIN bodies b '
        f"ON b.decision = d.rowid WHERE d.diagnosis = '{WAITING}' "
        f'ORDER BY d.rowid DESC LIMIT {MOST_AT_ONCE}'
    ):
        try:
            body = decode(encoded)
        except ValueError:
            body = {}
        yield Head(*head), body


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Lock the database, and commit; or undo all of it."""
    connection.execute('BEGIN IMMEDIATE')
    try:
        yield
        connection.execute('COMMIT')
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute('ROLLBACK')
        raise


@dataclass(frozen=True)
class OpenFile:
    """The file that is written now."""

    number: int
    path: Path
    status: os.stat_result
    connection: sqlite3.Connection

    @classmethod
    def open(cls, path: Path, timeout_s: float) -> OpenFile:
        connection = files.connect(path, timeout_s)
        try:
            return cls(int(path.stem), path, path.stat(), connection)
        except OSError:
            connection.close()
            raise

    def is_there(self) -> bool:
        """Return whether its name still means this file."""
        try:
            return os.path.samestat(self.path.stat(), self.status)
        except OSError:
            return False

    def size(self) -> int:
        """Return the bytes of the database, with those that are not in it yet."""
        (pages,) = self.connection.execute('PRAGMA page_count').fetchone()
        (page_bytes,) = self.connection.execute('PRAGMA page_size').fetchone()
        return int(pages * page_bytes)

    def checkpoint(self) -> None:
        """Put into the database what stands beside it, unless somebody reads."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute('PRAGMA busy_timeout = 0')
            self.connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')

    def begun_at(self) -> int:
        """Return when it was begun, in microseconds since 1970."""
        return int(self.connection.execute('SELECT begun_at FROM file').fetchone()[0])


class DecisionWriter:
    """Writes into the newest file of a directory, beside other workers.

    Every method raises errors.StoreFailed, and may be called from any thread.
    """

    def __init__(
        self,
        directory: Path,
        settings: StoreSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.directory = directory
        self._settings = settings or StoreSettings()
        self._clock = clock
        self._timeout_s = timeout_s
        self._retention = Retention(
            directory, self._settings.max_bytes, self._settings.max_age_s, clock
        )
        self.encoded = RecordEncoder(self._settings.keep)
        self._lock = threading.Lock()
        self._file: OpenFile | None = None
        self._path: Path | None = None  # of what is in use: broken, it is set aside
        self._known: frozenset[str] = frozenset()

    def write_encoded(self, records: Sequence[EncodedRecord], lost: int = 0) -> None:
        """Write records, and how many were lost, in one transaction; those that are
        there already are not written twice."""
        if not records and not lost:
            return
        with self._lock, self._failing():
            while not self._wrote(self._newest(), records, lost):
                pass
            self._retention.look_if_due()

    def _wrote(
        self, file: OpenFile, records: Sequence[EncodedRecord], lost: int
    ) -> bool:
        """Write into a file, unless it is full or another is newer now."""
        with transaction(file.connection):
            is_full = self._is_full(file)
            if records and not is_full:
                insert(file.connection, records, self._known)
            if lost and not is_full:
                insert_lost(file.connection, lost, self._clock.time())
        if is_full:
            file.checkpoint()
            self._begin(file.number)
            self._retention.remove_surplus()
            return False
        for record in records:
            if not record.shared.keys() <= self._known:
                self._known |= record.shared.keys()
        return True

    def write_listened(self, since_s: float, until_s: float) -> None:
        """Write that requests were tapped in this time, or until when since then."""
        with self._lock, self._failing():
            file = self._newest()
            with transaction(file.connection):
                insert_listened(file.connection, since_s, until_s)

    def _is_full(self, file: OpenFile) -> bool:
        age_s = self._clock.time() - file.begun_at() / 1e6
        return age_s > FILE_AGE_S or file.size() >= self._settings.file_bytes

    def _newest(self) -> OpenFile:
        """Return the newest file, open; begin one if there is none for us."""
        state_directory.make(str(self.directory))
        found = files.numbered(self.directory)
        newest = found[-1] if found else None
        file = self._file
        if newest is None or not newest.is_database:
            after = newest.number if newest else 0
            return self._begin(after)
        if file is None or file.number != newest.number or not file.is_there():
            if not files.can_write(newest.path):
                is_own = file is not None and file.is_there()
                return file if file and is_own else self._begin(newest.number)
            file = self._open(newest.path)
            if (version := files.version_of(file.connection)) != files.SCHEMA_VERSION:
                # Not begun in full, or by a later release.
                after = newest.number - (version == 0)
                file = self._begin(after)
        self._path = file.path
        return file

    def _begin(self, after: int) -> OpenFile:
        return self._open(files.begin(self.directory, after, self._clock.time()))

    def _open(self, path: Path) -> OpenFile:
        self._close()
        self._path = path
        self._file = OpenFile.open(path, self._timeout_s)
        return self._file

    def _close(self) -> None:
        file, self._file, self._known = self._file, None, frozenset()
        if file is not None:
            with contextlib.suppress(sqlite3.Error):
                file.connection.close()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Name what fails; set a file aside that cannot be read, and open it again the
        next time."""
        try:
            yield
        except (sqlite3.Error, OSError) as problem:
            self._close()
            text = str(problem)
            code = getattr(problem, 'sqlite_errorcode', 0) & 0xFF
            if code in _UNREADABLE and self._path is not None:
                with contextlib.suppress(OSError):
                    text = f'{text}; kept as {files.set_aside(self._path)}'
                self._path = None
            store = f'the decision log in {self.directory}'
            raise errors.StoreFailed(store, text) from problem

    def waiting(self) -> list[tuple[Head, Any]]:
        """Return the heads and bodies of some records that wait for a diagnosis, the
        newest first."""
        found: list[tuple[Head, Any]] = []
        with self._lock, self._failing():
            for path in self._newest_databases():
                self._path = path
                with files.opened_to_read(path) as connection:
                    found += awaiting_diagnosis(connection)
        return found[:MOST_AT_ONCE]

    def complete(self, diagnoses: Diagnoses) -> set[str]:
        """Put diagnoses into records that wait, in one transaction for each file, or
        give them up; return the ids of those that waited."""
        done: set[str] = set()
        if not diagnoses:
            return done
        with self._lock, self._failing():
            for path in self._newest_databases():
                self._path = path
                with (
                    contextlib.closing(
                        files.connect(path, self._timeout_s)
                    ) as connection,
                    transaction(connection),
                ):
                    done |= completed(connection, diagnoses)
        return done

    def _newest_databases(self) -> list[Path]:
        """Return the files with records that may wait, the newest first."""
        if not self.directory.exists():  # nothing has been written
            return []
        found = [each for each in files.numbered(self.directory) if each.is_database]
        return [each.path for each in reversed(found[-WAITING_FILES:])]

    def close(self) -> None:
        """Close the file, unless a write hangs: the process does not wait for it."""
        if self._lock.acquire(timeout=CLOSE_S):
            try:
                self._close()
            finally:
                self._lock.release()
