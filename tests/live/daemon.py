# SPDX-License-Identifier: Apache-2.0
"""The scheduler daemon under test: ours, or the peer's to prove the tests."""

import os
import sys
from pathlib import Path

from tests.live.servers.process import Process, wait_until

# A command that takes `--config-file`; the tests of what we do better than the
# peer stay out when it is set.
COMMAND = os.environ.get('NOVASCHED_LIVE_DAEMON')
OURS = COMMAND is None
MANAGE = os.environ.get('NOVASCHED_LIVE_MANAGE')
# What `concurrency_backend` is, where a test does not say.
BACKEND = os.environ.get('NOVASCHED_LIVE_BACKEND')
QUEUE = 'scheduler'
START_S = 60


def own_program(name):
    """A program of ours, from the environment that runs the tests."""
    return Path(sys.executable).parent / name


def command(conf):
    """The command line of the daemon under test."""
    program = COMMAND or own_program('novasched-scheduler')
    return [program, '--config-file', conf]


class Daemon:
    """One daemon with its broker URL, and the peer's client for it."""

    def __init__(self, conf, log_path, broker, url, client):
        self.process = Process(command(conf), log_path)
        self.url = url
        self.client = client
        self._broker = broker

    def restart(self):
        """Start it again after its end."""
        self.process = Process(self.process.argv, self.process.log_path)

    def wait_ready(self):
        """Wait until the daemon consumes requests."""
        wait_until(self._consumes, START_S, 'the daemon', self.process)

    def _consumes(self):
        found = self._broker.queue(self.url, QUEUE)
        return found is not None and found[1] > 0

    @property
    def log(self):
        """What the daemon has logged so far."""
        return self.process.log

    def select(self, **request):
        """Ask for destinations, see `Client.submit`; wait for the Reply."""
        return self.client.select(**request)
