# SPDX-License-Identifier: Apache-2.0
"""One process of a machine reads placement's API, and the others what it has read."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import logging
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from oslo_config import cfg

from novasched import errors, http
from novasched.parsing import parse_json
from novasched.placement_copy import PlacementCopy
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.api_requests import PlainReads
from novasched.providers.contents import Contents
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

NAME, LOCK, WANTED = 'placement-copy-{}.npz', '.lock', '.wanted'
"""Files of one copy: the copy, its lock, and the aggregates that other processes want.

The lock holds when placement was last looked at, and when for silent changes, too; in
seconds since 1970.
"""
FORMAT = 3
ARRAYS = ('providers', 'inventories', 'usage', 'traits', 'aggregates', 'read_at')
NAMES = ('uuids', 'class_names', 'trait_names', 'aggregate_uuids')
ABANDONED_S = 7 * 24 * 3600.0
PAUSE_S = 0.2
"""Between two looks for a file that another process is about to write."""

_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)


class SharedFileReader(PlainReads):
    """Reads placement for all processes of a machine, which share the file ``path``.

    The process with the lock reads the API through ``inner``; the others read the file.
    They write beside it which aggregates they want. If the process ends, the next one
    gets the lock. Satisfies ports.ProviderStore.
    """

    reads_fast = False

    def __init__(
        self,
        inner: ApiReader,
        path: Path,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._inner = inner
        self.trees, self.read_tree = inner.trees, inner.read_tree
        self._path = path
        self._clock = clock
        self._closed = threading.Event()
        self._locking = threading.Lock()
        self._lock: int | None = None
        self._is_reader = self._is_alone = False
        self._contents: Contents | None = None
        self._file: CopyFile | None = None
        self._seen_at = 0.0
        self._thorough_at = 0.0
        self.behind_s = 0.0

    def read(self, hints: CloudHints = NO_HINTS) -> Contents:
        return self._read(self._inner.read, True, hints)

    def read_since(
        self,
        before: Contents,
        include_unversioned: bool,
        recheck: Collection[int] = (),
        hints: CloudHints = NO_HINTS,
    ) -> Contents:
        """Return all there is now, or what the process with the lock has read last."""
        read = functools.partial(
            self._inner.read_since, before, include_unversioned, recheck
        )
        return self._read(read, include_unversioned, hints)

    def close(self) -> None:
        """End a read in another thread before its next request; let go of the lock."""
        self._closed.set()
        self._inner.close()
        with self._locking:
            lock, self._lock, self._is_reader = self._lock, None, False
        if lock is not None:
            os.close(lock)

    def _read(
        self, read: Callable[..., Contents], is_thorough: bool, hints: CloudHints
    ) -> Contents:
        while not self._has_lock():
            found = self._of_file()
            if found is not None:
                self._want({*hints.aggregates()} - (found.members or frozenset()))
                return found
            self._closed.wait(PAUSE_S)
        contents = read(hints=hints.naming(self._wanted()))
        self.behind_s = self._inner.behind_s
        if not self._is_alone:
            self._write(contents, is_thorough)
        return contents

    def _write(self, contents: Contents, is_thorough: bool) -> None:
        as_of = self._clock.time() - self._inner.read_for_s()
        if is_thorough:
            self._thorough_at = as_of
        try:
            if contents is not self._contents:
                self._contents = None
                save(contents, self._path)
                self._contents = contents
            times = f'{as_of:.6f} {self._thorough_at:.6f}'
            self._path.with_suffix(LOCK).write_text(times)
        except OSError as problem:
            LOG.debug('The copy of placement cannot be written: %s', problem)

    def _has_lock(self) -> bool:
        """Take the lock, if no other process has it. Raises errors.StoreFailed after
        ``close()``."""
        with self._locking:
            if self._closed.is_set():
                raise errors.StoreFailed('Placement', 'its reader is closed')
            if self._is_reader:
                return True
            try:
                if self._lock is None:
                    flags = os.O_RDWR | os.O_CREAT
                    self._lock = os.open(self._path.with_suffix(LOCK), flags, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as problem:
                LOG.warning(
                    'This worker reads placement for itself: %s cannot be locked: %s',
                    self._path.with_suffix(LOCK),
                    problem.strerror,
                )
                self._is_alone = True
            self._is_reader = True
            remove_abandoned(self._path, self._clock.time())
            return True

    def _want(self, aggregates: set[str]) -> None:
        """Ask the process that reads for the members of more aggregates."""
        if aggregates and (more := aggregates - self._wanted()):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with contextlib.suppress(OSError):
                file = os.open(self._path.with_suffix(WANTED), flags, 0o600)
                os.write(file, ''.join(f'{each}\n' for each in sorted(more)).encode())
                os.close(file)

    def _wanted(self) -> set[str]:
        """Return the aggregates that other processes want."""
        try:
            return set(self._path.with_suffix(WANTED).read_text().split())
        except (OSError, ValueError):
            return set()

    def _of_file(self) -> Contents | None:
        """Return another process's contents, or None if there are none yet."""
        known = self._file
        found = newest(self._path, known)
        if found is None:
            return None
        if known is None or found.looked_at != known.looked_at:
            self._seen_at = self._clock.monotonic()
        if self._contents is None or known is None or found.mark != known.mark:
            self._inner.know(found.contents)
            before = self._contents
            self._contents = found.contents.like(before) if before else found.contents
        self._file = found
        since_s = self._clock.monotonic() - self._seen_at
        self.behind_s = max(since_s, self._clock.time() - found.looked_at)
        return self._contents


