# SPDX-License-Identifier: Apache-2.0
"""novasched-conductor: the daemon that has instances placed, built and moved."""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
from collections.abc import Sequence

from oslo_config import cfg

from novasched.cmd import daemon
from novasched_lab.cmd import BESIDE_NOVA

NAME = 'novasched-conductor'
DOES = 'Have instances placed, built and moved, as nova-conductor does.'


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon; what keeps it from running is one line and exit code 1."""
    return daemon.run(NAME, DOES, argv, _serve, [BESIDE_NOVA])


def _serve(argv: Sequence[str]) -> int:
    # Only now may modules be imported that threads or eventlet concern.
    from novasched_lab import program
    from novasched_lab.conductor import service as conductor

    faulthandler.register(signal.SIGUSR2)  # shows what all threads do
    conf = program.configure(cfg.CONF, argv, conductor.BINARY)
    program.check(conf)
    workers = conf.conductor.workers or os.cpu_count() or 1
    make = functools.partial(conductor.from_conf, conf)
    return program.serve(conf, make, workers, conductor.BINARY)
