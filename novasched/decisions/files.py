# SPDX-License-Identifier: Apache-2.0
"""The files of the decision log: where they are, their numbers, and what is in one.

A file is an SQLite database in WAL mode. All workers of a machine write into the one
with the highest number; the others are only read, and unlinked in the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from oslo_config import cfg

from novasched import errors
from novasched.decisions.record import Head
from novasched.runtime import state_directory

OPTION = 'decisions_dir'
BELOW = 'decisions'
ALL, FAILED, NONE = 'all', 'failed', 'none'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            OPTION,
            sample_default='$state_path/novasched/decisions',
            help="""
Directory of the decision log: a record of every request, for ``novasched explain`` and
``novasched decisions``.

It must be on this machine; all its workers write there. Unset, it is ``decisions`` in
the directory that ``[novasched] journal_dir`` would be by default. A warning is logged
at the start if the option could not be followed. So it is if no directory can be
written: then the last 1,000 records stay in memory.
""",
        ),
        cfg.IntOpt(
            'decisions_max_mb',
            default=512,
            min=64,
            help="""
Size of the decision log, in MiB, above which its oldest file is removed.

A record takes 2 to 4 KiB. A file is an eighth of this, and at most 64 MiB.
""",
        ),
        cfg.IntOpt(
            'decisions_max_days',
            default=14,
            min=1,
            help="""
Days after which a file of the decision log is removed.

They are counted from the last record in it. Nothing is removed because the clock of the
machine was set.
""",
        ),
        cfg.StrOpt(
            'decisions_keep',
            default=ALL,
            choices=[
                (ALL, 'every record in full'),
                (
                    FAILED,
                    'requests that were not scheduled in full; of the others what '
                    'lists show, and their servers and hosts',
                ),
                (NONE, 'nothing'),
            ],
            help="""
Records that the decision log keeps.

