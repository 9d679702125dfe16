# SPDX-License-Identifier: Apache-2.0
"""Worker processes: each has one scheduler at a time, and replaces it at SIGHUP.

The new one takes requests before the old one takes no more, so none waits for it.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import cotyledon
from oslo_config import cfg
from oslo_messaging import MessagingException  # type: ignore[import-untyped]
from oslo_service import backend, service  # type: ignore[import-untyped]

from novasched import errors
from novasched.cluster.heartbeat import BINARY
from novasched.observability.worker import WorkerService
from novasched.runtime.clock import SYSTEM_CLOCK

LOG = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Between two signals to a worker under eventlet, which hears none for a moment."""

State = Mapping[str, Any]
"""The state of a service: see service.Scheduler.state()."""

Result = TypeVar('Result')

PROBLEMS = (errors.NovaschedError, cfg.Error, MessagingException)


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
    """Logs one line for all workers, at the start, at each reload and at the stop: that
    of the last to start or to reload.

    ``describe`` makes a text of the state of that worker.
    """

    def __init__(
        self, version: str, workers: int, describe: Callable[[State], str]
    ) -> None:
        self._version = version
        self._describe = describe
        self._starts = Countdown(workers)
        self._reloads = Countdown(workers)
        self._finished = os.eventfd(0, os.EFD_NONBLOCK)

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
        """A worker ends, after answering so many requests; the kernel adds them up."""
        os.eventfd_write(self._finished, requests)

    def stopped(self) -> None:
        """All workers have ended."""
        requests = 0
        with contextlib.suppress(BlockingIOError):  # there was none
            requests = os.eventfd_read(self._finished)
        LOG.info(
            'Stopped scheduler node (version %s): %d requests were finished',
            self._version,
            requests,
        )

    def close(self) -> None:
        """Let go of what the processes share."""
        self._starts.close()
        self._reloads.close()
        os.close(self._finished)


