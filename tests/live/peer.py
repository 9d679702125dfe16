# SPDX-License-Identifier: Apache-2.0
"""Drive the peer's RPC client, which lives in a process of the peer's Python."""

import itertools
import json
import os
import subprocess
import threading
import uuid
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

from tests.live.servers.preloaded import Preloaded

REPOSITORY = Path(__file__).parents[2]
ANSWER_S = 90
PROGRAMS = (
    'nova.cmd.compute',  # programs first: they choose between threads and eventlet
    'nova.cmd.conductor',
    'nova.cmd.manage',
    'nova.cmd.scheduler',
    'nova.cmd.status',
    'nova.api.openstack.compute.routes',
    'nova.compute.manager',
    'nova.conductor.manager',
    'nova.scheduler.manager',
    'nova.virt.fake',
    'gunicorn.app.wsgiapp',
)
"""What the peer's programs import beyond their own module."""


def peer_program(name):
    """The path of a program of the peer, from NOVASCHED_PEER or beside the code."""
    venv = Path(os.environ.get('NOVASCHED_PEER', REPOSITORY / '.venv-peer'))
    path = venv / 'bin' / name
    assert path.exists(), f'{path} is missing; NOVASCHED_PEER names a venv with nova'
    return path


def preload_programs(log):
    """Return a process whose forks are programs of the peer; ``log`` is a path."""
    environ = {'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1', 'PYTHONWARNINGS': 'ignore'}
    return Preloaded(peer_program('python'), PROGRAMS, log, **environ)


class PeerError(Exception):
    """What the peer's client raised: its class, module, text and more."""

    def __init__(self, error):
        super().__init__(f'{error["class"]}: {error["text"]}')
        self.name = error['class']
        self.module = error['module']
        self.text = error['text']
        self.exc_type = error['exc_type']
        self.value = error['value']
        self.kwargs = error['kwargs']


class Peer:
    """The process; requests are answered in threads, so they may overlap."""

    def __init__(self, scratch, more=''):
        """Start it; ``more`` is what its file has, too, sections first."""
        conf = Path(scratch) / 'peer.conf'
        conf.write_text(
            f'[DEFAULT]\nhost = peer\nstate_path = {scratch}\n'
            # Bound what a lost call costs; an answered one does not notice.
            'long_rpc_timeout = 60\nrpc_response_timeout = 20\n'
            f'[oslo_concurrency]\nlock_path = {scratch}/peer-locks\n{more}'
        )
        self._log = (Path(scratch) / 'peer.log').open('w')
        self._process = subprocess.Popen(
            [peer_program('python'), Path(__file__).with_name('peer_client.py'), conf],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=scratch,
            start_new_session=True,
        )
        self._numbers = itertools.count()
        self._write = threading.Lock()
        self._ready = Future()
        self._waiting = {None: self._ready}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self):
        """Wait until the client has loaded."""
        self._ready.result(ANSWER_S)

    def _read(self):
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._waiting.pop(answer['id'])
            if 'error' in answer:
                future.set_exception(PeerError(answer['error']))
            else:
                future.set_result(answer['result'])
        for future in list(self._waiting.values()):
            future.set_exception(EOFError(f'the peer ended, see {self._log.name}'))

    def submit(self, op, url, level=None, **args):
        """Send a request and give the Future of its answer."""
        future = Future()
        number = next(self._numbers)
        self._waiting[number] = future
        request = {'id': number, 'op': op, 'url': url, 'level': level, 'args': args}
        with self._write:
            self._process.stdin.write(json.dumps(request) + '\n')
            self._process.stdin.flush()
        return future

    def close(self):
        """End the client."""
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        self._reader.join(5)
        self._process.stdout.close()
        self._log.close()


class Reply:
    """The uuids that were asked for, and the answer."""

    def __init__(self, uuids, answer):
        self.uuids = uuids
        self.answer = answer

    @property
    def uuid(self):
        """The uuid of a request for one instance."""
        (only,) = self.uuids
        return only

    @property
    def best(self):
        """The chosen Selection of every instance."""
        return [selections[0] for selections in self.answer]

    @property
    def hosts(self):
        """The chosen host of every instance, by name."""
        return [selection['service_host'] for selection in self.best]

    @property
    def nodes(self):
        """Selections by what an audit reads of them, the chosen one alone."""
        return [[SimpleNamespace(**selection)] for selection in self.best]

    @property
    def alternates(self):
        """The alternates of a request for one instance."""
        (only,) = self.answer
        return only[1:]


class Client:
    """The peer's client for the scheduler behind one transport URL."""

    def __init__(self, peer, url):
        self._peer = peer
        self._url = url

    def submit(self, count=1, uuids=None, level=None, objects=True, **spec):
        """Send select_destinations; give (uuids, Future of the answer).

        Further keywords say what the RequestSpec holds beyond the ordinary.
        """
        uuids = uuids or [str(uuid.uuid4()) for _ in range(count)]
        options = {} if level else {'return_objects': objects}
        if objects and not level:
            options['return_alternates'] = spec.pop('alternates', True)
        return uuids, self._peer.submit(
            'select', self._url, level, uuids=uuids, spec=spec, **options
        )

    def select(self, **request):
        """Send select_destinations as `submit` does, and wait for the Reply."""
        uuids, future = self.submit(**request)
        return Reply(uuids, future.result(ANSWER_S))

    def run(self, op, **args):
        """Run any other operation of the client to its answer."""
        return self._peer.submit(op, self._url, **args).result(ANSWER_S)