With ``failed`` and ``none`` the metric ``novasched_hosts_rejected_total`` counts only
requests that were not scheduled, as filters are not asked for the reasons of others.
""",
        ),
    ],
}
"""[DEFAULT] state_path is read, too: novasched.runtime.state_directory has it."""

MESSAGES = state_directory.Messages(
    nowhere='There is no directory for the decision log: the last 1,000 records of '
    'each worker are kept in memory, and lost with it. Set [DEFAULT] state_path or '
    '[novasched] decisions_dir to a directory that the user of the service can write. '
    'Tried: %s',
    instead='The decision log is in %s, as what is set cannot be written by the user '
    'of the service. Tried: %s',
    not_now='The decision log in %s cannot be written now: %s',
)

SCHEMA_VERSION = 1
FILE_BYTES = 64 << 20
LOG_BYTES = 4 << 20
"""Bytes that the write-ahead log of a file keeps when it begins again."""
BUSY_TIMEOUT_S = 1.0
_POLL_S = 0.005
SUFFIX = '.sqlite'
BROKEN = '.broken'
_NAME = re.compile(r'(\d{6,})\.sqlite(.*)')
_OF_DATABASE = ('', '-wal', '-shm')

HEAD = tuple(field.name for field in fields(Head))
_COLUMNS = ', '.join(
    f'"{field.name}" {"INTEGER" if field.type == "int" else "TEXT"} NOT NULL'
    for field in fields(Head)
)
SCHEMA = (
    f'CREATE TABLE decisions (rowid INTEGER PRIMARY KEY, {_COLUMNS})',
    'CREATE TABLE bodies (decision INTEGER PRIMARY KEY, body BLOB NOT NULL)',
    'CREATE TABLE servers '
    '(uuid TEXT NOT NULL, decision INTEGER NOT NULL, host TEXT NOT NULL)',
    'CREATE TABLE host_lists (hash TEXT PRIMARY KEY, names BLOB NOT NULL)',
    'CREATE TABLE profiles (hash TEXT PRIMARY KEY, profile BLOB NOT NULL)',
    'CREATE TABLE file (begun_at INTEGER NOT NULL)',
    'CREATE INDEX decisions_at ON decisions (at)',
    'CREATE UNIQUE INDEX decisions_id ON decisions (id)',
    'CREATE INDEX decisions_request ON decisions (request_id)',
    'CREATE INDEX decisions_global_request ON decisions (global_request_id)',
    'CREATE INDEX decisions_project ON decisions (project_id, at)',
    'CREATE INDEX decisions_result ON decisions (result, at)',
    'CREATE INDEX decisions_waiting ON decisions (diagnosis) '
    "WHERE diagnosis = 'waiting'",
    'CREATE INDEX servers_uuid ON servers (uuid)',
    'CREATE INDEX servers_host ON servers (host, decision)',
    f'PRAGMA user_version = {SCHEMA_VERSION}',
)

LOST = 'CREATE TABLE IF NOT EXISTS lost (at INTEGER NOT NULL, records INTEGER NOT NULL)'
"""Made where records were lost: how many, and when that was written."""
COMPARED = (
    'CREATE TABLE IF NOT EXISTS compared (decision INTEGER NOT NULL, '
    'server TEXT NOT NULL, verdict TEXT NOT NULL, cause TEXT NOT NULL, '
    'detail TEXT NOT NULL, ours TEXT, nova TEXT, known_by TEXT NOT NULL, '
    'seen_ms INTEGER NOT NULL, nova_ms INTEGER, refused TEXT NOT NULL, '
    'weighers TEXT NOT NULL)'
)
"""Made by shadows: by server, what was decided and what nova chose."""
WHOLE = (
    'CREATE TABLE IF NOT EXISTS whole_requests (decision INTEGER PRIMARY KEY, '
    'document BLOB NOT NULL)'
)
"""Made by shadows: requests that are kept whole, as history.encoded() makes them."""
LISTENED = (
    'CREATE TABLE IF NOT EXISTS listened (since INTEGER PRIMARY KEY, '
    'until INTEGER NOT NULL)'
)
"""Made by shadows: the times, in us since 1970, in which requests were tapped."""


@dataclass(frozen=True)
class StoreSettings:
    """Settings of the operator; ``file_bytes`` is the size at which a file is
    full."""

    keep: str = ALL
    max_bytes: int = 512 << 20
    max_age_s: float = 14 * 86400.0
    file_bytes: int = FILE_BYTES

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> StoreSettings:
        own = conf.novasched
        max_bytes = own.decisions_max_mb << 20
        return cls(
            own.decisions_keep,
            max_bytes,
            own.decisions_max_days * 86400.0,
            min(FILE_BYTES, max_bytes // 8),
        )


def make(path: str) -> None:
    """Make a directory, unless there is one, and try to write there; raise OSError."""
    state_directory.make(path)
    with tempfile.TemporaryFile(dir=path) as file:
        file.write(b'-')


def _candidates(conf: cfg.ConfigOpts) -> list[state_directory.Candidate]:
    is_root = os.geteuid() == 0
    return state_directory.candidates(conf, OPTION, os.environ, is_root, BELOW)


def from_conf(conf: cfg.ConfigOpts, makes: bool = False) -> state_directory.Directory:
    """Choose the directory in which this process writes."""
    return state_directory.choose(_candidates(conf), make, MESSAGES, makes)


def existing(conf: cfg.ConfigOpts) -> Path:
    """Return the directory that a scheduler of this machine writes.

    Raises errors.OptionError where there is none, or it is not for this user.
    """
    found = [path for path, _ in _candidates(conf)]
    service = Path(state_directory.ROOTS_DIRECTORY, BELOW)  # as our unit file has it
    paths = [Path(path) for path in found] + [service]
    for path in paths:
        try:
            if numbered(path):
                return path
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as problem:
            raise errors.OptionError(
                f'[novasched] {OPTION}',
                f'{path} cannot be read: {problem.strerror}',
                'Run this as root, or as the user of the service',
            ) from problem
    raise errors.OptionError(
        f'[novasched] {OPTION}',
        'there are no records of decisions on this machine; looked into '
        f'{", ".join(dict.fromkeys(map(str, paths)))}',
        'Run this where novasched-scheduler runs, with the --config-file that it has',
    )


@dataclass(frozen=True)
class NumberedFile:
    """A file of the log by its number, with what SQLite keeps beside it.

    ``is_database`` is not so of one that was set aside as broken, nor of remains.
    """

    number: int
    paths: tuple[Path, ...]
    is_database: bool

    @property
    def path(self) -> Path:
        return self.paths[0]


def numbered(directory: Path) -> list[NumberedFile]:
    """Return the files of a log, the oldest first. Raises OSError."""
    names: dict[int, list[str]] = {}
    for name in sorted(os.listdir(directory)):
        if found := _NAME.fullmatch(name):
            names.setdefault(int(found[1]), []).append(name)
    return [
        NumberedFile(
            number,
            tuple(directory / name for name in of_number),
            of_number[0] == name_of(number),
        )
        for number, of_number in sorted(names.items())
    ]


def name_of(number: int) -> str:
    return f'{number:06}{SUFFIX}'


def connect(path: Path, timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Open a file to write; it must be there. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f'{path.absolute().as_uri()}?mode=rw',
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute('PRAGMA synchronous = NORMAL')
        connection.execute(f'PRAGMA journal_size_limit = {LOG_BYTES}')
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def opened_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file to read, beside its writers. Raises sqlite3.Error.

    On a read-only disk no process can make the files that SQLite wants beside it.
    """
    uri, is_used = path.absolute().as_uri(), Path(f'{path}-wal').exists()
    can_write = os.access(path.parent, os.W_OK)
    mode = 'mode=ro' if is_used or can_write else 'immutable=1'
    with contextlib.closing(
        sqlite3.connect(f'{uri}?{mode}', uri=True, timeout=BUSY_TIMEOUT_S)
    ) as connection:
        yield connection


