# SPDX-License-Identifier: Apache-2.0
"""Schedulers whose health and metrics are shown, if the options say where."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from oslo_config import cfg
from oslo_service import backend  # type: ignore[import-untyped]

from novasched import app
from novasched.cluster.heartbeat import BINARY
from novasched.observing import sharing as sharing_
from novasched.observing.addresses import Wanted
from novasched.observing.announcement import DaemonAnnouncement, State
from novasched.observing.host import HostService
from novasched.observing.probing import Probe
from novasched.observing.sharing import Shared
from novasched.observing.worker import Life, ObservedLife, Settings
from novasched.placement import session
from novasched.rpc.transport import address, is_rabbit
from novasched.rpc.waiting import problem_of
from novasched.service import Scheduler, SystemClock, host_of


class Unobserved(NamedTuple):
    """Nothing is shown."""

    beside: tuple[HostService, ...] = ()


@contextlib.contextmanager
def sharing(conf: cfg.ConfigOpts, workers: int) -> Iterator[Shared | Unobserved]:
    """Make what so many workers share; ``beside`` is what runs beside them.

    Raises errors.OptionError.
    """
    wanted = Wanted.from_conf(conf)
    if not wanted:
        yield Unobserved()
        return
    settings = Settings.from_conf(conf, host_of(conf), BINARY)
    if backend.get_backend_type() == backend.BackendType.EVENTLET:
        # Its launcher stops a service in the thread that all others wait for.
        settings = replace(settings, stop_s=0.0)
    with sharing_.shared(wanted, workers, settings, SystemClock()) as shared:
        yield shared


def from_conf(conf: cfg.ConfigOpts, shared: Shared | Unobserved) -> Life:
    """Compose a scheduler from its configuration, in the process of a worker."""
    given = app.given_from_conf(conf)
    if isinstance(shared, Unobserved):
        return _composed(conf, given)
    return compose(conf, given, shared)


def compose(conf: cfg.ConfigOpts, given: app.Given, shared: Shared) -> Life:
    """Compose a scheduler that is observed. It closes what is given when it ends."""
    doors = shared.observer.doors()
    on_decision = doors.decisions(given.on_decision)
    given = replace(given, doors=doors, on_decision=on_decision)
    scheduler = _composed(conf, given)
    placement = Probe('placement', lambda: session.check(given.placement))
    if not is_rabbit(conf):
        return ObservedLife(scheduler, shared.observer, doors, (placement,))
    listens = functools.partial(problem_of, scheduler.server)
    probes = Probe('message_bus', listens, always=True), placement
    return ObservedLife(scheduler, shared.observer, doors, probes, listens)


def _composed(conf: cfg.ConfigOpts, given: app.Given) -> Scheduler:
    """Compose a scheduler that closes what is given, last of all, when it ends."""
    scheduler = app.compose(conf, given)

    def close() -> None:
        scheduler.close()
        given.close()

    return replace(scheduler, close=close)


def announcement(conf: cfg.ConfigOpts, workers: int) -> DaemonAnnouncement:
    """Return what the log says of all workers, made before they are forked."""
    version = importlib.metadata.version('novasched')
    wanted = Wanted.from_conf(conf)

    def describe(state: State) -> str:
        return '; '.join(
            (
                f'host {host_of(conf)}',
                f'{workers} workers',
                f'messages at {address(conf)}',
                f'{len(state["cells"])} cells',
                f'{state["hosts"]} hosts',
                f'driver {conf.scheduler.driver}',
                f'filters {_listed(state["filters"])}',
                f'weighers {_listed(state["weighers"])}',
                f'health at {_listed(wanted.health)}',
                f'metrics at {_listed(wanted.metrics)}',
            )
        )

    return DaemonAnnouncement(version, workers, describe)


def _listed(each: Iterable[object]) -> str:
    return ', '.join(map(str, each)) or 'none'
