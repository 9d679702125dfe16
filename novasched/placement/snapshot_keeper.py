# SPDX-License-Identifier: Apache-2.0
"""Keeps a placement snapshot in a file for all processes of a machine."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.clock import Clock
from novasched.parsing import parse_json
from novasched.placement.snapshot import NodeSize, PlacementSnapshot, SnapshotSource
from novasched.providers.contents import Contents
from novasched.providers.table import ProviderTable

LOG = logging.getLogger(__name__)

NOT_READ = 'The placement snapshot cannot be read: %s'

NAME = 'placement-snapshot.npz'
FORMAT = 1
LEAST_INTERVAL_S = 60.0
INTERVALS = 100
"""A snapshot is renewed after so many times what it took, at the earliest: each
scheduler takes its part of one per cent of placement's time."""
ARRAYS = ('providers', 'inventories', 'usage', 'traits', 'aggregates')
NAMES = ('uuids', 'class_names', 'trait_names', 'aggregate_uuids')
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.BoolOpt(
            'placement_diagnosis',
            default=True,
            help="""
Diagnose empty and short answers of GET /allocation_candidates.

Placement gives no reasons. After a request that got no candidates, the condition that
each host failed is found from a copy of placement (``candidates = mirror``), or else
from a snapshot of it. One worker of a machine gets the snapshot, by one query for all
providers or from ``[placement_database] connection``; never more often than every
minute, nor so often that all schedulers together take more than one per cent of
placement's time. No request waits for it.
""",
        ),
    ]
}


class SnapshotKeeper:
    """The newest placement snapshot of this machine; threads may share it.

    It is kept in a file in ``directory``, or in memory if that is None. ``sizes``
    returns the sizes of all compute nodes, ``schedulers`` how many live schedulers
    share placement. One process at a time renews the snapshot.
    """

    def __init__(
        self,
        directory: Path | None,
        source: SnapshotSource,
        clock: Clock,
        sizes: Callable[[], Mapping[str, NodeSize]],
        schedulers: Callable[[], int] = lambda: 1,
    ) -> None:
        self._path = None if directory is None else directory / NAME
        self._source = source
        self._clock = clock
        self._sizes = sizes
        self._schedulers = schedulers
        self._lock = threading.Lock()
        self._kept: tuple[object, PlacementSnapshot | None] = (None, None)
        self._retry_at = float('-inf')

    def current(self, max_age_s: float) -> tuple[ProviderTable, float] | None:
        """Return the table of the newest snapshot, and its age in seconds; None:
        there is none, or it is older."""
        found = self.snapshot()
        if found is None or self.age_s(found) > max_age_s:
            return None
        return found.table, self.age_s(found)

    def age_s(self, snapshot: PlacementSnapshot) -> float:
        """Return how old a snapshot is; or how far ahead, after the time was set."""
        return abs(self._clock.time() - snapshot.as_of)

    def loaded(self) -> PlacementSnapshot | None:
        """Return the snapshot that is in memory, with its table; nothing waits for
        it. Another process may have made a newer one."""
        return self._kept[1]

    def snapshot(self) -> PlacementSnapshot | None:
        """Return the newest snapshot, of whichever process made it, with its table."""
        with self._lock:
            if self._path is None:
                return self._kept[1]
            try:
                state = os.stat(self._path)
                mark = state.st_ino, state.st_mtime_ns
                if self._kept[0] != mark:
                    self._kept = mark, _loaded(self._path)
            except FileNotFoundError:
                return None
            except OSError as problem:
                LOG.debug(NOT_READ, problem)
                return None
            return self._kept[1]

    def due_in_s(self) -> float:
        """Return the seconds until a new snapshot may be read; 0: now. What failed
        costs placement as much as what did not."""
        retry_in_s = max(0.0, self._retry_at - self._clock.monotonic())
        found = self.snapshot()
        if found is None:
            return retry_in_s
        share_s = INTERVALS * found.took_s * max(1, self._schedulers())
        due_in_s = max(LEAST_INTERVAL_S, share_s) - self.age_s(found)
        return max(retry_in_s, due_in_s)

    def renew(self, aggregates: Iterable[str] = (), forced: bool = False) -> bool:
        """Read a new snapshot, if it is time and no other process is at it.

        Of an older one that does not know the members of ``aggregates``, only these are
        read. ``forced``: it is always time. Returns whether there is a new one. Raises
        errors.StoreFailed.
        """
        with self._exclusively() as has_turn:
            if not has_turn:
                return False
            began_at = self._clock.monotonic()
            try:
                return self._renew(set(aggregates), forced)
            except errors.StoreFailed:
                now = self._clock.monotonic()
                pause_s = max(LEAST_INTERVAL_S, INTERVALS * (now - began_at))
                self._retry_at = now + pause_s
                raise

    def _renew(self, aggregates: set[str], forced: bool) -> bool:
        before = self.snapshot()
        if forced or not self.due_in_s():
            known = () if before is None else before.members or ()
            self._keep(self._source.read(self._sizes(), {*known, *aggregates}))
            return True
        is_paused = self._retry_at > self._clock.monotonic()
        if before is None or is_paused or before.knows(aggregates):
            return False
        self._keep(self._source.with_members(before, aggregates))
        return True

    def _keep(self, snapshot: PlacementSnapshot) -> None:
        _with_table(snapshot)
        mark = None
        if self._path is not None:
            try:
                save(snapshot, self._path)
                state = os.stat(self._path)
            except OSError as problem:
                raise errors.StoreFailed(
                    str(self._path), f'cannot be written: {problem.strerror}'
                ) from problem
            mark = state.st_ino, state.st_mtime_ns
        with self._lock:
            self._kept = mark, snapshot

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[bool]:
        """Enter with True if no other process of the machine has entered."""
        if self._path is None:
            yield True
            return
        try:
            descriptor = os.open(
                self._path.with_suffix('.lock'), os.O_RDWR | os.O_CREAT, 0o600
            )
        except OSError as problem:
            raise errors.StoreFailed(
                str(self._path), f'cannot be locked: {problem.strerror}'
            ) from problem
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            has_turn = True
        except BlockingIOError:
            has_turn = False
        try:
            yield has_turn
        finally:
            os.close(descriptor)


