# SPDX-License-Identifier: Apache-2.0
"""Thread that writes records, beside the one that makes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from novasched.decision_log.pending import PendingRecords
from novasched.decision_log.record import DecisionRecord
from novasched.decision_log.task_thread import TaskThread

LOG = logging.getLogger(__name__)


class WritingThread:
    """Writes pending records in a thread of its own: while the disk stalls, records
    wait, and not the requests of which they are made."""

    def __init__(self, pending: PendingRecords) -> None:
        self._pending = pending
        self._thread = TaskThread(
            'decision-writer', pending.flush, again_s=lambda: pending.again_s
        )

    def write(self, records: Sequence[DecisionRecord]) -> None:
        """Have records written soon."""
        self._pending.add(records)
        self._thread.notify()

    def count_lost(self, records: int) -> None:
        """Count records that are lost; any thread may call it."""
        self._pending.count_lost(records)

    def close(self) -> None:
        """Try to write what waits, for a short time at most, and stop."""
        self._pending.retry_now()
        self._thread.close()
        if left := len(self._pending):
            LOG.warning('%d records of decisions are not written at the end', left)
