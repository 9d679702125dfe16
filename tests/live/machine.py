# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 of its own that systemd boots in a container, on the host's network."""

import signal
from pathlib import Path

from tests.live.servers.process import Process, run, wait_until

BOOT_S = 60
UP = ('running', 'degraded')
INCLUDED = (
    'ca-certificates',
    'curl',
    'dbus',
    'logrotate',
    'procps',
    'python3',
    'systemd-sysv',
)
"""What a controller has, and what the packages of novasched depend on."""


class Machine:
    """A root directory, and the container that runs on it."""

    def __init__(self, directory):
        """Make the root directory; `start` boots it."""
        self.root = Path(directory) / 'root'
        self._log = Path(directory) / 'console.log'
        self._pid = None
        self._container = None
        words = ('--quiet', '--variant=minbase', f'--include={",".join(INCLUDED)}')
        run(['mmdebstrap', '--mode=root', *words, 'bookworm', self.root])

    def start(self):
        """Boot, and wait until all units of the boot are started."""
        words = ['--quiet', '--register=no', '--keep-unit', '--boot']
        argv = ['systemd-nspawn', *words, '--directory', self.root]
        self._container = Process(argv, self._log)
        wait_until(self._is_up, BOOT_S, 'the boot', self._container)

    def _is_up(self):
        pid = self._container.pid
        # While the container is made, its first process has several before it.
        self._pid = Path(f'/proc/{pid}/task/{pid}/children').read_text().strip()
        bus = Path(f'/proc/{self._pid}/root/run/dbus/system_bus_socket')
        return bus.exists() and self._state('is-system-running') in UP

    def stop(self):
        """Power off."""
        if self._container is not None:
            self._container.stop(signal.SIGTERM)

    def run(self, *words):
        """Run a command to its end as root; give its output, or fail with it."""
        return run(['nsenter', '--all', '--target', self._pid, *words])

    def states(self, *units):
        """Return the state of each unit, such as `active`."""
        return [self._state('is-active', unit) for unit in units]

    def _state(self, *words):
        return self.run('sh', '-c', f'systemctl {" ".join(words)} || :').strip()

    def files(self):
        """Return the paths of all files and directories."""
        found = self.run('find', '/', '-xdev', '-not', '-path', '/tmp/*')
        return set(found.splitlines())
