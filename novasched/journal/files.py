# SPDX-License-Identifier: Apache-2.0
"""The files of the journal, each locked by the worker that writes it.

The lock ends with the worker, however it ends: a process that locks a file of another
worker takes it over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from typing import Self

from novasched.journal.records import SETTLED, Content, name_of_this_boot, parse

SUFFIX = '.journal'
ASIDE = '.odd'
"""Follows the suffix of a file that could not be read in full."""
READ_AT_MOST = 4 * 1024 * 1024
"""Several times what a worker writes into one file."""
_CLOSED = -1
_UNKNOWN = 'unknown'
_PARTS = 4


def _prefix() -> str:
    """A directory that machines share holds the files of each."""
    boot = (name_of_this_boot() or _UNKNOWN).replace('-', '')
    return f'claims-{socket.gethostname()}-{boot}-'


def _is_ours(name: str) -> bool:
    """Say whether a file is of this machine: a new container has
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
        locked = False
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
        os.makedirs(directory, mode=0o700, exist_ok=True)
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
        """Overwrite the state of a line."""
        if os.pwrite(self._descriptor, state, offset) != len(state):
            raise OSError(f'{self.path}: nothing was written')
        if state == SETTLED:
            self.open -= 1

    def content(self) -> Content:
        """Return what stands in it; what goes beyond all size is one odd line."""
        found = parse(os.pread(self._descriptor, READ_AT_MOST, 0))
        beyond = os.fstat(self._descriptor).st_size > READ_AT_MOST
        return found._replace(odd=found.odd + beyond)

    def cut(self) -> None:
        """Forget all that stands in it."""
        os.ftruncate(self._descriptor, 0)
        self.end = self.open = 0

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
            file = _take(path)
        except OSError as problem:
            complain(path, problem)
            continue
        if file is not None:
            try:
                yield file
            finally:
                file.close()


def _take(path: str) -> File | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):  # gone, or another user's
        return None
    return File(path, descriptor) if _lock(path, descriptor) else None
