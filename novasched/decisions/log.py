# SPDX-License-Identifier: Apache-2.0
"""The decision log of a process: a thread beside the requests makes the records."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from novasched.decisions.fault import FaultText, log_failure
from novasched.decisions.pending import PendingRecords, WritingThread
from novasched.decisions.record import UNSCHEDULABLE, DecisionRecord
from novasched.decisions.record_builder import RecordBuilder, verdict
from novasched.decisions.recording import RequestObserver, RequestRecorder
from novasched.decisions.task_thread import TaskThread
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.decisions import DecisionRecorder, NoDecisionLog
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

MOST_WAITING = 256
MOST_HELD = 500_000
"""How many requests may wait for their records, and how many hosts they may hold.

A host takes 0.2 KB, and a candidate counts as several. Beyond that, only the head of a
record is written.
"""
MOST_REDUCED = 4096
"""Heads that may wait, should a plugin hang that is asked for reasons; more are
lost."""
AT_ONCE = 64
PAUSE_S = 0.2
"""Seconds in which records are gathered to be written together."""


class RecordingLog:
    """Makes a record of each request, and hands it to a sink. Satisfies
    ports.decisions.DecisionLog.

    ``keeps`` says of a result whether its whole record is kept; of others the head
    and the servers are. Nothing waits for its thread, which takes what has come every
    PAUSE_S.
    """

    def __init__(
        self,
        builder: RecordBuilder,
        sink: PendingRecords | WritingThread,
        clock: Clock,
        fault: FaultText,
        observer: RequestObserver | None = None,
        keeps: Callable[[str], bool] = lambda result: True,
        rng: random.Random | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._builder = builder
        self._sink = sink
        self._clock = clock
        self._fault = fault
        self._observer = observer or RequestObserver()
        self._keeps = keeps
        self._rng = rng or random.SystemRandom()
        self._sleep = sleep or time.sleep  # that of eventlet, where it is used
        self._waiting: deque[RequestRecorder] = deque()
        self._held = 0
        self._holding = threading.Lock()
        self._reduced: deque[DecisionRecord] = deque()
        self._thread = TaskThread('decision-log', self._write_all, PAUSE_S)
        self._batch_since_s: float | None = None
        self._logged = LogOnce()

    @property
    def waits_s(self) -> float:
        """The seconds for which the oldest request has waited for its record."""
        since_s = self._batch_since_s
        if since_s is None:
            try:
                since_s = self._waiting[0].ended_s
            except IndexError:
                return 0.0
        return self._clock.monotonic() - since_s

    def recorder(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
    ) -> DecisionRecorder:
        return RequestRecorder(
            self._clock,
            self._rng,
            context,
            request,
            instance_uuids,
            self._take_in,
            self._fault.explained,
            self._observer,
        )

    def _take_in(self, recorder: RequestRecorder) -> None:
        """Have a request that has ended written down soon; raise nothing, as its claims
        are settled."""
        try:
            self._queue(recorder)
        except Exception:
            if self._logged.begins('queue'):
                LOG.exception('Request %s leaves no record', recorder.id)
            with contextlib.suppress(Exception):  # counting may be what fails
                self._sink.count_lost(1)
        else:
            self._logged.ends('queue')

    def _queue(self, recorder: RequestRecorder) -> None:
        if self._holds(recorder):
            self._waiting.append(recorder)
        elif len(self._reduced) >= MOST_REDUCED:
            self._sink.count_lost(1)
        elif (record := self._made(recorder, whole=False)) is not None:
            self._reduced.append(record)
        self._thread.notify()

    def _holds(self, recorder: RequestRecorder) -> bool:
        """Count what a request holds, unless that is too much."""
        size = recorder.size
        with self._holding:
            held = self._held + size
            is_full = len(self._waiting) >= MOST_WAITING or held > MOST_HELD
            if self._waiting and is_full:
                return False
            self._held = held
            return True

    def _next(self) -> RequestRecorder:
        recorder = self._waiting.popleft()
        with self._holding:
            self._held -= recorder.size
        return recorder

    def _write_all(self) -> None:
        """Make and write the records of all requests that have ended."""
        while self._waiting or self._reduced:
            records: list[DecisionRecord] = []
            while self._waiting and len(records) < AT_ONCE:
                recorder = self._next()
                if self._batch_since_s is None:
                    self._batch_since_s = recorder.ended_s
                if (record := self._made(recorder)) is not None:
                    records.append(record)
                del recorder
                self._sleep(0)  # lets requests go on, where threads are green
            while self._reduced and len(records) < AT_ONCE:
                records.append(self._reduced.popleft())
            self._write(records)
            self._batch_since_s = None

    def _write(self, records: Sequence[DecisionRecord]) -> None:
        try:
            self._sink.write(records)
        except Exception:  # the thread goes on
            LOG.exception('%d records are lost', len(records))
            self._sink.count_lost(len(records))

    def _made(
        self, recorder: RequestRecorder, whole: bool = True
    ) -> DecisionRecord | None:
        """Return the record of a request, ``whole`` or its head and servers.

        None if it cannot be made: no request may suffer from such a defect.
        """
        since = self._clock.monotonic()
        try:
            record = self._record(recorder, whole)
            if record.head.result == UNSCHEDULABLE:
                log_failure(record.head, record.body, recorder.context)
            took_s = self._clock.monotonic() - since
            outlines = recorder.outlines.values()
            self._observer.recorded(record, took_s, outlines, recorder.rounds)
        except Exception:
            LOG.exception('No record can be made of request %s', recorder.id)
            self._sink.count_lost(1)
            return None
        finally:
            recorder.error = None  # its frames refer to the recorder, and to the tables
        return record

    def _record(self, recorder: RequestRecorder, whole: bool) -> DecisionRecord:
        if whole and self._keeps(verdict(recorder).result):
            try:
                return self._builder.record(recorder)
            except BaseException:  # plugins are asked; the thread goes on
                LOG.exception('Record %s is stored without its body', recorder.id)
        return self._builder.outcome(recorder)

    def close(self) -> None:
        """Write what has come, for a short time at most, and stop."""
        self._thread.close()
        self._sink.close()


class CollectedRecords(NoDecisionLog):
    """Makes the record of each request as soon as it ends, and keeps it here, and its
    recorder. Satisfies ports.decisions.DecisionLog; for dry runs."""

    def __init__(self, builder: RecordBuilder, clock: Clock) -> None:
        self._builder = builder
        self._clock = clock
        self.records: list[DecisionRecord] = []
        self.recorders: list[RequestRecorder] = []

    def recorder(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
    ) -> DecisionRecorder:
        return RequestRecorder(
            self._clock,
            random.Random(),
            context,
            request,
            instance_uuids,
            self._take_in,
        )

    def _take_in(self, recorder: RequestRecorder) -> None:
        self.recorders.append(recorder)
        self.records.append(self._builder.record(recorder))

    def clear(self) -> None:
        """Forget all requests."""
        self.recorders.clear()
        self.records.clear()
