# SPDX-License-Identifier: Apache-2.0
"""Schedulers whose health and metrics are shown, if the options say where."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from oslo_config import cfg

from novasched import app
from novasched.cluster.heartbeat import BINARY
from novasched.observing import sharing as sharing_
from novasched.observing.addresses import Wanted
from novasched.observing.host import HostService
from novasched.observing.sharing import Shared
from novasched.observing.worker import Life, ObservedLife, Probe, Settings
from novasched.placement import session
from novasched.rpc.transport import is_rabbit
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
    probes = _probes(conf, given, scheduler)
    return ObservedLife(scheduler, shared.observer, doors, probes)


def _composed(conf: cfg.ConfigOpts, given: app.Given) -> Scheduler:
    """Compose a scheduler that closes what is given, last of all, when it ends."""
    scheduler = app.compose(conf, given)

    def close() -> None:
        scheduler.close()
        given.close()

    return replace(scheduler, close=close)


def _probes(
    conf: cfg.ConfigOpts, given: app.Given, scheduler: Scheduler
) -> tuple[Probe, ...]:
    placement = Probe('placement', lambda: session.check(given.placement))
    if not is_rabbit(conf):
        return (placement,)
    bus = Probe('message_bus', lambda: problem_of(scheduler.server), always=True)
    return bus, placement
