# SPDX-License-Identifier: Apache-2.0
"""The decision log of a process without a directory: its last records, in memory."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from novasched.decisions import files
from novasched.decisions.encoding import EncodedRecord, RecordEncoder
from novasched.decisions.reading import DecisionReader
from novasched.decisions.record import Head
from novasched.decisions.writing import (
    Diagnoses,
    awaiting_diagnosis,
    completed,
    insert,
    insert_listened,
    insert_lost,
    transaction,
)
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

MOST_RECORDS = 1000
MOST_LISTENED = 1000
"""Times without a gap in which requests were tapped."""
MOST_LISTS = 64
"""Lists of hosts that are kept; there is a new one when hosts come or go."""


class MemoryDecisions(DecisionReader):
    """Writes, and reads, the records of this process; any thread may."""

    def __init__(
        self,
        keep: str = files.ALL,
        most: int = MOST_RECORDS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(LOG.warning, clock)
        self.encoded = RecordEncoder(keep)
        self._most = most
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            ':memory:', isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._connection.close)
        files.create_tables(self._connection, clock.time())

    def write_encoded(self, records: Sequence[EncodedRecord], lost: int = 0) -> None:
        """Write records, and how many were lost; forget the oldest.

        No request is kept whole: a thousand of them may take 2 GiB.
        """
        with self._lock, transaction(self._connection):
            insert(self._connection, [replace(each, whole=None) for each in records])
            if lost:
                insert_lost(self._connection, lost, self.clock.time())
            self._trim('decisions', self._most)
            for table in files.of_decisions(self._connection):
                self._connection.execute(
                    f'DELETE FROM {table} '
                    'WHERE decision < (SELECT min(rowid) FROM decisions)'
                )
            for table in ('host_lists', 'profiles'):
                self._trim(table, MOST_LISTS)

    def write_listened(self, since_s: float, until_s: float) -> None:
        """See writing.DecisionWriter."""
        with self._lock, transaction(self._connection):
            insert_listened(self._connection, since_s, until_s)
            self._connection.execute(
                'DELETE FROM listened WHERE since NOT IN '
                '(SELECT since FROM listened ORDER BY since DESC LIMIT ?)',
                (MOST_LISTENED,),
            )

    def _trim(self, table: str, most: int) -> None:
        self._connection.execute(
            f'DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?',
            (most,),
        )

    def waiting(self) -> list[tuple[Head, Any]]:
        """Return the heads and bodies of some records that wait for a diagnosis, the
        newest first."""
        with self._lock:
            return list(awaiting_diagnosis(self._connection))

    def complete(self, diagnoses: Diagnoses) -> set[str]:
        """Put diagnoses into records that wait, or give them up; return the ids of
        those that waited."""
        with self._lock, transaction(self._connection):
            return completed(self._connection, diagnoses)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _numbers(self) -> Sequence[int]:
        return (1,)

    @contextlib.contextmanager
    def _opened(self, number: int) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection
