# SPDX-License-Identifier: Apache-2.0
"""Run programs as forks of this process, which has loaded what they import.

``forks.py MODULE...`` imports the modules, calls what stands behind a colon of one, and
then answers each line of its input, a request in JSON, by a line:
``{"start": PROGRAM, "argv", "env", "cwd", "out", "err"}`` by the pid of the program,
which leads a session of its own, and ``{"code": PID}`` by its exit code, null while it
runs. A program is a script that a distribution installs.
What still runs when the input ends is ended: when whoever asked has ended, too.
"""

import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import random
import signal
import sys
import threading
import time

GRACE_S = 8
CLOSED_S = 0.25
"""So often clients and servers of RPC look whether they have been closed: every five
seconds, as they come."""


class Forks:
    """The programs that run."""

    def __init__(self):
        self._running = set()
        self._scripts = {
            script.name: script
            for script in importlib.metadata.entry_points(group='console_scripts')
        }

    def serve(self):
        """Answer each request; return in a fork, with what it is to call."""
        write('ready')
        for line in sys.stdin:
            request = json.loads(line)
            if 'code' in request:
                write(self._code(request['code']))
                continue
            pid = self._fork(request)
            if not pid:
                return self._program(request['start'], request['argv'])
            self._running.add(pid)
            write(pid)
        self._end_all()
        return None

    def _fork(self, request):
        """Fork; return once the fork has a session and outputs of its own."""
        is_apart, apart = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(is_apart)
            os.setsid()
            use(request)
            os.close(apart)
            return 0
        os.close(apart)
        os.read(is_apart, 1)
        os.close(is_apart)
        return pid

    def _program(self, name, argv):
        """Return the function that a script calls."""
        sys.argv = [name, *argv]
        if cliff := sys.modules.get('cliff.app'):
            cliff.App.NAME = name  # as when it is loaded by the program
        if name == 'gunicorn':
            # An application may take gunicorn's words for its own.
            application = importlib.import_module('gunicorn.app.wsgiapp')
            made = application.WSGIApplication()
            del sys.argv[1:]
            return made.run
        return self._scripts[name].load()

    def _code(self, pid):
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            return None
        self._running.discard(pid)
        return os.waitstatus_to_exitcode(status)

    def _end_all(self):
        """Ask all programs to end; kill what has not ended in time."""
        for pid in self._running:
            os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        left = set(self._running)
        while left and time.monotonic() < deadline:
            left = {pid for pid in left if self._code(pid) is None}
            time.sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def use(request):
    """Have the environment, path, directory, outputs and chance of a new process."""
    os.environ.clear()
    os.environ.update(request['env'])
    os.chdir(request['cwd'])
    sys.path[1:1] = filter(None, os.environ.get('PYTHONPATH', '').split(os.pathsep))
    for number, path in enumerate((os.devnull, request['out'], request['err'])):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        opened = os.open(path, flags, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    random.seed()


def write(answer):
    """Write a line."""
    sys.stdout.write(json.dumps(answer) + '\n')
    sys.stdout.flush()


def main():
    """Load the modules, and serve."""
    with contextlib.suppress(ModuleNotFoundError):
        # It finds the memory of the title only as long as the environment is as it was.
        importlib.import_module('setproctitle').getproctitle()
    for each in sys.argv[1:]:
        name, _, function = each.partition(':')
        module = importlib.import_module(name)
        if function:
            getattr(module, function)()
    if driver := sys.modules.get('oslo_messaging._drivers.amqpdriver'):
        driver.ACK_REQUEUE_EVERY_SECONDS_MAX = CLOSED_S
    assert threading.active_count() == 1, 'a fork has the thread that forks only'
    gc.freeze()
    return Forks().serve()


if __name__ == '__main__':
    if program := main():
        sys.exit(program())
