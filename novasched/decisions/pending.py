# SPDX-License-Identifier: Apache-2.0
"""Records that wait to be written, in their order."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from novasched import errors
from novasched.decisions.encoding import EncodedRecord
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.record import DecisionRecord
from novasched.decisions.writing import DecisionWriter
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

WRITTEN, REDUCED, LOST = 'written', 'reduced', 'lost'
"""Outcomes of a record: it is kept in full, its head alone is, or nothing."""
MOST_BYTES = 4 << 20
BATCH = 64
RETRY_S = 1.0
LOG_EVERY_S = 60.0


class _Waiting(NamedTuple):
    """A record that waits to be written, and since when."""

    since_s: float
    record: EncodedRecord


class PendingRecords:
    """Writes records in their order, and keeps them while that fails or hangs.

    Beyond ``most_bytes``, whole requests go first, then the oldest records of scheduled
    requests, then the oldest others. A host list or a profile counts once. ``count``
    gets an outcome and a number of records. Any thread may call it; flush() and
    write(), one at a time.
    """

    def __init__(
        self,
        writer: DecisionWriter | MemoryDecisions,
        count: Callable[[str, int], None],
        clock: Clock = SYSTEM_CLOCK,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._writer = writer
        self._count = count
        self._clock = clock
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._writing = 0  # of the first of them, which are being written
        self._shared: Counter[str] = Counter()
        self._bytes = 0
        self._successes = 0  # of those that wait
        self._lost = 0  # what the writer has not been given yet
        self._retry_at = self._log_at = float('-inf')
        self.problem: errors.StoreFailed | None = None
        """Why records wait, for the health check; None if they are written."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waits_s(self) -> float:
        """The seconds for which the oldest record has waited to be written."""
        with self._lock:
            if not self._waiting:
                return 0.0
            return self._clock.monotonic() - self._waiting[0].since_s

    def count_lost(self, records: int) -> None:
        """Count records that are lost; any thread may call it."""
        with self._lock:
            self._lost += records
        self._tell(LOST, records)

    def _tell(self, outcome: str, records: int) -> None:
        """Count records, which may fail: it costs no more than the count."""
        try:
            self._count(outcome, records)
        except Exception:
            LOG.exception('%d records are not counted as %s', records, outcome)

    def write(self, records: Sequence[DecisionRecord]) -> None:
        """Write records, and those that wait."""
        self.add(records)
        self.flush()

    def add(self, records: Sequence[DecisionRecord]) -> None:
        """Have records wait to be written; raise nothing."""
        for record in records:
            try:
                encoded = self._writer.encoded(record)
            except Exception:  # a defect costs no other record
                LOG.exception('Record %s cannot be encoded', record.head.id)
                self.count_lost(1)
            else:
                if encoded is not None:
                    self._add(encoded)

    def _add(self, record: EncodedRecord) -> None:
        with self._lock:
            self._waiting.append(_Waiting(self._clock.monotonic(), record))
            new = [key for key in record.shared if not self._shared[key]]
            self._bytes += record.size + sum(len(record.shared[key]) for key in new)
            self._shared.update(record.shared.keys())
            self._successes += record.is_success
            lost = self._make_room()
        if lost:
            self.count_lost(lost)

    def _make_room(self) -> int:
        """Forget the oldest records, but for those being written; return how many."""
        lost = 0
        if self._bytes > self._most_bytes:
            self._drop_whole()
        while self._bytes > self._most_bytes and len(self._waiting) > self._writing:
            oldest = self._writing
            if self._successes:
                places = range(self._writing, len(self._waiting))
                successes = (i for i in places if self._waiting[i].record.is_success)
                oldest = next(successes, self._writing)
            self._forget(self._waiting.pop(oldest).record)
            lost += 1
        return lost

    def _drop_whole(self) -> None:
        """Forget the requests that are kept whole, but for those being written. They
        take the most room: no record is lost for them."""
        for place in range(self._writing, len(self._waiting)):
            since_s, record = self._waiting[place]
            if record.whole is not None:
                self._bytes -= len(record.whole)
                self._waiting[place] = _Waiting(since_s, replace(record, whole=None))

    def _forget(self, record: EncodedRecord) -> None:
        """Count a record off, and what it alone refers to."""
        self._successes -= record.is_success
        self._shared -= Counter(record.shared.keys())
        gone = [key for key in record.shared if not self._shared[key]]
        self._bytes -= record.size + sum(len(record.shared[key]) for key in gone)

    @property
    def again_s(self) -> float | None:
        """The seconds after which to call flush() again; None if nothing waits."""
        return RETRY_S if self._waiting else None

    def retry_now(self) -> None:
        """Let the next flush() try, however soon after a failure."""
        self._retry_at = float('-inf')

    def flush(self) -> None:
        """Write what waits. Raises nothing; RETRY_S after a failure it is tried
        again."""
        now = self._clock.monotonic()
        if now < self._retry_at:
            return
        try:
            while batch := self._batch():
                self._write_batch(batch)
        except errors.StoreFailed as problem:
            self._note(problem, now)
            with self._lock:
                self._writing = 0
                self._drop_whole()
        else:
            if self.problem is not None:
                LOG.info('The decision log is written again')
            self.problem = None
        finally:
            self._writing = 0

    def _batch(self) -> Sequence[EncodedRecord]:
        """Begin to write the oldest records, and return them.

        They are a quarter of what may wait: others come meanwhile.
        """
        batch: list[EncodedRecord] = []
        size = 0
        with self._lock:
            for _, record in self._waiting[:BATCH]:
                size += record.size
                if batch and size > self._most_bytes // 4:
                    break
                batch.append(record)
            self._writing = len(batch)
        return batch

    def _write_batch(self, batch: Sequence[EncodedRecord]) -> None:
        is_written = self._wrote(batch)
        with self._lock:
            for record in batch:
                self._forget(record)
            del self._waiting[: len(batch)]
            self._writing = 0
        if not is_written:
            self.count_lost(len(batch))
            return
        reduced = sum(record.is_reduced for record in batch)
        outcomes = {WRITTEN: len(batch) - reduced, REDUCED: reduced}
        for outcome, number in outcomes.items():
            if number:
                self._tell(outcome, number)

    def _wrote(self, batch: Sequence[EncodedRecord]) -> bool:
        """Write a batch; return False for one that can never be written."""
        lost = self._lost
        try:
            self._writer.write_encoded(batch, lost)
        except errors.StoreFailed:
            raise
        except Exception:
            LOG.exception('%d records cannot be written, and are lost', len(batch))
            return False
        with self._lock:
            self._lost -= lost
        return True

    def _note(self, problem: errors.StoreFailed, now: float) -> None:
        self.problem = problem
        self._retry_at = now + RETRY_S
        if now >= self._log_at:
            self._log_at = now + LOG_EVERY_S
            LOG.error(
                'Records of decisions cannot be written, %d wait: %s',
                len(self),
                problem,
            )
