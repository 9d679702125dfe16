# SPDX-License-Identifier: Apache-2.0
"""The store of the decision log that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

from novasched.decisions import files, retention
from novasched.decisions.fault import FaultText
from novasched.decisions.files import StoreSettings
from novasched.decisions.log import RecordingLog
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.pending import PendingRecords, WritingThread
from novasched.decisions.reading import DecisionFiles, DecisionReader
from novasched.decisions.record import SCHEDULED
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import RequestObserver
from novasched.decisions.writing import DecisionWriter
from novasched.runtime.clock import Clock


class DecisionStore(NamedTuple):
    """Where a worker keeps its records."""

    pending: PendingRecords
    store: DecisionWriter | MemoryDecisions
    reader: DecisionReader
    directory: Path | None  # None if they are kept in memory

    def size(self) -> int:
        """Return how many bytes the files have."""
        if self.directory is None:
            return 0
        return retention.total_size(self.directory)


def from_conf(
    conf: cfg.ConfigOpts, count: Callable[[str, int], None], has_files: bool = True
) -> DecisionStore:
    """Open the store; ``has_files``: not so under eventlet, which files would block.

    ``count`` is called with an outcome and a number of records.
    """
    settings = StoreSettings.from_conf(conf)
    path = files.from_conf(conf).path if has_files else None
    if path is None:
        memory = MemoryDecisions(settings.keep)
        pending = PendingRecords(memory, count)
        return DecisionStore(pending, memory, memory, None)
    writer = DecisionWriter(Path(path), settings)
    return DecisionStore(
        PendingRecords(writer, count),
        writer,
        DecisionFiles(Path(path)),
        Path(path),
    )


def open_log(
    conf: cfg.ConfigOpts,
    store: DecisionStore,
    builder: RecordBuilder,
    clock: Clock,
    observer: RequestObserver | None = None,
) -> RecordingLog:
    """Return the log that makes records for a store."""
    keep = StoreSettings.from_conf(conf).keep
    has_files = store.directory is not None
    return RecordingLog(
        builder,
        WritingThread(store.pending) if has_files else store.pending,
        clock,
        FaultText.from_conf(conf, builder),
        observer,
        keeps=lambda result: keep == files.ALL or result != SCHEDULED,
    )
