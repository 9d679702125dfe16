# SPDX-License-Identifier: Apache-2.0
"""The directory with sockets and values that the processes of a host share."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from novasched.observability.addresses import Wanted
from novasched.observability.host import HostService, Workers, show_metrics
from novasched.observability.requests import NoNumbers, Numbers
from novasched.observability.worker import Observer, Settings
from novasched.ports import Clock

ENVIRONMENT = 'PROMETHEUS_MULTIPROC_DIR'
"""Where prometheus_client keeps values that processes share."""

RUNTIME = 'RUNTIME_DIRECTORY'
"""Where systemd says that a service may keep what need not outlive it."""


@dataclass(frozen=True)
class Shared:
    """What workers are observed with, and the services that show it."""

    wanted: Wanted
    directory: str
    settings: Settings
    clock: Clock
    beside: tuple[HostService, ...]

    @functools.cached_property
    def observer(self) -> Observer:
        """That of a worker; look at it in its process only."""
        numbers: Numbers = NoNumbers()
        if self.wanted.metrics:
            # It settles at its import where values are kept: see there.
            from novasched.observability import prometheus

            numbers = prometheus.Metrics(self.wanted.prefix)
        return Observer(
            self.settings,
            self.clock,
            self.directory,
            numbers,
            forgetting(self.wanted, self.directory),
        )


def forgetting(wanted: Wanted, directory: str) -> Callable[[int], None]:
    """Return what forgets the gauges of a process that is gone."""

    def forget(pid: int) -> None:
        if wanted.metrics:
            from novasched.observability import prometheus

            prometheus.bury(pid, directory)

    return forget


@contextlib.contextmanager
def shared(
    wanted: Wanted, workers: int, settings: Settings, clock: Clock
) -> Iterator[Shared]:
    """Make what the workers of a host share, before they are forked.

    It is removed when the process that made it is done.
    """
    with _directory() as directory:
        if wanted.metrics:
            os.environ[ENVIRONMENT] = directory
        there = HostService(
            wanted,
            Workers(directory, workers, forgetting(wanted, directory)),
            settings,
            clock,
            show_metrics(directory, wanted.prefix),
        )
        yield Shared(wanted, directory, settings, clock, (there,))


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """Make a directory for this user alone; a forked process does not remove it."""
    above = os.environ.get(RUNTIME, '').partition(':')[0] or None
    directory, maker = tempfile.mkdtemp(prefix='novasched-', dir=above), os.getpid()
    try:
        yield directory
    finally:
        if os.getpid() == maker:
            os.environ.pop(ENVIRONMENT, None)
            shutil.rmtree(directory, ignore_errors=True)
