# SPDX-License-Identifier: Apache-2.0
"""A program of the lab: its configuration, a try of what that names, its workers.

It refuses to serve in the database of a running nova. There a conductor of the lab
would take builds from the users of that cloud, and lose them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_service import service  # type: ignore[import-untyped]
from oslo_utils import timeutils

from novasched import errors
from novasched.cluster.services import Window, down_time
from novasched.db import engines, services
from novasched.db.transactions import Database
from novasched.placement import session
from novasched.ports import ServiceRow
from novasched.process import configuration
from novasched.process.workers import PROBLEMS
from novasched.rpc import logs, transport
from novasched_lab import opts
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
    refuse_beside_nova(conf)
    with contextlib.ExitStack() as opened:
        broker = transport.transport_from_conf(conf)
        opened.callback(broker.cleanup)
        transport.check(broker)
        placement = session.from_conf(conf)
        opened.callback(placement.session.session.close)
        if problem := session.check(placement):
            LOG.warning('[placement]: %s', problem)


class LabWorker(service.ServiceBase):  # type: ignore[misc]
    """One worker: makes a service with start() and stop() after the fork.

    A failure to start is one line of the log, and exit code 1.
    """

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make, self._name = make, name
        self._service: Any = None
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
    conf: cfg.ConfigOpts, make: Callable[[], Any], workers: int, name: str
) -> int:
    """Run workers of a program until a signal stops them; return the exit code."""
    launcher = service.launch(conf, LabWorker(make, name), workers, 'mutate')
    return int(launcher.wait() or 0)


BINARIES = ('nova-conductor', 'nova-compute')
UUID_VERSION = 5
"""The version in the uuids of our services rows; nova's are of version 4."""


def new_uuid() -> str:
    """Return the uuid of a services row of the lab."""
    return str(uuid.UUID(bytes=os.urandom(16), version=UUID_VERSION))


def refuse_beside_nova(conf: cfg.ConfigOpts) -> None:
    """Look for a living conductor or compute of nova in [database] connection.

    Raises errors.OptionError if there is one, unless ``--beside-nova`` is given, and
    errors.StoreFailed.
    """
    if conf.beside_nova:
        return
    down_s, _ = down_time(conf.service_down_time, conf.report_interval)
    window = Window.around(timeutils.utcnow(), down_s)
    engine = engines.main_engine(conf)
    try:
        found = Database(engine).reading(
            lambda connection: [
                row for name in BINARIES for row in services.read(connection, name)
            ]
        )
    finally:
        engine.dispose()
    for row in found:
        if window.holds(row) and not _is_ours(row):
            raise errors.OptionError(
                engines.MAIN,
                f'{row.binary} is alive on {row.host}, and this program would take '
                'its work',
                f'Use the database of a test cloud, or give --{BESIDE_NOVA.name}',
            )


def _is_ours(row: ServiceRow) -> bool:
    try:
        return uuid.UUID(row.uuid).version == UUID_VERSION
    except (TypeError, ValueError):
        return False