def _settle() -> None:
    """Take what lives as long as the process out of garbage collection.

    An answer of placement has 100,000 objects; reading it starts full collections.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _outcome(do: Callable[[], Result]) -> Result | Exception:
    """Return the result of a function, or the problem it raises if that is no defect.

    It is to be logged later: the log adds a problem that is being handled to the line.
    """
    try:
        return do()
    except PROBLEMS as problem:
        return problem


class Worker(service.ServiceBase):  # type: ignore[misc]
    """One worker: makes its scheduler after the fork, replaces it, and stops it.

    If it cannot start, it logs one line and exits with 1. ``reread`` reads the
    configuration again, or raises and changes nothing. The parent does only that, for
    later workers, waits ``pause_s`` and signals the workers. ``begin`` is called once
    per worker, ``settle`` once a scheduler serves.
    """

    def __init__(
        self,
        make: Callable[[], WorkerService],
        reread: Callable[[], None],
        begin: Callable[[], None],
        announcement: Announcement,
        settle: Callable[[], None] = _settle,
        # how long the stop waits for requests of before a reload
        drain_s: Callable[[], float] = lambda: threading.TIMEOUT_MAX,
    ) -> None:
        self._make = make
        self._settle = settle
        self._drain_s = drain_s
        self._reread = reread
        self._begin = begin
        self.announcement = announcement
        self.pause_s = 0.0
        self._service: WorkerService | None = None
        self._answered = 0
        self._begun = False
        self._stopping = False
        self._stopped = threading.Event()
        self._swapping = threading.Lock()
        self._reloading = threading.Lock()
        self._wanted = threading.Event()
        self._reloads: list[threading.Thread] = []

    def start(self) -> None:
        self._begun = True
        self._begin()
        with self._reloading:
            serving = _outcome(self._started)
            if isinstance(serving, Exception):
                LOG.critical('%s: %s', BINARY, serving)
                raise SystemExit(1)
            if late := self._swapped(serving):
                late.stop()
            else:
                self.announcement.started(serving.state)
            self._settle()

    def _started(self) -> WorkerService:
        serving = self._make()
        serving.start()
        return serving

    def _swapped(self, serving: WorkerService) -> WorkerService | None:
        """Serve with this one from now on; return the one that is to end."""
        with self._swapping:
            if self._stopping:
                return serving
            before, self._service = self._service, serving
            return before

    def reset(self) -> None:
        """Begin to read everything again; a reload that has not begun does for all
        that asked for one."""
        if not self._begun:
            self.announcement.reloading()
            self._reread_or_tell()
            time.sleep(self.pause_s)
        elif not self._wanted.is_set():
            self._wanted.set()
            thread = threading.Thread(target=self._reload, name='reload', daemon=True)
            alive = [each for each in self._reloads if each.is_alive()]
            self._reloads = [*alive, thread]
            thread.start()

    def _reread_or_tell(self) -> bool:
        problem = _outcome(self._reread)
        if problem:
            LOG.error('Reloading failed, all goes on as it was: %s', problem)
        return problem is None

    def _reload(self) -> None:
        with self._reloading:
            self._wanted.clear()
            if self._stopping or not self._reread_or_tell():
                return
            serving = self._new()
            before = None if serving is None else self._swapped(serving)
        if serving is not None and before is not None:
            if before is not serving:
                self.announcement.reloaded(serving.state)
            self._end(before, None if before is serving else serving)
            del before
            self._settle()

    def _end(
        self, serving: WorkerService, successor: WorkerService | None = None
    ) -> None:
        answered = serving.stop(successor)
        with self._swapping:
            self._answered += answered

    def _new(self) -> WorkerService | None:
        """Return a scheduler that serves; None, logged, if there can be none now."""
        try:
            found = _outcome(self._started)
        except Exception as problem:  # the end of a thread
            LOG.exception('Reloading failed by a defect: %s', problem)
            return None
        if isinstance(found, Exception):
            LOG.error('Reloading failed, the scheduler goes on as it was: %s', found)
            return None
        return found

    def stop(self) -> None:
        """Finish what is in hand, in the scheduler of before a reload, too."""
        with self._swapping:
            self._stopping, serving = True, self._service
        until_s = SYSTEM_CLOCK.monotonic() + self._drain_s()
        if serving is not None:
            self._end(serving)
        for reload in self._reloads:
            reload.join(max(0.0, until_s - SYSTEM_CLOCK.monotonic()))
        self.announcement.finished(self._answered)
        self._stopped.set()

    def wait(self) -> None:
        self._stopped.wait()

    def state(self) -> Mapping[str, Any]:
        """Return the state of the scheduler; nothing before there is one."""
        return {} if self._service is None else self._service.state()


class _Process(cotyledon.Service):
    """A process in which a service of oslo.service runs."""

    name = 'scheduler'

    def __init__(self, worker_id: Any, service: Any) -> None:
        super().__init__(worker_id)
        self._service = service

    def run(self) -> None:
        self._service.start()
        self._service.wait()

    def terminate(self) -> None:
        self._service.stop()

    def reload(self) -> None:
        self._service.reset()


class _Green:
    """The configuration, for a launcher that would read it again by itself."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conf, name)

    def mutate_config_files(self) -> None:
        """Leave it to the services, of which each is reset."""


class _Beside(_Process):
    """A process that shows what the workers say."""

    name = 'observer'


def _survive() -> None:
    """Let a worker of eventlet's launcher live through a second SIGHUP that comes while
    it handles the first. The launcher restores the default, which kills."""
    handler = service.SignalHandler()
    clear = handler.clear

    def clear_and_ignore() -> None:
        clear()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    handler.clear = clear_and_ignore


def serve(conf: cfg.ConfigOpts, worker: Worker, workers: int, beside: Any) -> int:
    """Run workers, and a process ``beside`` them, if any; return the exit code."""
    code = _run(conf, worker, workers, beside)
    worker.announcement.stopped()
    return code


def _run(conf: cfg.ConfigOpts, worker: Worker, workers: int, beside: Any) -> int:
    if backend.get_backend_type() == backend.BackendType.EVENTLET:
        _survive()
        worker.pause_s = PAUSE_S
        launcher = service.launch(_Green(conf), worker, workers, 'mutate')
        if beside is not None:
            launcher.launch_service(beside, workers=1)
        return int(launcher.wait() or 0)
    manager = cotyledon.ServiceManager(
        graceful_shutdown_timeout=conf.graceful_shutdown_timeout,
        mp_context=multiprocessing.get_context('fork'),
    )
    manager.register_hooks(on_reload=worker.reset)
    manager.add(_Process, workers, args=(worker,))
    if beside is not None:
        manager.add(_Beside, 1, args=(beside,))
    try:
        manager.run()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
