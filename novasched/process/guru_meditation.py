# SPDX-License-Identifier: Apache-2.0
"""The Guru Meditation Report: the state of a process when a signal asks for it.

It has what nova's has (versions, threads, processes, the configuration without its
secrets), and what the scheduler knows of the cloud.
"""

from __future__ import annotations

import _thread
import importlib.metadata
import os
import platform
import queue
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from oslo_config import cfg
from oslo_reports import guru_meditation_report, opts
from oslo_reports.models.with_default_views import ModelWithDefaultViews

from novasched import errors, printable

OPTS: dict[str, list[cfg.Opt]] = {
    group: list(options) for group, options in opts.list_opts()
}

NAME = 'novasched-scheduler'
PATIENCE_S = 5.0
LIBRARIES = ('novasched', 'numpy', 'oslo.db', 'oslo.messaging', 'sqlalchemy')


class Version:
    """What oslo.reports asks about a program."""

    def __init__(self, name: str = NAME) -> None:
        self._name = name

    def vendor_string(self) -> str:
        return 'novasched'

    def product_string(self) -> str:
        return self._name

    def version_string_with_package(self) -> str:
        return importlib.metadata.version('novasched')


class Meditation(guru_meditation_report.TextGuruMeditation):
    """The report as text, made in a thread: the one that gets the signal may hold
    what is looked at."""

    def run(self) -> str:
        return printable.lines(super().run())

    @classmethod
    def handle_signal(
        cls,
        version: Any,
        service_name: str | None,
        log_dir: str | None,
        frame: FrameType | None,
    ) -> None:
        # Not threading's: to wait for its start is not possible among eventlet's.
        make, name = super().handle_signal, f'{service_name}-{os.getpid()}'
        _thread.start_new_thread(make, (version, name, log_dir, None))


def _versions() -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {'python': platform.python_version(), **found}


def asked(
    state: Callable[[], Mapping[str, Any]], patience_s: float = PATIENCE_S
) -> Callable[[], ModelWithDefaultViews]:
    """Return a function that makes a section of what is known in time: what holds that
    up is in the stacks of the report."""

    def make() -> ModelWithDefaultViews:
        answers: queue.Queue[Mapping[str, Any]] = queue.Queue()
        _thread.start_new_thread(lambda: answers.put(state()), ())
        try:
            return ModelWithDefaultViews(answers.get(timeout=patience_s))
        except queue.Empty:
            return ModelWithDefaultViews({'no answer within seconds': patience_s})

    return make


def arrange(
    conf: cfg.ConfigOpts,
    state: Callable[[], Mapping[str, Any]],
    report: type[Meditation] = Meditation,
    name: str = NAME,
    section: str = 'Scheduler',
) -> None:
    """Report at SIGUSR2, in this process and those that it starts later.

    ``state`` returns what the program ``name`` knows, shown as
    ``section``. Where the options want
    it, a file is watched instead, in each worker: see ``watch``. Raises
    errors.OptionError if there is none.
    """
    report.register_section('Versions', lambda: ModelWithDefaultViews(_versions()))
    report.register_section(section, asked(state))
    path = conf.oslo_reports.file_event_handler
    if not path:
        report.setup_autorun(Version(name), name, conf=conf)
    elif not os.path.exists(path):
        raise errors.OptionError(
            '[oslo_reports] file_event_handler',
            f'there is no {path}',
            'Make the file, or do not set this.',
        )


def watch(
    conf: cfg.ConfigOpts, report: type[Meditation] = Meditation, name: str = NAME
) -> None:
    """Report when a file changes, if the options name one."""
    if conf.oslo_reports.file_event_handler:
        report.setup_autorun(Version(name), name, conf=conf, setup_signal=False)
