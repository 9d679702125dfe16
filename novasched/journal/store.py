# SPDX-License-Identifier: Apache-2.0
"""The journal of one worker: files that it writes in a directory, and locks as long as
it lives.

A line is one byte for the state of a claim, then its intent as JSON with a checksum.
The state is overwritten in place, which needs no room on the disk, and is never half
done. Nothing waits for the disk. What a process wrote before it was killed is there.
What a machine wrote in the half minute before it lost its power may not be.

The lock ends with the worker, however it ends: a process that locks a file of another
worker takes it over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import re
import socket
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from oslo_config import cfg

from novasched.parsing import parse_json
from novasched.ports import Intent
from novasched.runtime import state_directory
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

DIRECTORY_OPTION = 'journal_dir'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            DIRECTORY_OPTION,
            sample_default='$state_path/novasched',
            help="""
Directory in which workers write down their claims until they have answered.

A killed worker leaves its unanswered claims there. They are undone at the next start,
or within seconds by another worker of this machine. The directory must be on this
machine. All workers of all schedulers on it may share the directory. Unset, it is
``novasched`` in ``[DEFAULT] state_path``. If that is unset, too, or cannot be written,
the first writable directory of these is used:

* the directories in ``$STATE_DIRECTORY``, which systemd sets for ``StateDirectory=``
* for root ``/var/lib/novasched``
* ``novasched`` in ``$XDG_STATE_HOME``, or in ``~/.local/state``

A warning is logged at the start if the option could not be followed. So it is if no
directory can be written: then there is no journal.
""",
        ),
    ],
}

MESSAGES = state_directory.Messages(
    nowhere='There is no journal of claims, so the claims of a killed worker will not '
    'be undone. Set [DEFAULT] state_path or [novasched] journal_dir to a directory '
    'that the user of the service can write. Tried: %s',
    instead='The journal of claims is in %s, as what is set cannot be written by the '
    'user of the service. Tried: %s',
    not_now='The journal of claims in %s cannot be written now, what a killed worker '
    'has claimed may stay: %s',
)

OPEN, ANSWERING, SETTLED = b'o', b'a', b's'
ROUNDED_S = 0.01
SUFFIX = '.journal'
ASIDE = '.odd'
"""Follows the suffix of a file that could not be read in full."""
FULL_AT = 256 * 1024
"""A file of so many bytes is followed by a new one, and removed when nothing in it is
open."""
READ_AT_MOST = 4 * 1024 * 1024
"""Many times what a worker writes into one file."""
UNWRITABLE = (
    'The journal of claims in %s cannot be written, what a killed worker has claimed '
    'may stay: %s'
)
_BOOT_ID = Path('/proc/sys/kernel/random/boot_id')
_CLOSED = -1
_UNKNOWN = 'unknown'
_PARTS = 4
_CHECKSUM = b', "checksum": '
_UUID = re.compile('[0-9A-Za-z-]+')
"""Of consumers and providers, which become part of a URL, and of a command."""
_INTENT = [field.name for field in dataclasses.fields(Intent)]


class Moment(NamedTuple):
    """A time that no clock's change can shift: seconds since a start of the machine.

    ``boot_id`` is None where the start is not known.
    """

    boot_id: str | None
    uptime_s: float

    def since(self, earlier: Moment) -> float | None:
        """Return the seconds between two moments; None if they are of two boots, or if
        a container has a clock of its own."""
        if self.boot_id is None or self.boot_id != earlier.boot_id:
            return None
        seconds = self.uptime_s - earlier.uptime_s
        return None if seconds < -ROUNDED_S else seconds


def name_of_this_boot(path: Path = _BOOT_ID) -> str | None:
    """Return the id of this start of the machine, the same in all its containers."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def clock_of_this_boot(path: Path = _BOOT_ID) -> Callable[[], Moment]:
    """Return a function that reads both clocks."""
    boot_id = name_of_this_boot(path)
    return lambda: Moment(boot_id, time.clock_gettime(time.CLOCK_BOOTTIME))


