# SPDX-License-Identifier: Apache-2.0
"""Files of a history: each worker writes its own, one after the other.

A file is a gzip stream of JSON lines. After each batch all of it can be read, so that a
killed worker loses at most what it had not written. The file in use is locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from oslo_config import cfg

from novasched.runtime import state_directory
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'history_dir',
            help="""
Directory of a history: every request with all that its decision is made of, for
``novasched lab``. Unset, none is recorded.

It must be on this machine; all its workers write there, each a file of its own. Files
have names of hosts, projects and users. No request waits for the history. Requests are
missing in it while the directory cannot be written, and if too many come at once; it
says how many.
""",
        ),
        cfg.IntOpt(
            'history_max_mb',
            default=2048,
            min=64,
            help="""
Size of the history, in MiB, above which its oldest file is removed.

A file is a 32nd of this, and at most 64 MiB. A file in use is never removed.
""",
        ),
    ],
}

SUFFIX = '.jsonl.gz'
GZIP = 31
"""The window size by which zlib reads and writes gzip."""
FILE_BYTES = 64 << 20
FILES = 32
RETRY_S = 5.0


class Chunk(NamedTuple):
    """Whole lines that are written together; ``begins`` a file."""

    text: bytes
    begins: bool = False
    requests: int = 0


@dataclass(frozen=True)
class HistorySettings:
    """Settings of the operator.

    ``file_bytes`` is the size at which a file is full. While ``waiting_bytes`` of lines
    wait to be written, no more are made.
    """

    directory: Path
    max_bytes: int = 2048 << 20
    file_bytes: int = FILE_BYTES
    waiting_bytes: int = 16 << 20

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> HistorySettings | None:
        """Return None if no history is recorded."""
        if not conf.novasched.history_dir:
            return None
        max_bytes = conf.novasched.history_max_mb << 20
        directory = Path(conf.novasched.history_dir)
        return cls(directory, max_bytes, min(FILE_BYTES, max_bytes // FILES))


class _StreamFile:
    """The file that is written now; every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        self._file: BinaryIO = os.fdopen(os.open(path, flags, 0o600), 'wb')
        fcntl.flock(self._file, fcntl.LOCK_EX)  # others look for a moment at most
        self._compressor = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=GZIP)

    def write(self, text: bytes) -> None:
        self._file.write(self._compressor.compress(text))

    def sync(self) -> int:
        """Let all that was written be read; return the size of the file."""
        self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        with contextlib.closing(self._file):
            self._file.write(self._compressor.flush())
            self._file.flush()


class HistoryWriter:
    """Writes the chunks of one worker. Any thread may call put(); flush() and close(),
    one at a time.

    ``count`` gets an outcome and a number of requests. After a failure all that waits
    is dropped: ``is_broken`` says that the next chunk must begin a file.
    """

    def __init__(
        self,
        settings: HistorySettings,
        stream: str,
        count: Callable[[str, int], None] = lambda outcome, requests: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings = settings
        self._stream = stream
        self._count = count
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[Chunk] = deque()
        self._bytes = 0
        self._file: _StreamFile | None = None
        self._number = 0
        self._unsynced = 0  # requests that are written, and cannot be read yet
        self._dropped = 0
        self._retry_at = float('-inf')
        self._logged = LogOnce()
        self._size = 0
        self.is_broken = True
        self.problem: OSError | None = None
        """Why nothing is written, for the health check."""

    @property
    def is_full(self) -> bool:
        """The file has its size: the next chunk should begin another one."""
        return self._size >= self._settings.file_bytes

    @property
    def may_write(self) -> bool:
        """Whether a chunk may be put: not so for RETRY_S after a failure, and while too
        much waits."""
        if self.problem is not None and self._clock.monotonic() < self._retry_at:
            return False
        return self._bytes < self._settings.waiting_bytes

    def put(self, chunk: Chunk) -> bool:
        """Have a chunk written soon; return False if it had to begin a file."""
        with self._lock:
            if self.is_broken and not chunk.begins:
                return False
            if chunk.begins:
                self.is_broken, self._size = False, 0
            self._waiting.append(chunk)
            self._bytes += len(chunk.text)
            return True

    def drop(self, requests: int) -> None:
        """Count requests that will not be in the history."""
        with self._lock:
            self._dropped += requests
        self._count('dropped', requests)

    def take_dropped(self) -> int:
        """Return how many requests were dropped since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def flush(self) -> None:
        """Write what waits. Raises nothing."""
        if not self._waiting:
            return
        try:
            while self._waiting:
                self._write(self._waiting[0])
                with self._lock:
                    self._bytes -= len(self._waiting.popleft().text)
            self._sync()
        except OSError as problem:
            self._fail(problem)
        else:
            self.problem = None
            if self._logged.ends():
                LOG.info('The history is written again')

    def _write(self, chunk: Chunk) -> None:
        if chunk.begins:
            self._finish()
            self._file = self._begin()
            remove_surplus(self._settings)
        if self._file is not None:
            self._file.write(chunk.text)
            self._unsynced += chunk.requests

    def _begin(self) -> _StreamFile:
        state_directory.make(str(self._settings.directory))
        self._number += 1
        name = f'{self._stream}-{self._number:06}{SUFFIX}'
        return _StreamFile(self._settings.directory / name)

    def _sync(self) -> None:
        if self._file is not None:
            size = self._file.sync()
            with self._lock:
                if not self.is_broken:
                    self._size = size
            self._count('written', self._unsynced)
            self._unsynced = 0

    def _finish(self) -> None:
        """Close the file, with all that was written."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            self._count('written', self._unsynced)
            self._unsynced = 0

    def _fail(self, problem: OSError) -> None:
        """Drop all that waits: what follows would not fit to what is in the file."""
        self.problem = problem
        self._retry_at = self._clock.monotonic() + RETRY_S
        with self._lock:
            lost = self._unsynced + sum(each.requests for each in self._waiting)
            self._waiting.clear()
            self._bytes = self._unsynced = 0
            self.is_broken = True
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        if lost:
            self.drop(lost)
        if self._logged.begins():
            directory = self._settings.directory
            LOG.warning('Cannot write the history in %s: %s', directory, problem)

    def close(self) -> None:
        """Write what waits, and end the file."""
        self.flush()
        try:
            self._finish()
        except OSError as problem:
            self._fail(problem)


def is_in_use(path: Path) -> bool:
    """Return whether a worker writes a file now. Raises OSError."""
    with path.open('rb') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def remove_surplus(settings: HistorySettings) -> None:
    """Remove the oldest files while all would be too large once the files in use are
    full."""
    ended, total = [], 0
    for path in settings.directory.glob(f'*{SUFFIX}'):
        # Another worker removes, too; others have put there what cannot be read.
        with contextlib.suppress(OSError):
            status = path.stat()
            in_use = is_in_use(path)
            total += settings.file_bytes if in_use else status.st_size
            if not in_use:
                ended.append((status.st_mtime, path, status.st_size))
    for _, path, size in sorted(ended):
        if total <= settings.max_bytes:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
