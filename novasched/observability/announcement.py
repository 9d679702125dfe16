# SPDX-License-Identifier: Apache-2.0
"""One line of the log for the start, each reload and the stop of the whole daemon."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

LOG = logging.getLogger(__name__)

State = Mapping[str, Any]
"""The state of a service: see service.Scheduler.state()."""

COUNT = struct.Struct('!Q')


class Countdown:
    """Says to one of several processes, forked later, that it is the last of them.

    A socket pair holds one byte for each: to take one is atomic, and a process that is
    killed holds nothing up.
    """

    def __init__(self, processes: int) -> None:
        self._bytes = bytes(processes - 1) + b'\1'
        self._taking, self._giving = socket.socketpair()
        for end in (self._taking, self._giving):
            end.setblocking(False)
        self.start_over()

    def start_over(self) -> None:
        """Count all processes once more."""
        with contextlib.suppress(BlockingIOError):
            while self._taking.recv(len(self._bytes)):
                pass
        self._giving.sendall(self._bytes)

    def is_last(self) -> bool:
        """Count this process; say whether all others were counted before."""
        try:
            return self._taking.recv(1) == b'\1'
        except BlockingIOError:
            return False

    def close(self) -> None:
        for end in (self._taking, self._giving):
            end.close()


class Announcement:
    """Logs one line for all workers: that of the last to start or to reload.

    ``describe`` makes a text of the state of that worker.
    """

    def __init__(
        self, version: str, workers: int, describe: Callable[[State], str]
    ) -> None:
        self._version = version
        self._describe = describe
        self._starts = Countdown(workers)
        self._reloads = Countdown(workers)
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)

    def started(self, state: Callable[[], State]) -> None:
        """A worker serves for the first time."""
        if self._starts.is_last():
            LOG.info(
                'Starting scheduler node (version %s): %s',
                self._version,
                self._describe(state()),
            )

    def reloading(self) -> None:
        """Announce that all workers are about to reload."""
        self._reloads.start_over()

    def reloaded(self, state: Callable[[], State]) -> None:
        """A worker serves with what it has read again."""
        if self._reloads.is_last():
            self._reloads.start_over()
            LOG.info(
                'Reloaded the configuration, the cells and the plugins: %s',
                self._describe(state()),
            )

    def finished(self, requests: int) -> None:
        """A worker ends, after answering so many requests."""
        with contextlib.suppress(BlockingIOError):  # as when thousands were killed
            self._writing.send(COUNT.pack(requests))

    def stopped(self) -> None:
        """All workers have ended."""
        packed = b''
        with contextlib.suppress(BlockingIOError):
            while True:
                packed += self._reading.recv(COUNT.size)
        requests = sum(count for (count,) in COUNT.iter_unpack(packed))
        LOG.info(
            'Stopped scheduler node (version %s): %d requests were finished',
            self._version,
            requests,
        )

    def close(self) -> None:
        """Let go of what the processes share."""
        self._starts.close()
        self._reloads.close()
        for end in (self._reading, self._writing):
            end.close()