@dataclass(frozen=True)
class Record:
    """An intent, when it was written, and where its state is in the file."""

    intent: Intent
    written: Moment
    state: bytes = OPEN
    offset: int = 0

    def line(self) -> bytes:
        """Return the line to write; the checksum is of all JSON before it."""
        fields = {**vars(self.intent), 'boot': self.written.boot_id}
        fields['uptime'] = round(self.written.uptime_s, 3)
        body = json.dumps(fields).encode()[:-1]
        return b'%b%b%b%d}\n' % (self.state, body, _CHECKSUM, zlib.crc32(body))

    @classmethod
    def from_line(cls, line: bytes, offset: int) -> Self:
        """Read a line in full; fields of a newer version are ignored.

        Raises ValueError, KeyError or TypeError for a line that was not written so.
        """
        state, (body, _, checksum) = line[:1], line[1:].rpartition(_CHECKSUM)
        if checksum != b'%d}' % zlib.crc32(body):
            raise ValueError('not whole, or of an older version')
        if state not in (OPEN, ANSWERING, SETTLED):
            raise ValueError('a state of another version')
        fields = parse_json(body + b'}')
        fields.setdefault('made_within_s', None)  # not in lines of older versions
        intent = Intent(**{name: fields[name] for name in _INTENT})
        if not all(map(_UUID.fullmatch, [intent.consumer_uuid, *intent.allocations])):
            raise ValueError('no uuid')
        return cls(intent, Moment(fields['boot'], fields['uptime']), state, offset)

    def holds(self) -> dict[str, dict[str, int]]:
        """Return the allocations of the consumer once claimed: what it held already
        stays as it is."""
        held = {name: dict(part['resources']) for name, part in self._before().items()}
        wanted = self.intent.allocations
        return {**{name: dict(part) for name, part in wanted.items()}, **held}

    def added(self) -> list[str]:
        """Return the providers of which the consumer held nothing before."""
        return sorted(set(self.intent.allocations) - set(self._before()))

    def _before(self) -> Mapping[str, Any]:
        before: Mapping[str, Any] = (self.intent.before or {}).get('allocations', {})
        return before


class Content(NamedTuple):
    """The lines of a file; ``odd`` is the number of those that cannot be read."""

    records: list[Record]
    odd: int


def parse(content: bytes) -> Content:
    """Read the lines of a file.

    A last line without an end was never acted upon, nor must a settled one be.
    """
    records, odd, offset = [], 0, 0
    for line in content.split(b'\n')[:-1]:
        try:
            records.append(Record.from_line(line, offset))
        except (ValueError, KeyError, TypeError):
            odd += line[:1] != SETTLED
        offset += len(line) + 1
    return Content(records, odd)


def _prefix() -> str:
    """A directory that machines share holds the files of each."""
    boot = (name_of_this_boot() or _UNKNOWN).replace('-', '')
    return f'claims-{socket.gethostname()}-{boot}-'


def _is_ours(name: str) -> bool:
    """Return whether a file is of this machine: a new container has
    another host name, a restarted machine another boot id."""
    if not name.endswith(SUFFIX) or name.count('-') < _PARTS - 1:
        return False
    host, boot, _ = name.rsplit('-', 2)
    our_host, our_boot, _ = _prefix().rsplit('-', 2)
    return host == our_host or boot == our_boot != _UNKNOWN


