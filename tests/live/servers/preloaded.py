# SPDX-License-Identifier: Apache-2.0
"""Programs that need not load what they import: forks of a process that has it."""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

OURS = (
    'novasched.cmd.scheduler',  # first: it chooses threads
    'novasched.cmd.console',
    'novasched.cmd.main',
    'novasched.cmd.manage',
    'novasched.cmd.status',
    'novasched.process.guru_meditation',
    'novasched.app.instrumented',
    'novasched.app.preflight',
    'novasched.process.workers',
    'novasched.process.opts:list_opts',
    'novasched.console.cloud',  # what inspects
    'cheroot.wsgi',
    'cliff.command:_get_distributions_by_modules',  # it reads them all, once
    'flask',
    'keystonemiddleware.auth_token',
    'novasched_lab.program',
    'novasched_lab.compute.service',
    'novasched_lab.conductor.service',
    'pymysql',
)
"""What our programs import beyond their own module, but for prometheus_client: that
looks at the environment when it is loaded."""
PLACEMENTS = ('placement.cmd.manage', 'placement.deploy', 'gunicorn.app.wsgiapp')
"""What those of placement import, which is installed beside ours."""

BIN = Path(sys.executable).parent


class Preloaded:
    """A process whose forks are programs of its environment."""

    def __init__(self, python, modules, log, **env):
        """Load modules by an interpreter; its ``log`` is a path."""
        self._log = Path(log).open('a')  # noqa: SIM115  closed by close()
        self._process = subprocess.Popen(
            [python, '-P', Path(__file__).with_name('forks.py'), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **env},
            start_new_session=True,
        )
        self._turn = threading.Lock()
        self._is_ready = False

    def wait_ready(self):
        """Wait until the modules are loaded."""
        with self._turn:
            if not self._is_ready:
                self._is_ready = self._read() == 'ready'

    def _read(self):
        line = self._process.stdout.readline()
        assert line, f'the process that forks ended, see {self._log.name}'
        return json.loads(line)

    def ask(self, **request):
        """Send a request and give its answer."""
        self.wait_ready()
        with self._turn:
            self._process.stdin.write(json.dumps(request) + '\n')
            self._process.stdin.flush()
            return self._read()

    def start(self, program, argv, out, err=None, *, env=None, cwd=None):
        """Start a program whose outputs go to files, both to one as a default."""
        pid = self.ask(
            start=program,
            argv=[str(word) for word in argv],
            env=dict(os.environ if env is None else env),
            cwd=str(cwd or Path.cwd()),
            out=str(out),
            err=str(err or out),
        )
        return Fork(self, pid, program)

    def run(self, program, *argv, timeout_s=120, **options):
        """Run a program to its end; give its exit code and both outputs, as text.

        One that is late is killed. Raises subprocess.TimeoutExpired.
        """
        with tempfile.TemporaryDirectory() as directory:
            out, err = Path(directory, 'out'), Path(directory, 'err')
            started = self.start(program, argv, out, err, **options)
            try:
                code = started.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
                raise
            said = [path.read_text(errors='replace') for path in (out, err)]
        return subprocess.CompletedProcess([program, *argv], code, *said)

    def close(self):
        """End every program, and then the process."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()


class Fork:
    """One program that runs; the part of subprocess.Popen that tests need."""

    def __init__(self, preloaded, pid, name):
        self.pid = pid
        self.returncode = None
        self._preloaded = preloaded
        self._name = name
        self._turn = threading.Lock()

    def poll(self):
        """Give the exit code, None while the program runs."""
        with self._turn:  # a second question after the end would find no child
            if self.returncode is None:
                self.returncode = self._preloaded.ask(code=self.pid)
            return self.returncode

    def wait(self, timeout=None):
        """Give the exit code. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            end = os.pidfd_open(self.pid)
            with contextlib.closing(os.fdopen(end)):
                found, _, _ = select.select([end], [], [], timeout)
            if not found:
                raise subprocess.TimeoutExpired(self._name, timeout)
        return self.poll()


def ours():
    """Return the process whose forks are programs of ours."""
    return _lasting(OURS)


def placements():
    """Return the process whose forks are programs of placement."""
    return _lasting(PLACEMENTS)


@functools.cache
def _lasting(modules):
    """Load modules in a process that ends with this one."""
    log = tempfile.NamedTemporaryFile(prefix='novasched-forks-')  # noqa: SIM115
    made = Preloaded(sys.executable, modules, log.name)
    atexit.register(log.close)
    atexit.register(made.close)
    return made


def is_ours(argv):
    """Return whether a command is a program of ours, but for one with eventlet: that
    patches modules before they are loaded.
    """
    program = Path(argv[0])
    if program.parent != BIN or not program.name.startswith('novasched'):
        return False
    return not any(map(_names_eventlet, argv[1:]))


def _names_eventlet(word):
    with contextlib.suppress(OSError, ValueError):
        return 'eventlet' in Path(word).read_text(errors='replace')
    return False
