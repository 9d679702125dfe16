# SPDX-License-Identifier: Apache-2.0
"""Records that wait while the decision log cannot be written."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.decision_log.encoding import EncodedRecord
from novasched.decision_log.record import DecisionRecord

LOG = logging.getLogger(__name__)

WRITTEN, REDUCED, LOST = 'written', 'reduced', 'lost'
"""Outcomes of a record: it is kept in full, its head alone is, or nothing."""
MOST_BYTES = 4 << 20
BATCH = 64
RETRY_S = 1.0
LOG_EVERY_S = 60.0

_Queue = deque[tuple[int, EncodedRecord]]


class RecordWriter(Protocol):
    """Writes records in one transaction; raises errors.StoreFailed."""

    def encoded(self, record: DecisionRecord) -> EncodedRecord | None:
        """Return a record as it is written; None: it is not."""

    def write_encoded(self, records: Sequence[EncodedRecord], lost: int = 0) -> None:
        """Write all records, and how many were lost, or nothing; not twice what is
        there already."""


class PendingRecords:
    """Writes records in their order, and keeps them while that fails.

    It keeps ``most_bytes``, of which a host list or a profile counts once for all that
    have it; then the oldest of scheduled requests go, then the oldest of others.
    ``count`` is called with an outcome and a number of records. One thread at a time
    may call it.
    """

    def __init__(
        self,
        writer: RecordWriter,
        count: Callable[[str, int], None],
        clock: Clock = SYSTEM_CLOCK,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._writer = writer
        self._count = count
        self._clock = clock
        self._most_bytes = most_bytes
        self._numbers = itertools.count()
        self._successes: _Queue = deque()
        self._failures: _Queue = deque()
        self._shared: Counter[str] = Counter()
        self._bytes = 0
        self._losing = threading.Lock()
        self._lost = 0  # what the writer has not been given yet
        self._retry_at = self._log_at = float('-inf')
        self.problem: errors.StoreFailed | None = None
        """Why records wait, for the health check; None: they are written."""

    def __len__(self) -> int:
        return len(self._successes) + len(self._failures)

    def lose(self, records: int) -> None:
        """Count records that are lost; any thread may call it."""
        with self._losing:
            self._lost += records
        self._count(LOST, records)

    def write(self, records: Sequence[DecisionRecord]) -> None:
        """Write records, and those that wait; call it now and then with none.

        Raises nothing; RETRY_S after a failure it is tried again.
        """
        for record in records:
            self._add(record)
        self._make_room()
        now = self._clock.monotonic()
        if now < self._retry_at:
            return
        try:
            self._write_all()
        except errors.StoreFailed as problem:
            self._note(problem, now)
        else:
            if self.problem is not None:
                LOG.info('The decision log is written again')
            self.problem = None

    def _add(self, record: DecisionRecord) -> None:
        try:
            one = self._writer.encoded(record)
        except Exception:  # a defect costs no other record
            LOG.exception('Record %s cannot be encoded', record.head.id)
            self.lose(1)
            return
        if one is None:
            return
        self._queue_of(one).append((next(self._numbers), one))
        new = [key for key in one.shared if not self._shared[key]]
        self._bytes += one.size + sum(len(one.shared[key]) for key in new)
        self._shared.update(one.shared.keys())

    def _queue_of(self, record: EncodedRecord) -> _Queue:
        return self._successes if record.is_success else self._failures

    def _make_room(self) -> None:
        lost = 0
        while self._bytes > self._most_bytes:
            self._remove(self._successes or self._failures)
            lost += 1
        if lost:
            self.lose(lost)

    def _remove(self, queue: _Queue) -> None:
        """Forget the oldest record, and what it alone refers to."""
        _, record = queue.popleft()
        self._shared -= Counter(record.shared.keys())
        gone = [key for key in record.shared if not self._shared[key]]
        self._bytes -= record.size + sum(len(record.shared[key]) for key in gone)

    def _write_all(self) -> None:
        while len(self):
            merged = heapq.merge(self._successes, self._failures)
            batch = [record for _, record in itertools.islice(merged, BATCH)]
            is_written = self._wrote(batch)
            for record in batch:
                self._remove(self._queue_of(record))
            if not is_written:
                self.lose(len(batch))
                continue
            reduced = sum(record.is_reduced for record in batch)
            outcomes = {WRITTEN: len(batch) - reduced, REDUCED: reduced}
            for outcome, number in outcomes.items():
                if number:
                    self._count(outcome, number)

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
        with self._losing:
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
