# SPDX-License-Identifier: Apache-2.0
"""Schedulers with health and metrics, if the options give these an address."""

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
from novasched.observability import sharing as sharing_
from novasched.observability.addresses import Wanted
from novasched.observability.announcement import DaemonAnnouncement, State
from novasched.observability.host import HostService
from novasched.observability.probing import Probe
from novasched.observability.sharing import Shared
from novasched.observability.worker import InstrumentedService, Service, Settings
from novasched.placement import session
from novasched.ports import SYSTEM_CLOCK
from novasched.rpc.transport import address, is_rabbit
from novasched.rpc.waiting import problem_of
from novasched.service import Scheduler, host_of


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
    with sharing_.shared(wanted, workers, settings, SYSTEM_CLOCK) as shared:
        yield shared


def from_conf(conf: cfg.ConfigOpts, shared: Shared | Unobserved) -> Service:
    """Compose a scheduler from its configuration, in the process of a worker."""
    dependencies = app.dependencies_from_conf(conf)
    if isinstance(shared, Unobserved):
        return _composed(conf, dependencies)
    return compose(conf, dependencies, shared)


def compose(
    conf: cfg.ConfigOpts, dependencies: app.Dependencies, shared: Shared
) -> Service:
    """Compose an instrumented scheduler, which closes its dependencies at its end."""
    instrumentation = shared.observer.instrumentation()
    on_decision = instrumentation.decisions(dependencies.on_decision)
    dependencies = replace(
        dependencies, instrumentation=instrumentation, on_decision=on_decision
    )
    scheduler = _composed(conf, dependencies)
    placement = Probe('placement', lambda: session.check(dependencies.placement))
    if not is_rabbit(conf):
        return InstrumentedService(
            scheduler, shared.observer, instrumentation, (placement,)
        )
    listens = functools.partial(problem_of, scheduler.server)
    probes = Probe('message_bus', listens, always=True), placement
    return InstrumentedService(
        scheduler, shared.observer, instrumentation, probes, listens
    )


def _composed(conf: cfg.ConfigOpts, dependencies: app.Dependencies) -> Scheduler:
    """Compose a scheduler that closes its dependencies, last of all, when it ends."""
    scheduler = app.compose(conf, dependencies)

    def close() -> None:
        scheduler.close()
        dependencies.close()

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
