# SPDX-License-Identifier: Apache-2.0
"""Schedulers with health and metrics, if the options give these an address."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable
from dataclasses import replace

from oslo_config import cfg
from oslo_service import backend  # type: ignore[import-untyped]

from novasched import app
from novasched.app import shadow
from novasched.app.sources import Kept
from novasched.cluster.heartbeat import BINARY
from novasched.observability import host
from novasched.observability.health import Probe
from novasched.observability.host import HostService
from novasched.observability.settings import Settings
from novasched.observability.worker import InstrumentedService, WorkerService
from novasched.placement import session
from novasched.process.service import host_of
from novasched.process.workers import Announcement, State
from novasched.rpc.server import problem_of
from novasched.rpc.transport import address, is_rabbit
from novasched.runtime.clock import SYSTEM_CLOCK


def sharing(
    conf: cfg.ConfigOpts, workers: int
) -> contextlib.AbstractContextManager[HostService | None]:
    """Make what the workers share, and what runs beside them; None if nothing is shown.

    Raises errors.OptionError.
    """
    settings = Settings.from_conf(conf, host_of(conf), BINARY)
    if backend.get_backend_type() == backend.BackendType.EVENTLET:
        # Its launcher stops a service in the thread that all others wait for.
        settings = replace(settings, stop_s=0.0)
    return host.shared(settings, workers, SYSTEM_CLOCK)


def from_conf(
    conf: cfg.ConfigOpts, shared: HostService | None, kept: Kept
) -> WorkerService:
    """Compose a scheduler from its configuration, in the process of a worker.

    It closes its dependencies, last of all, when it ends. ``kept`` is what the process
    knows by its schedulers of before.
    """
    compose = shadow.compose if conf.novasched.shadow else app.compose
    dependencies = replace(app.dependencies_from_conf(conf), kept=kept)
    if shared is None:
        return compose(conf, dependencies)
    instrumentation = shared.observer.instrumentation()
    scheduler = compose(conf, replace(dependencies, instrumentation=instrumentation))
    probes = [Probe('placement', lambda: session.check(dependencies.placement))]
    if not is_rabbit(conf):
        return InstrumentedService(scheduler, shared.observer, instrumentation, probes)
    listens = functools.partial(problem_of, scheduler.server)
    probes.insert(0, Probe('message_bus', listens, always=True))
    return InstrumentedService(
        scheduler, shared.observer, instrumentation, probes, listens
    )


def announcement(conf: cfg.ConfigOpts, workers: int) -> Announcement:
    """Return the log line on all workers, made before they are forked."""
    version = importlib.metadata.version('novasched')
    settings = Settings.from_conf(conf)

    def describe(state: State) -> str:
        return '; '.join(
            (
                f'host {host_of(conf)}',
                f'{workers} workers',
                state['release'],
                f'messages at {address(conf)}',
                f'{len(state["cells"])} cells',
                f'{state["hosts"]} hosts',
                f'driver {conf.scheduler.driver}',
                f'filters {_listed(state["filters"])}',
                f'weighers {_listed(state["weighers"])}',
                f'health at {_listed(settings.health)}',
                f'metrics at {_listed(settings.metrics)}',
            )
        )

    return Announcement(version, workers, describe)


def _listed(each: Iterable[object]) -> str:
    return ', '.join(map(str, each)) or 'none'
