# SPDX-License-Identifier: Apache-2.0
"""The decision log of a scheduler, wired from its configuration."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg
from oslo_service import backend  # type: ignore[import-untyped]

from novasched.app.sources import Dependencies
from novasched.cluster.view import ClusterView
from novasched.decisions import files, history
from novasched.decisions.fault import FaultText
from novasched.decisions.files import StoreSettings
from novasched.decisions.log import RecordingLog
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.pending import PendingRecords
from novasched.decisions.primitives import origin_of
from novasched.decisions.reading import DecisionFiles, DecisionReader
from novasched.decisions.record import SCHEDULED
from novasched.decisions.record_builder import RecordBuilder, profile_summary
from novasched.decisions.recording import RequestRecorder
from novasched.decisions.retention import total_size
from novasched.decisions.worker_state import INTERVAL_S, StateFile
from novasched.decisions.writing import DecisionWriter
from novasched.history.files import HistorySettings
from novasched.history.recording import HistoryRecorder, foreign_plugins
from novasched.history.recording import Profile as RecordedProfile
from novasched.observability import catalogue, tracing
from novasched.observability.decisions import DecisionMetrics
from novasched.observability.requests import PickMetrics
from novasched.outages import Outages
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.diagnosis import DIAGNOSE_EVERY_S, PlacementDiagnosis
from novasched.ports.decisions import DecisionLog
from novasched.process.service import host_of
from novasched.providers.table import ProviderTable
from novasched.releases import Release
from novasched.rpc.caller import trace_parent
from novasched.rpc.inspection import InspectionEndpoint
from novasched.runtime.clock import Clock
from novasched.runtime.periodic import HostLock, Leadership, PeriodicTask
from novasched.scheduler.pipeline import Profile

IN_MEMORY = (
    'Under eventlet the last 1,000 records of decisions of each worker are kept in '
    'memory, and lost with it.'
)

MakeLog = Callable[[ClusterView, Profile, CopyKeeper | None], DecisionLog]
"""Makes the decision log of a reader from what it decides by."""


def _has_files() -> bool:
    """Return whether records may be in files, which would block eventlet."""
    return bool(backend.get_backend_type() != backend.BackendType.EVENTLET)


def prepare(conf: cfg.ConfigOpts) -> str | None:
    """Make the directory of the decision log; return what an operator must know of
    it."""
    if conf.novasched.decisions_keep == files.NONE:
        return None
    if not _has_files():
        return IN_MEMORY
    return files.from_conf(conf, makes=True).warning


class DecisionStore(NamedTuple):
    """Where a worker keeps its records."""

    pending: PendingRecords
    store: DecisionWriter | MemoryDecisions
    reader: DecisionReader
    directory: Path | None  # None if they are kept in memory


def open_store(
    conf: cfg.ConfigOpts, metrics: DecisionMetrics, in_memory: bool = False
) -> DecisionStore:
    """Open the store of the decision log, measured."""
    settings = StoreSettings.from_conf(conf)
    has_files = _has_files() and not in_memory
    path = files.from_conf(conf).path if has_files else None
    directory = None if path is None else Path(path)
    store: DecisionWriter | MemoryDecisions
    reader: DecisionReader
    if directory is None:
        store = reader = MemoryDecisions(settings.keep)
    else:
        store, reader = DecisionWriter(directory, settings), DecisionFiles(directory)
        metrics.size = lambda: total_size(directory)
    pending = PendingRecords(store, metrics.counter(catalogue.DECISION_RECORDS))
    metrics.problem = lambda: pending.problem
    metrics.unwritten_s = lambda: pending.waits_s
    return DecisionStore(pending, store, reader, directory)


def _diagnosis(
    conf: cfg.ConfigOpts,
    clock: Clock,
    view: ClusterView,
    copy: CopyKeeper | None,
) -> PlacementDiagnosis | None:
    """Return the diagnosis of empty answers of placement, unless that is off."""
    if not conf.novasched.placement_diagnosis or copy is None:
        return None
    return PlacementDiagnosis(view.hosts_by_node, clock, copy, view.aggregates.names)


def inspection(store: DecisionStore) -> InspectionEndpoint:
    return InspectionEndpoint(
        store.reader, origin_of(store.directory, str(os.getpid()))
    )


class LogMaker:
    """Makes the log that writes into a store."""

    def __init__(
        self, conf: cfg.ConfigOpts, dependencies: Dependencies, store: DecisionStore
    ) -> None:
        self._conf = conf
        self._dependencies = dependencies
        self._store = store
        self._metrics = dependencies.instrumentation.decision_log
        self._tasks: list[PeriodicTask] = []

    def __call__(
        self, view: ClusterView, profile: Profile, copy: CopyKeeper | None
    ) -> RecordingLog:
        conf, dependencies = self._conf, self._dependencies
        diagnosis = _diagnosis(conf, dependencies.clock, view, copy)
        if diagnosis is not None:
            self._complete_with(diagnosis)
        builder = RecordBuilder(
            profile,
            profile_summary(profile, conf),
            worker=f'{host_of(conf)}:{os.getpid()}',
            known=lambda: len(view.node_uuids()),
            left_out=view.unavailable_cells,
            ages_s=lambda: _ages_s(view, dependencies.clock),
            diagnose=diagnosis,
            waits_for_diagnosis=diagnosis is not None,
        )
        keep, options = conf.novasched.decisions_keep, history.decisive_options(conf)

        recorded = self._history(profile, copy)

        def whole(recorder: RequestRecorder) -> bytes | None:
            release = dependencies.kept.release.newest(profile.release)
            return history.encoded(recorder, options, release)

        log = RecordingLog(
            builder,
            self._store.pending,
            dependencies.clock,
            FaultText.from_conf(conf, builder),
            tracing.from_conf(conf, self._metrics, host_of(conf), trace_parent),
            keeps=lambda result: keep == files.ALL or result != SCHEDULED,
            whole=whole if self._store.directory else lambda recorder: None,
            history=recorded,
        )
        self._metrics.waits_s = lambda: log.waits_s
        return log

    def _history(
        self, profile: Profile, copy: CopyKeeper | None
    ) -> HistoryRecorder | None:
        """Return the recorder of the history, if ``history_dir`` is set."""
        settings = HistorySettings.from_conf(self._conf) if _has_files() else None
        if settings is None:
            return None
        options, kept = history.decisive_options(self._conf), self._dependencies.kept

        @functools.lru_cache
        def of_release(release: Release) -> RecordedProfile:
            return {
                'nova_release': release.number,
                'options': options,
                'foreign': foreign_plugins(profile),
            }

        def providers() -> ProviderTable | None:
            current = None if copy is None else copy.current(math.inf)
            return None if current is None else current.table

        recorded = HistoryRecorder(
            settings,
            host_of(self._conf),
            lambda: of_release(kept.release.newest(profile.release)),
            providers,
            self._metrics.counter(catalogue.HISTORY_REQUESTS),
            self._dependencies.clock,
        )
        self._metrics.history_problem = lambda: recorded.writer.problem
        return recorded

    def tasks(self, outages: Outages, picks: PickMetrics) -> list[PeriodicTask]:
        """Return the periodic tasks of the log, and the one that writes this worker's
        state."""
        clock = self._dependencies.clock
        file = StateFile(self._store.directory, outages, picks.now, clock)
        return [*self._tasks, (INTERVAL_S, file.write_state)]

    def _complete_with(self, diagnosis: PlacementDiagnosis) -> None:
        """Add the task that completes records which wait for a diagnosis of placement.

        If workers share a directory, one of them leads this task; see Leadership.
        """
        directory = self._store.directory
        lock = HostLock(f'diagnoses {directory}')
        leadership = Leadership(lambda: directory is None or lock.acquire())
        count = self._metrics.counter(catalogue.DIAGNOSES)

        def complete_diagnoses() -> None:
            if not leadership.has_turn():
                return
            for result, records in diagnosis.complete(self._store.store).items():
                count(result, records)

        self._tasks.append((DIAGNOSE_EVERY_S, complete_diagnoses))


def _ages_s(view: ClusterView, clock: Clock) -> dict[str, float]:
    """Return how old what is known of each cell is, by the name of the cell."""
    now_s, asked_at = clock.monotonic(), view.asked_at()
    return {
        cell.name or cell.uuid: now_s - asked_at[cell.uuid]
        for cell in view.cells.enabled()
        if cell.uuid in asked_at
    }
