# SPDX-License-Identifier: Apache-2.0
"""Configuration of a program of the lab, and a try of what it names."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from oslo_config import cfg
from oslo_log import log
from oslo_service import service  # type: ignore[import-untyped]

from novasched import configuration
from novasched.db import engines
from novasched.placement import session
from novasched.rpc import logs, transport
from novasched.workers import PROBLEMS
from novasched_lab import beside_nova, opts
from novasched_lab.cmd import BESIDE_NOVA

LOG = logging.getLogger(__name__)


def configure(
    conf: cfg.ConfigOpts, argv: Sequence[str], program: str
) -> cfg.ConfigOpts:
    """Read the configuration of nova's program of this name, and set up logging.

    Raises oslo_config.cfg.Error and errors.OptionError.
    """
    log.register_options(conf)
    opts.register(conf)
    conf.register_cli_opt(BESIDE_NOVA)
    prog = program.replace('nova-', 'novasched-')
    configuration.read(conf, argv, program, prog=prog)
    logs.set_up(conf)
    return conf


def check(conf: cfg.ConfigOpts) -> None:
    """Connect once to databases, broker and placement, and close all again.

    Placement may be away: that is a warning. Raises errors.OptionError.
    """
    with contextlib.ExitStack() as opened:
        for make, option in (
            (engines.api_engine, engines.API),
            (engines.main_engine, engines.MAIN),
        ):
            engine = make(conf)
            opened.callback(engine.dispose)
            engines.check(engine, option)
    check_services(conf)


def check_services(conf: cfg.ConfigOpts) -> None:
    """Connect once to broker and placement, as ``check`` does.

    Raises errors.OptionError, too, where nova itself serves.
    """
    beside_nova.check(conf)
    with contextlib.ExitStack() as opened:
        broker = transport.transport_from_conf(conf)
        opened.callback(broker.cleanup)
        transport.check(broker)
        placement = session.from_conf(conf)
        opened.callback(placement.session.session.close)
        if problem := session.check(placement):
            LOG.warning('[placement]: %s', problem)


class LabService(Protocol):
    """A service in the process of a worker."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class LabWorker(service.ServiceBase):  # type: ignore[misc]
    """One worker: makes its service after the fork, and stops it.

    A failure to start is one line of the log, and exit code 1.
    """

    def __init__(self, make: Callable[[], LabService], name: str) -> None:
        self._make, self._name = make, name
        self._service: LabService | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        if problem := self._start():
            # Not while it is handled: the log would add it to the line again.
            LOG.critical('%s: %s', self._name, problem)
            raise SystemExit(1)

    def _start(self) -> Exception | None:
        try:
            self._service = self._make()
            self._service.start()
        except PROBLEMS as problem:
            return problem
        return None

    def stop(self) -> None:
        if self._service is not None:
            self._service.stop()
        self._stopped.set()

    def wait(self) -> None:
        self._stopped.wait()

    def reset(self) -> None:
        """Do nothing: options are read only at the start."""


def serve(
    conf: cfg.ConfigOpts, make: Callable[[], LabService], workers: int, name: str
) -> int:
    """Run workers of a program until a signal stops them; return the exit code."""
    launcher = service.launch(conf, LabWorker(make, name), workers, 'mutate')
    return int(launcher.wait() or 0)
