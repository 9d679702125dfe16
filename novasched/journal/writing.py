# SPDX-License-Identifier: Apache-2.0
"""The journal of one worker: a file that grows while requests are under way.

Nothing waits for the disk: what a process wrote before it was killed is there. What
a machine wrote in the half minute before it lost its power may not be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from novasched.journal.files import File
from novasched.journal.records import (
    ANSWERING,
    SETTLED,
    Moment,
    Record,
    clock_of_this_boot,
)
from novasched.log_once import LogOnce
from novasched.ports import Intent

LOG = logging.getLogger(__name__)

CUT_AT = 64 * 1024
"""A file of so many bytes is emptied as soon as nothing in it is open."""
NEXT_AT = 1024 * 1024
"""A file of so many bytes is followed by a new one, should that never be so."""

UNWRITABLE = (
    'The journal of claims in %s cannot be written, what a killed worker has claimed '
    'may stay: %s'
)


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

    def intend(self, intents: Sequence[Intent]) -> Sequence[FileEntry]:
        now, thread = self.now(), threading.get_ident()
        with self._lock:
            self._remove_doomed()
            entries = [self._write(Record(intent, now)) for intent in intents]
            for entry in entries:
                self._claiming[thread, entry.record.intent.consumer_uuid] = entry
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
            more = self._write(Record(intent, entry.record.written))
            self._mark(entry, SETTLED)
            entry.record, entry.file, entry.offset = more.record, more.file, more.offset

    def close(self) -> None:
        """Remove the file if nothing in it is open; else it is ours as long as the
        process lives, for requests that have not ended yet."""
        with self._lock:
            self._remove_doomed()
            file = self._file
            if file is None or file.open:
                return
            self._file = None
            try:
                file.remove()
            except OSError as problem:
                self._tell(problem)

    def end(self, entry: FileEntry, state: bytes | None) -> None:
        """Write down the state of an entry after its claim; None: it stays open."""
        with self._lock:
            self._claiming.pop((entry.thread, entry.record.intent.consumer_uuid), None)
            if state is not None:
                self._mark(entry, state)

    def _write(self, record: Record) -> FileEntry:
        try:
            if self._file is None:
                self._file = File.create(self.directory)
            offset = self._file.write(record.line())
        except OSError as problem:
            self._tell(problem)
            return FileEntry(self, record, None, 0)
        entry = FileEntry(self, record, self._file, offset)
        self._failing.ends()
        if self._file.end > NEXT_AT:
            self._file = None
        return entry

    def _mark(self, entry: FileEntry, state: bytes) -> None:
        """Write down a state. A file that does not take it must not be acted upon."""
        file = entry.file
        if file is None:
            return
        try:
            file.mark(entry.offset, state)
            if not file.open:
                self._empty(file)
        except OSError as problem:
            self._tell(problem)
            self._abandon(file)

    def _empty(self, file: File) -> None:
        if file is not self._file:
            file.remove()
        elif file.end > CUT_AT:
            file.cut()

    def _abandon(self, file: File) -> None:
        if file is self._file:
            self._file = None
        try:
            file.remove()
        except OSError as problem:
            if file not in self._doomed:
                LOG.error(
                    'Remove %s before this process ends, unless it does so itself: it '
                    'may name claims as unanswered that were answered: %s',
                    file.path,
                    problem,
                )
                self._doomed.append(file)

    def _remove_doomed(self) -> None:
        """Remove the files that could not be removed, as soon as the disk lets us."""
        with contextlib.suppress(OSError):
            while self._doomed:
                self._doomed[-1].remove()
                self._doomed.pop()

    def _tell(self, problem: OSError) -> None:
        if self._failing.begins():
            LOG.warning(UNWRITABLE, self.directory, problem)


class FileEntry:
    """One line of the file, or of none. Satisfies ports.Entry."""

    def __init__(
        self, journal: FileJournal, record: Record, file: File | None, offset: int
    ) -> None:
        self.record = record
        self.file = file
        self.offset = offset
        self.thread = threading.get_ident()
        self._journal = journal

    def settle(self) -> None:
        self._journal.end(self, SETTLED)

    def answering(self) -> None:
        self._journal.end(self, ANSWERING)

    def leave(self) -> None:
        self._journal.end(self, None)
