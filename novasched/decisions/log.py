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
from dataclasses import replace
from typing import Any

from novasched.decisions.fault import FaultText, log_failure
from novasched.decisions.pending import PendingRecords
from novasched.decisions.record import UNSCHEDULABLE, DecisionRecord
from novasched.decisions.record_builder import RecordBuilder, verdict
from novasched.decisions.recording import RequestObserver, RequestRecorder
from novasched.decisions.task_thread import TaskThread
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports.decisions import DecisionLog, DecisionRecorder
from novasched.runtime.clock import Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

MOST_WAITING = 256
MOST_HELD = 500_000
"""How many requests may wait for their records, and how many hosts they may hold.

A host takes 0.2 KB, and a candidate counts as several. Beyond that, only the head of a
record is written.
"""
AT_ONCE = 64
PAUSE_S = 0.2
"""Seconds in which records are gathered to be written together."""


class RequestHistory:
    """Records whole requests, in the threads of the log; this base records none.

    Nothing raises. One thread at a time calls add(), and one flush() or close().
    """

    problem: object | None = None
    """Why nothing is written, for the health check."""

    def add(self, recorder: RequestRecorder) -> None:
        """Record a request that has ended."""

    def drop(self) -> None:
        """Count a request of which too little is known."""

    def saw(self, host: str, uuid: str, instance: Any | None) -> bool:
        """Record that an instance is on a host, or is there no more: None. Return
        whether it waits to be written."""
        return False

    def flush(self) -> None:
        """Write what waits."""

    def close(self) -> None:
        """Write what waits, and end."""


class RecordingLog(DecisionLog):
    """Makes a record of each request, and has it written.

    ``keeps`` says of a result whether its whole record is kept; of others the head
    and the servers are. ``whole`` encodes a whole request. Nothing waits for its two
    threads. One makes records every PAUSE_S, the other writes them: while the disk
    stalls, no request stays in memory.
    """

    def __init__(
        self,
        builder: RecordBuilder,
        pending: PendingRecords,
        clock: Clock,
        fault: FaultText,
        observer: RequestObserver | None = None,
        keeps: Callable[[str], bool] = lambda result: True,
        sleep: Callable[[float], None] | None = None,
        whole: Callable[[RequestRecorder], bytes | None] = lambda recorder: None,
        history: RequestHistory | None = None,
    ) -> None:
        self._builder = builder
        self._pending = pending
        self._clock = clock
        self._fault = fault
        self._observer = observer or RequestObserver()
        self._keeps = keeps
        self._whole = whole
        self._history = history or RequestHistory()
        self._rng = random.SystemRandom()
        self._sleep = sleep or time.sleep  # that of eventlet, where it is used
        self._waiting: deque[RequestRecorder] = deque()
        self._held = 0
        self._holding = threading.Lock()
        self._maker = TaskThread('decision-log', self._make_all, PAUSE_S)
        self._writer = TaskThread(
            'decision-writer',
            self._write,
            again_s=lambda: pending.again_s,
            last=self._history.close,
        )
        self._logged = LogOnce()

    @property
    def waits_s(self) -> float:
        """The seconds for which the oldest request has waited for its record."""
        try:
            return self._clock.monotonic() - self._waiting[0].ended_s
        except IndexError:
            return 0.0

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

    def saw(self, host: str, uuid: str, instance: Any | None) -> None:
        if self._history.saw(host, uuid, instance):
            self._writer.notify()

    def _write(self) -> None:
        self._pending.flush()
        self._history.flush()

    def _take_in(self, recorder: RequestRecorder) -> None:
        """Have a request that has ended written down soon; raise nothing, as its claims
        are settled."""
        try:
            self._queue(recorder)
        except Exception:
            if self._logged.begins('queue'):
                LOG.exception('Request %s leaves no record', recorder.id)
            with contextlib.suppress(Exception):  # counting may be what fails
                self._pending.count_lost(1)
        else:
            self._logged.ends('queue')

    def _queue(self, recorder: RequestRecorder) -> None:
        if self._holds(recorder):
            self._waiting.append(recorder)
            self._maker.notify()
        else:
            self._add(recorder, whole=False)
            self._writer.notify()

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

    def _make_all(self) -> None:
        """Make the records of all requests that have ended."""
        while self._waiting:
            for _ in range(min(AT_ONCE, len(self._waiting))):
                try:
                    self._add(self._waiting[0])
                finally:
                    self._let_go()
                self._sleep(0)  # lets requests go on, where threads are green
            self._writer.notify()

    def _let_go(self) -> None:
        recorder = self._waiting.popleft()
        with self._holding:
            self._held -= recorder.size

    def _add(self, recorder: RequestRecorder, whole: bool = True) -> None:
        """Make the record of a request, ``whole`` or its head and servers, and have it
        wait to be written.

        No request may suffer if it cannot be made.
        """
        if whole:
            self._history.add(recorder)
        else:
            self._history.drop()
        since = self._clock.monotonic()
        try:
            record = self._record(recorder, whole)
            if whole and recorder.is_kept_whole:
                record = replace(record, whole=self._kept(recorder))
            if record.head.result == UNSCHEDULABLE:
                log_failure(record.head, record.body, recorder.context)
            took_s = self._clock.monotonic() - since
            self._observer.recorded(recorder, record, took_s)
        except Exception:
            LOG.exception('No record can be made of request %s', recorder.id)
            self._pending.count_lost(1)
        else:
            self._pending.add([record])
        finally:
            recorder.error = None  # its frames refer to the recorder, and to the tables

    def _record(self, recorder: RequestRecorder, whole: bool) -> DecisionRecord:
        if whole and self._keeps(verdict(recorder).result):
            try:
                return self._builder.record(recorder)
            except BaseException:  # plugins are asked; the thread goes on
                LOG.exception('Record %s is stored without its body', recorder.id)
        return self._builder.outcome(recorder)

    def _kept(self, recorder: RequestRecorder) -> bytes | None:
        """Return the whole request; without it the record is written all the same."""
        try:
            return self._whole(recorder)
        except Exception:  # what plugins put on hosts may have no form in JSON
            LOG.exception('Request %s is not kept whole', recorder.id)
            return None

    def close(self) -> None:
        """Write what has come, for a short time at most, and stop."""
        self._maker.close()
        self._observer.close()
        self._pending.retry_now()
        self._writer.close()
        if left := len(self._pending):
            LOG.warning('%d records of decisions are not written at the end', left)


class CollectedRecords(DecisionLog):
    """Makes the record of each request as soon as it ends, and keeps it here, and its
    recorder; for dry runs."""

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
        self.recorders.clear()
        self.records.clear()
