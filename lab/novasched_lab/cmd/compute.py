# SPDX-License-Identifier: Apache-2.0
"""novasched-compute: many hosts with simulated hypervisors."""

from __future__ import annotations

import faulthandler
import functools
import signal
from collections.abc import Sequence

from oslo_config import cfg

from novasched.cmd import daemon
from novasched_lab.cmd import BESIDE_NOVA

FLEET = cfg.StrOpt('fleet', metavar='FILE', required=True, help='Hosts, as TOML.')
THREADS = 16
"""How many messages the hosts of one cell work on at once, unless it is set."""
NAME = 'novasched-compute'
DOES = 'Be the compute hosts of a file, as nova-compute is one.'


def main(argv: Sequence[str] | None = None) -> int:
    """Run the hosts; what keeps them from running is one line and exit code 1."""
    return daemon.run(NAME, DOES, argv, _serve, [FLEET, BESIDE_NOVA])


def _serve(argv: Sequence[str]) -> int:
    # Only now may modules be imported that threads or eventlet concern.
    from novasched_lab import program
    from novasched_lab.compute import fleet
    from novasched_lab.compute import service as compute

    faulthandler.register(signal.SIGUSR2)  # shows what all threads do
    cfg.CONF.register_cli_opt(FLEET)
    conf = program.configure(cfg.CONF, argv, compute.BINARY)
    conf.set_default('executor_thread_pool_size', THREADS)
    hosts = fleet.read(conf.fleet)
    program.check_services(conf)
    make = functools.partial(compute.from_conf, conf, hosts)
    return program.serve(conf, make, 1, compute.BINARY)