def _with_table(snapshot: PlacementSnapshot) -> PlacementSnapshot:
    """Make the table of a snapshot now, so that no request has to. Raises
    errors.StoreFailed for one whose rows do not fit together."""
    try:
        _ = snapshot.table
    except errors.InconsistentProviders as problem:
        raise errors.StoreFailed(
            'Placement', f'is inconsistent: {problem}'
        ) from problem
    return snapshot


def _loaded(path: Path) -> PlacementSnapshot | None:
    """Return the snapshot of a file; None: it is of no use. Raises OSError."""
    try:
        return _with_table(load(path))
    except errors.StoreFailed as problem:
        LOG.debug(NOT_READ, problem)
        return None


def save(snapshot: PlacementSnapshot, path: Path) -> None:
    """Write a snapshot to a file that others may be reading; one process at a time
    does. Raises OSError."""
    contents = snapshot.contents
    said: dict[str, Any] = {name: getattr(contents, name) for name in NAMES}
    for field in fields(PlacementSnapshot):
        if field.name != 'contents':
            said[field.name] = getattr(snapshot, field.name)
    members = snapshot.members
    said |= {'format': FORMAT, 'members': None if members is None else sorted(members)}
    temporary = path.with_suffix('.new')
    temporary.unlink(
        missing_ok=True
    )  # of a process that was killed, or of another user
    with open(
        os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb'
    ) as file:
        np.savez_compressed(
            file,
            allow_pickle=False,
            said=np.frombuffer(json.dumps(said).encode(), np.uint8),
            **{name: getattr(contents, name) for name in ARRAYS},
        )
    os.replace(temporary, path)


def load(path: Path) -> PlacementSnapshot:
    """Read a snapshot from a file. Raises errors.StoreFailed and OSError."""
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
        return PlacementSnapshot(
            Contents(**arrays, **names),
            said['as_of'],
            said['took_s'],
            None if members is None else frozenset(members),
            said['missing'],
        )
    except _UNREADABLE as problem:
        raise errors.StoreFailed(str(path), f'cannot be read: {problem!r}') from problem
