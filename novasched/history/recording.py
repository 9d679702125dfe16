# SPDX-License-Identifier: Apache-2.0
"""Recording: requests that have ended become lines of a history."""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from novasched.decisions import history
from novasched.decisions.log import RequestHistory
from novasched.decisions.recording import RequestRecorder
from novasched.history import encoding
from novasched.history.encoding import StateEncoder
from novasched.history.files import Chunk, HistorySettings, HistoryWriter
from novasched.history.orders import Line
from novasched.history.providers import ProviderEncoder
from novasched.providers.table import ProviderTable
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce
from novasched.runtime.times import time_of
from novasched.scheduler import pipeline
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.weighers import Weigher

LOG = logging.getLogger(__name__)

MOST_EVENTS = 10_000
"""Instances that came or went and are not written yet; of more, the oldest are lost."""
PURE = 'novasched.scheduler.'
Profile = Mapping[str, Any]
"""``nova_release``, ``options`` by group, and ``foreign``: plugins of others."""


def foreign_plugins(profile: pipeline.Profile) -> list[str]:
    """Return the filters and weighers that may ask what is outside of a request: those
    of others, and those that ask a service."""
    plugins: list[BaseHostFilter | Weigher] = [*profile.filters, *profile.weighers]
    others = [p for p in plugins if not type(p).__module__.startswith(PURE)]
    return [each.name for each in others]


class HistoryRecorder(RequestHistory):
    """Records the requests of one worker.

    What cannot be recorded is counted, and the history says so. ``profile`` returns the
    same object while it is the same.
    """

    def __init__(
        self,
        settings: HistorySettings,
        host: str,
        profile: Callable[[], Profile],
        providers: Callable[[], ProviderTable | None] = lambda: None,
        count: Callable[[str, int], None] = lambda outcome, requests: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        begun = time_of(int(clock.time() * 1e6), '%Y%m%dT%H%M%S.%f')
        self._stream = f'{begun}-{host}-{os.getpid()}'.replace('/', '_')
        self.writer = HistoryWriter(settings, self._stream, count, clock)
        self._host = host
        self._profile = profile
        self._providers = providers
        self._clock = clock
        self._lock = threading.Lock()
        self._events: deque[Line] = deque(maxlen=MOST_EVENTS)
        self._seq = itertools.count(1)
        self._logged = LogOnce()
        self._restart()

    def _restart(self) -> None:
        """Write the whole state with the next request."""
        self._state, self._of_providers = StateEncoder(), ProviderEncoder()
        self._name, self._profiles = '', dict[str, Profile]()

    def add(self, recorder: RequestRecorder) -> None:
        with self._lock:
            seq, chunk = next(self._seq), None
            if self.writer.may_write:
                begins = self.writer.is_broken or self.writer.is_full
                chunk = self._chunk(recorder, seq, begins)
            if chunk is None or not self.writer.put(chunk):
                self.writer.drop(1)

    def _chunk(self, recorder: RequestRecorder, seq: int, begins: bool) -> Chunk | None:
        """Return the lines of a request, None if it cannot be recorded."""
        if begins:
            self._restart()
        try:
            lines = self._lines(recorder, seq)
            return Chunk(
                encoding.text_of([self._header(), *lines] if begins else lines),
                begins,
                requests=1,
            )
        except Exception as problem:  # plugins may put anything on hosts
            self._restart()
            if self._logged.begins(value=f'{type(problem).__name__}: {problem}'):
                LOG.exception('Request %s is not in the history', recorder.id)
            return None

    def drop(self) -> None:
        next(self._seq)
        self.writer.drop(1)

    def saw(self, host: str, uuid: str, instance: Any | None) -> bool:
        line = {'instance': uuid, 'host': host, 'at': round(self._clock.time(), 6)}
        if instance is None:
            line['ended'] = True
        else:
            line['flavor'] = history.flavor_of(instance)
        self._events.append(line)
        return True

    def flush(self) -> None:
        with self._lock:
            if not self.writer.is_broken:  # only this thread finds that it is
                self._put_beside()
        self.writer.flush()

    def _put_beside(self) -> None:
        """Have lines written on what is no request."""
        lines = [self._events.popleft() for _ in range(len(self._events))]
        if dropped := self.writer.take_dropped():
            lines.append({'dropped': dropped, 'at': round(self._clock.time(), 6)})
        if lines:
            self.writer.put(Chunk(encoding.text_of(lines)))

    def _lines(self, recorder: RequestRecorder, seq: int) -> list[Line]:
        lines = self._of_providers.lines(self._providers(), recorder.at)
        lines += self._profile_lines()
        first = history.first_decision(recorder)
        if first is not None:
            lines += self._state.lines(first.hosts)
            lines += self._state.order_lines(first)
        line = encoding.request_line(recorder, seq, self._name, self._state)
        return [*lines, line]

    def _header(self) -> Line:
        return {
            'history': encoding.FORM,
            'stream': self._stream,
            'novasched': importlib.metadata.version('novasched'),
            'host': self._host,
            'pid': os.getpid(),
            'at': round(self._clock.time(), 6),
        }

    def _profile_lines(self) -> list[Line]:
        """Return the line of the profile, unless the file has it."""
        profile = self._profile()
        if profile is self._profiles.get(self._name):
            return []
        text = json.dumps(profile, sort_keys=True, default=str)
        self._name = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._profiles[self._name] = profile
        return [{'profile': self._name, **profile}]

    def close(self) -> None:
        self.writer.close()