def _lock(path: str, descriptor: int) -> bool:
    """Lock a file, unless somebody has, or has removed it; else close it."""
    locked = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked = os.path.samestat(os.stat(path), os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not locked:
            os.close(descriptor)
    return locked


class File:
    """One file, which is ours. Every method may raise OSError.

    ``open`` counts the records that are not settled; ``end`` is where the next goes.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.open = 0
        self.end = 0
        self._descriptor = descriptor

    @classmethod
    def create(cls, directory: str, lock: Callable[[str, int], bool] = _lock) -> Self:
        """Make a file, and the directory if there is none."""
        state_directory.make(directory)
        while True:
            descriptor, path = tempfile.mkstemp(SUFFIX, _prefix(), directory)
            try:
                # Another one may have taken it over before it was locked.
                if lock(path, descriptor):
                    return cls(path, descriptor)
            except OSError:
                os.unlink(path)
                raise

    def write(self, line: bytes) -> int:
        """Write a line; return where it begins. None of it counts if it fails."""
        done = os.pwrite(self._descriptor, line, self.end)
        if done < len(line):
            raise OSError(f'{self.path}: only {done} of {len(line)} bytes were written')
        begins, self.end = self.end, self.end + done
        self.open += 1
        return begins

    def mark(self, offset: int, state: bytes) -> None:
        if os.pwrite(self._descriptor, state, offset) != len(state):
            raise OSError(f'{self.path}: nothing was written')
        if state == SETTLED:
            self.open -= 1

    def content(self) -> Content:
        """Return its lines; what goes beyond all size is one odd line."""
        found = parse(os.pread(self._descriptor, READ_AT_MOST, 0))
        beyond = os.fstat(self._descriptor).st_size > READ_AT_MOST
        return found._replace(odd=found.odd + beyond)

    def remove(self) -> None:
        """Remove the file, then release its lock: it must not be found unlocked."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.close()

    def set_aside(self) -> str:
        """Rename the file, so that no worker takes it over; return its new path."""
        path = self.path + ASIDE
        os.rename(self.path, path)
        self.close()
        return path

    def close(self) -> None:
        """Release the lock: another worker may take the file over."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)


def abandoned(
    directory: str, complain: Callable[[str, OSError], None]
) -> Iterator[File]:
    """Yield the files whose workers are no more; each is ours until the next.

    ``complain`` gets the path of what cannot be read; the others are yielded.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except OSError as problem:
        complain(directory, problem)
        return
    for name in filter(_is_ours, names):
        path = os.path.join(directory, name)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            is_locked = _lock(path, descriptor)
        except (FileNotFoundError, PermissionError):  # gone, or another user's
            continue
        except OSError as problem:
            complain(path, problem)
            continue
        if is_locked:
            with contextlib.closing(File(path, descriptor)) as file:
                yield file


class FileJournal:
    """Writes intents into a file of its own in a directory. Satisfies ports.Journal.

    Threads may share it. While nothing can be written, claims are made without.
    """

    def __init__(
        self, directory: str, clock: Callable[[], Moment] | None = None
    ) -> None:
        self.directory = directory
        self.now = clock or clock_of_this_boot()
        self._lock = threading.Lock()
        self._file: File | None = None
        self._claiming: dict[tuple[int, str], FileEntry] = {}
        self._failing = LogOnce()
        self._doomed: list[File] = []
        self._to_undo: dict[int, FileEntry] = {}
        self._is_closed = False

    def intend(self, intents: Sequence[Intent]) -> Sequence[FileEntry]:
        now, thread = self.now(), threading.get_ident()
        with self._lock:
            self._remove_doomed()
            entries = [
                FileEntry(self, Record(intent, now), thread) for intent in intents
            ]
            for entry in entries:
                self._write(entry)
                self._claiming[entry.key] = entry
        return entries

    def held(
        self,
        consumer_uuid: str,
        before: Mapping[str, Any] | None,
        generation: int | None,
    ) -> None:
        """Add what a consumer holds already to what this thread claims for it."""
        with self._lock:
            entry = self._claiming.get((threading.get_ident(), consumer_uuid))
            if entry is None:
                return
            known = entry.record.intent
            intent = dataclasses.replace(known, before=before, generation=generation)
            if intent == known:
                return
            # Both are open for a moment; only one can be what the consumer holds.
            record, file = entry.record, entry.file
            entry.record = Record(intent, record.written)
            self._write(entry)
            self._mark(file, record.offset, SETTLED)

    def to_undo(self) -> Sequence[FileEntry]:
        """Return the entries that living requests have left to recovery."""
        with self._lock:
            return list(self._to_undo.values())

    def close(self) -> None:
        """Remove the file if nothing in it is open.

        Otherwise it is ours until all requests have ended, and then another journal's.
        """
        with self._lock:
            self._is_closed = True
            self._remove_doomed()
            self._release()
            file = self._file
            if file is None or file.open:
                return
            self._file = None
            try:
                file.remove()
            except OSError as problem:
                self._tell(problem)

    def _release(self) -> None:
        """Once closed, leave files in which nothing but claims to be undone is open to
        the recovery of another journal, of this process or another."""
        if not self._is_closed:
            return
        left: dict[File, list[int]] = {}
        for key, entry in self._to_undo.items():
            if entry.file is not None:
                left.setdefault(entry.file, []).append(key)
        for file, keys in left.items():
            if file.open == len(keys):
                for key in keys:
                    self._to_undo.pop(key).file = None
                if file is self._file:
                    self._file = None
                file.close()

    def _is_made(self, entry: FileEntry) -> None:
        """A claim is not under way any more; another one for the same consumer may be,
        of the same thread."""
        if self._claiming.get(entry.key) is entry:
            del self._claiming[entry.key]

    def end(self, entry: FileEntry, state: bytes | None) -> None:
        """Write down the state of an entry after its claim; None leaves it open."""
        with self._lock:
            self._is_made(entry)
            self._to_undo.pop(id(entry), None)
            if state is not None:
                self._mark(entry.file, entry.record.offset, state)
            self._release()

    def undo_later(self, entry: FileEntry, made_s_ago: float) -> None:
        """Keep an entry for recovery, until that settles it."""
        with self._lock:
            self._is_made(entry)
            elapsed_s = self.now().since(entry.record.written) or 0.0
            made_within_s = max(0.0, elapsed_s - made_s_ago)
            record, file = entry.record, entry.file
            intent = dataclasses.replace(record.intent, made_within_s=made_within_s)
            entry.record = Record(intent, record.written)
            self._write(entry)
            if entry.file is not None:
                self._mark(file, record.offset, SETTLED)
            else:  # the line that there is says enough
                entry.record = dataclasses.replace(entry.record, offset=record.offset)
                entry.file = file
            self._to_undo[id(entry)] = entry
            self._release()

    def _write(self, entry: FileEntry) -> None:
        entry.file = None
        try:
            if self._file is None:
                self._file = File.create(self.directory)
            offset = self._file.write(entry.record.line())
        except OSError as problem:
            self._tell(problem)
            return
        self._failing.ends()
        entry.file = self._file
        entry.record = dataclasses.replace(entry.record, offset=offset)
        if self._file.end > FULL_AT:
            self._file = None

    def _mark(self, file: File | None, offset: int, state: bytes) -> None:
        """Write down a state. A file that does not take it must not be acted upon."""
        if file is None:
            return
        try:
            file.mark(offset, state)
            if self._is_closed and file is self._file and not file.open:
                self._file = None
            if file is not self._file and not file.open:
                file.remove()
        except OSError as problem:
            self._tell(problem)
            if file is self._file:
                self._file = None
            if file not in self._doomed:
                self._doomed.append(file)
                self._remove_doomed(LOG.error)

    def _remove_doomed(self, tell: Callable[..., None] = LOG.debug) -> None:
        """Remove files that must not be acted upon, as soon as the disk lets us."""
        while self._doomed:
            file = self._doomed[-1]
            try:
                file.remove()
            except OSError as problem:
                tell(
                    'Remove %s before this process ends, unless it does so itself: it '
                    'may name claims as unanswered that were answered: %s',
                    file.path,
                    problem,
                )
                return
            self._doomed.pop()

    def _tell(self, problem: OSError) -> None:
        if self._failing.begins():
            LOG.warning(UNWRITABLE, self.directory, problem)


@dataclass(eq=False)
class FileEntry:
    """One line of a file, or of none. Satisfies ports.Entry."""

    journal: FileJournal
    record: Record
    thread: int
    file: File | None = None

    @property
    def key(self) -> tuple[int, str]:
        """The thread that claims, and for which consumer."""
        return self.thread, self.record.intent.consumer_uuid

    def settle(self) -> None:
        self.journal.end(self, SETTLED)

    def answering(self) -> None:
        self.journal.end(self, ANSWERING)

    def leave(self) -> None:
        self.journal.end(self, None)

    def undo_later(self, made_s_ago: float) -> None:
        self.journal.undo_later(self, made_s_ago)


def make_directory(path: str) -> None:
    """Make a directory, unless there is one, and try to write there; raise OSError."""
    File.create(path).remove()


def directory_from_conf(
    conf: cfg.ConfigOpts, makes: bool = False
) -> state_directory.Directory:
    """Choose the directory for this process and its user."""
    found = state_directory.candidates(
        conf, DIRECTORY_OPTION, os.environ, os.geteuid() == 0
    )
    return state_directory.choose(found, make_directory, MESSAGES, makes)
