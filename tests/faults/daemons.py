# SPDX-License-Identifier: Apache-2.0
"""The daemon as a process of its own, on the databases of a FaultyCloud."""

from __future__ import annotations

import os

from tests.faults.resources import children
from tests.functional.conftest import CELL_TIMEOUT_S
from tests.live.daemon import command
from tests.live.servers.process import Process, at_once, wait_until

START_S = 60
QUEUE = 'scheduler'
PROMPT = {'heartbeat_rate': 60, 'rabbit_interval_max': 1}
"""oslo.messaging looks twice a second whether it is to stop, and each second whether a
broker is there again."""


AS_IN_TESTS = {'outage_patience': 0, 'cell_timeout': CELL_TIMEOUT_S}
"""Tests look at one attempt of a request; those of outages wait for the next one. No
cell is late, however busy the machine is."""


class Daemons:
    """Daemons that are started one after another, on one configuration.

    ``environ`` is theirs; ``state`` is the directory of the journal.
    """

    def __init__(self, cloud, broker, directory, audit, sections):
        self._cloud = cloud
        self._broker = broker
        self._dir = directory
        self._audit = audit
        self._sections = sections
        self.url = cloud.conf.transport_url
        self.started = []
        self.environ = dict(os.environ)
        self.state = directory / 'novasched'

    def start(self, workers=1, *, timeout_s=60):
        """Start a daemon; wait until all its workers serve."""
        before = self.consumers()
        number = len(self.started)
        conf = self._dir / f'daemon-{number}.conf'
        conf.write_text(self._text(workers, f'daemon-{number}', timeout_s))
        daemon = Process(command(conf), conf.with_suffix('.log'), env=self.environ)
        self.started.append(daemon)
        self._audit.logs.append(lambda: daemon.log)
        wait_until(
            lambda: self.consumers() >= before + workers, START_S, 'workers', daemon
        )
        return daemon

    def _text(self, workers, host, timeout_s):
        sections = {
            'DEFAULT': {
                'transport_url': self.url,
                'host': host,
                'state_path': self._dir,
                'log_options': False,
            },
            'api_database': {'connection': f'sqlite:///{self._dir}/api'},
            'database': {'connection': f'sqlite:///{self._dir}/cell0'},
            'placement': {
                'auth_type': 'admin_token',
                'endpoint': self._cloud.proxy.url,
                'endpoint_override': self._cloud.proxy.url,
                'token': 'admin',
                'timeout': timeout_s,
            },
            'scheduler': {'workers': workers},
            'oslo_messaging_rabbit': PROMPT,
            'novasched': AS_IN_TESTS,
        }
        for name, values in self._sections.items():
            sections[name] = {**sections.get(name, {}), **values}
        return ''.join(
            f'[{name}]\n{_lines(values)}' for name, values in sections.items()
        )

    def consumers(self):
        """How many workers take requests; 0 while the broker is away."""
        try:
            found = self._broker.queue(self.url, QUEUE)
        except OSError:
            return 0
        return found[1] if found else 0

    def workers(self, daemon):
        """The pids of the workers of a daemon."""
        return children(daemon.pid)

    def kill(self, daemon):
        """End a daemon and its workers at once; wait until the broker has noticed."""
        left = self.consumers() - len(self.workers(daemon))
        daemon.kill()
        wait_until(lambda: self.consumers() <= left, START_S, 'the end of a daemon')

    def journals(self):
        """The files of the journals of claims."""
        return list(self.state.glob('*.journal'))

    def stop(self):
        """Stop all daemons."""
        self._cloud.proxy.release()
        at_once([daemon.stop for daemon in self.started])


def _lines(values):
    """Set options; a list sets one several times, None not at all."""
    listed = {name: v if isinstance(v, list) else [v] for name, v in values.items()}
    return ''.join(
        f'{name} = {each}\n'
        for name, given in listed.items()
        for each in given
        if each is not None
    )