def create_tables(connection: sqlite3.Connection, now_s: float) -> None:
    """Make the tables of a new file in one transaction."""
    connection.execute('BEGIN IMMEDIATE')
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute('INSERT INTO file VALUES (?)', (int(now_s * 1e6),))
    connection.execute('COMMIT')


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other processes from beginning a file; wait for one that does.

    Raises OSError after BUSY_TIMEOUT_S.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for is_last in [False] * int(BUSY_TIMEOUT_S / _POLL_S) + [True]:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_last:
                    raise
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def can_write(path: Path) -> bool:
    """Return whether this user may write a file."""
    return os.access(path, os.R_OK | os.W_OK, effective_ids=True)


def begin(directory: Path, after: int, now_s: float) -> Path:
    """Begin the file that follows a number, unless another process has.

    Return the path of the newest that this user may write, which another process may
    have begun. Raises OSError and sqlite3.Error.
    """
    with _locked(directory):
        files = numbered(directory)
        newest = files[-1].number if files else 0
        if newest > after and files[-1].is_database and can_write(files[-1].path):
            path = files[-1].path
        else:
            path = directory / name_of(newest + 1)
            flags = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(path, flags, 0o600))
        with contextlib.closing(connect(path)) as connection:
            # Who began it may have been killed.
            if version_of(connection) == 0:
                connection.execute('PRAGMA journal_mode = WAL')
                create_tables(connection, now_s)
    return path


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0: there are none yet."""
    version: int = connection.execute('PRAGMA user_version').fetchone()[0]
    return version


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a file has a table that is made only where it is needed."""
    there = 'SELECT count(*) FROM sqlite_master WHERE name = ?'
    return bool(connection.execute(there, (name,)).fetchone()[0])


def of_decisions(connection: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows belong to decisions, as far as they are there."""
    tables = ('bodies', 'servers', 'compared', 'whole_requests')
    return [table for table in tables if has_table(connection, table)]


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be read, unless another process has; return its new
    path. Raises OSError."""
    aside = Path(f'{path}{BROKEN}')
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
    for end in _OF_DATABASE[1:]:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f'{path}{end}', f'{aside}{end}')
    return aside
