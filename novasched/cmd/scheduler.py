# SPDX-License-Identifier: Apache-2.0
"""novasched-scheduler: the daemon."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence

from oslo_config import cfg

from novasched.cmd import daemon

NAME = 'novasched-scheduler'
DOES = 'Choose hosts for instances, as nova-scheduler does.'


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon; what keeps it from running is one line and exit code 1."""
    return daemon.run(NAME, DOES, argv, _serve)


def _serve(argv: Sequence[str]) -> int:
    # Only now may modules be imported that threads or eventlet concern.
    from novasched.app import instrumented, preflight
    from novasched.app.sources import Kept
    from novasched.process import guru_meditation, service, workers

    conf = preflight.configure(cfg.CONF, argv)
    preflight.check(conf)
    # Each worker of a shadow would hear all requests.
    wanted = 1 if conf.novasched.shadow else conf.scheduler.workers
    count = wanted or os.cpu_count() or 1
    with (
        instrumented.sharing(conf, count) as shared,
        contextlib.closing(instrumented.announcement(conf, count)) as announcement,
    ):
        worker = workers.Worker(
            functools.partial(instrumented.from_conf, conf, shared, Kept()),
            functools.partial(preflight.reread, conf, argv),
            functools.partial(guru_meditation.watch, conf),
            announcement,
            drain_s=functools.partial(service.drain_s_of, conf),
        )
        guru_meditation.arrange(conf, worker.state)
        return workers.serve(conf, worker, count, shared)