class CopyFile(NamedTuple):
    """What a file said when it was loaded, and what tells it from later ones.

    Generations were as it says at ``looked_at``, all at ``as_of``.
    """

    mark: tuple[int, int]
    contents: Contents
    as_of: float
    looked_at: float


class MachineCopy:
    """The copy of this machine's scheduler, as another process reads its file."""

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = path
        self._clock = clock
        self._file: CopyFile | None = None
        self._copy: PlacementCopy | None = None
        self._copied: CopyFile | None = None  # the file that the copy was made of

    def __call__(self, max_age_s: float) -> PlacementCopy | None:
        """Return the copy, or None if there is none as young."""
        self._file = found = newest(self._path, self._file)
        if found is None:
            return None
        # The time of the machine may have been set since.
        age_s = abs(self._clock.time() - found.as_of)
        if age_s > max_age_s:
            return None
        known = self._copied
        is_known = known is not None and known.contents is found.contents
        if known is None or not is_known or known.as_of != found.as_of:
            try:
                as_of = self._clock.monotonic() - age_s
                self._copy = PlacementCopy.of(found.contents, as_of, self._copy)
            except (errors.StoreFailed, IndexError, KeyError) as problem:
                LOG.debug('%s does not fit together: %r', self._path, problem)
                return None
            self._copied = found
        return self._copy


def path_in(directory: Path, conf: cfg.ConfigOpts) -> Path:
    """Return the file in a directory for the placement of a configuration. Raises
    errors.OptionError for invalid options."""
    group, auth = conf.placement, http.auth_from_conf(conf, 'placement')
    parts = (
        group.endpoint_override,
        group.region_name,
        group.service_type,
        group.service_name,
        group.valid_interfaces,
        *(getattr(auth, name, None) for name in ('auth_url', 'endpoint')),
    )
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return directory / NAME.format(digest[:8])


def remove_abandoned(path: Path, now: float) -> None:
    """Remove the files of other placements that nobody has read for ABANDONED_S."""
    for lock in path.parent.glob(NAME.format('*').replace('.npz', LOCK)):
        with contextlib.suppress(OSError):
            if lock.stem != path.stem and now - lock.stat().st_mtime > ABANDONED_S:
                for suffix in ('.npz', WANTED, LOCK):
                    lock.with_suffix(suffix).unlink(missing_ok=True)


def newest(path: Path, known: CopyFile | None) -> CopyFile | None:
    """Return the current file of the reading process, or None if it cannot be read.

    It is loaded unless it is the ``known`` one.
    """
    try:
        looked_at, as_of = map(float, path.with_suffix(LOCK).read_text().split())
        state = os.stat(path)
        mark = state.st_ino, state.st_mtime_ns
        if known is None or known.mark != mark:
            return CopyFile(mark, load(path), as_of, looked_at)
    except (OSError, ValueError, errors.StoreFailed) as problem:
        if not isinstance(problem, FileNotFoundError):
            LOG.debug('The copy of placement cannot be read: %s', problem)
        return None
    return CopyFile(mark, known.contents, as_of, looked_at)


def save(contents: Contents, path: Path) -> None:
    """Write contents to a file that others may be reading; one process at a time does.
    Raises OSError."""
    said: dict[str, Any] = {name: getattr(contents, name) for name in NAMES}
    members = contents.members
    said |= {
        'format': FORMAT,
        'members': None if members is None else sorted(members),
        'guessed': sorted(contents.guessed),
    }
    temporary = path.with_suffix('.new')
    with contextlib.suppress(FileNotFoundError):  # of a process that was killed
        temporary.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(temporary, flags, 0o600), 'wb') as file:
        np.savez(
            file,
            allow_pickle=False,
            said=np.frombuffer(json.dumps(said).encode(), np.uint8),
            **{name: getattr(contents, name) for name in ARRAYS},
        )
    os.replace(temporary, path)


def load(path: Path) -> Contents:
    """Read contents from a file. Raises errors.StoreFailed and OSError."""
    try:
        with np.load(path, allow_pickle=False) as file:
            said = parse_json(bytes(file['said']))
            arrays: dict[str, Any] = {name: file[name] for name in ARRAYS}
        if said['format'] != FORMAT:
            raise ValueError('another format')
        names: dict[str, Any] = {
            name: {int(id_): text for id_, text in said[name].items()} for name in NAMES
        }
        members = said['members']
        return Contents(
            **arrays,
            **names,
            members=None if members is None else frozenset(members),
            guessed=frozenset(said['guessed']),
        )
    except _UNREADABLE as problem:
        raise errors.StoreFailed(str(path), f'cannot be read: {problem!r}') from problem
