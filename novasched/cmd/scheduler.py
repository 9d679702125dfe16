# SPDX-License-Identifier: Apache-2.0
"""novasched-scheduler: the daemon."""

from __future__ import annotations

import faulthandler
import functools
import importlib.metadata
import os
import signal
import sys
from collections.abc import Sequence

from oslo_config import cfg

from novasched import errors
from novasched.cmd import concurrency

PROG = 'novasched-scheduler'
DESCRIPTION = 'Choose hosts for instances, as nova-scheduler does.'
QUESTIONS = {'-h', '--help', '--version'}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon; what keeps it from running is one line and exit code 1."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        if QUESTIONS.intersection(argv):
            _answer(argv)
        concurrency.select(argv)
        return _serve(argv)
    except (errors.NovaschedError, cfg.Error) as problem:
        sys.stderr.write(f'{PROG}: {problem}\n')
        return 1


def _answer(argv: Sequence[str]) -> None:
    """Print the help or the version and exit, without loading the daemon."""
    from oslo_log import log

    conf = cfg.ConfigOpts()
    log.register_options(conf)
    version = importlib.metadata.version('novasched')
    version = f'novasched {version}'
    conf(list(argv), prog=PROG, description=DESCRIPTION, version=version)


def _serve(argv: Sequence[str]) -> int:
    # Only now may modules be imported that threads or eventlet concern.
    from novasched import observed, preflight, service

    faulthandler.register(signal.SIGUSR2)  # shows what all threads do
    conf = preflight.configure(cfg.CONF, argv)
    preflight.check(conf)
    workers = conf.scheduler.workers or os.cpu_count() or 1
    with observed.sharing(conf, workers) as shared:
        make = functools.partial(observed.from_conf, conf, shared)
        return service.serve(conf, make, workers, *shared.beside)
