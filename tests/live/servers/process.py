# SPDX-License-Identifier: Apache-2.0
"""Start, watch and stop one process, by its pid only."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.live.servers import preloaded

# Below the range that Linux takes the ports of outgoing connections from: a port from
# that range may be taken by any connection before the server that it was for has it.
PORTS = range(12000, 32000)
MOST_AT_ONCE = 16
_given = set()


def free_port():
    """Give a TCP port of the loopback interface that nobody has, each only once.

    Drawn at random: other processes draw from the same range at the same time.
    """
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(('127.0.0.1', port))
            if port not in _given:
                _given.add(port)
                return port


def listens(port):
    """Tell whether somebody accepts connections on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
        return True
    return False


def wait_until(check, timeout_s, what, process=None, every_s=0.05):
    """Poll `check` until it gives something true, and give that.

    A process that ends meanwhile fails the wait at once, with its log.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if found := check():
            return found
        if process is not None and process.poll() is not None:
            raise AssertionError(f'{what}: {process.describe()}')
        if time.monotonic() > deadline:
            said = process.describe() if process is not None else ''
            raise AssertionError(f'{what}: not within {timeout_s} s; {said}')
        time.sleep(every_s)


@contextlib.contextmanager
def running(server):
    """Start a server; close it in the end, or stop one that has nothing to close."""
    try:
        server.start()
        yield server
    finally:
        getattr(server, 'close', server.stop)()


class Process:
    """A process in a session of its own whose output goes to a file."""

    def __init__(self, argv, log_path, *, env=None, cwd=None, user=None, fork_of=None):
        """Start `argv`; `user` names the account to run it as, None for our own.

        It is a fork of a `Preloaded`, ours for our own programs as a default.
        """
        self.argv = [str(word) for word in argv]
        self.log_path = Path(log_path)
        self._log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        if fork_of is None and not user and preloaded.is_ours(self.argv):
            fork_of = preloaded.ours()
        if fork_of is not None:
            program, *words = self.argv
            self._popen = fork_of.start(
                Path(program).name, words, self.log_path, env=env, cwd=cwd
            )
            self.pid = self._popen.pid
            return
        identity = {'user': user, 'group': user, 'extra_groups': []} if user else {}
        with self.log_path.open('ab') as log:
            self._popen = subprocess.Popen(
                self.argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **identity,
            )
        self.pid = self._popen.pid

    @property
    def log(self):
        """The whole of what the process has printed so far, and none before it."""
        return self.log_path.read_bytes()[self._log_from :].decode(errors='replace')

    def poll(self):
        """Give the exit code, None while the process runs."""
        return self._popen.poll()

    def describe(self):
        """Say how the process is, with the end of its log."""
        tail = '\n'.join(self.log.splitlines()[-40:])
        return f'{self.argv[0]} (exit code {self.poll()}) printed:\n{tail}'

    def end_by(self, number, timeout_s=30):
        """Send a signal to all of its session and wait for its end."""
        os.killpg(self.pid, number)
        self.wait(timeout_s)

    def send(self, number):
        """Send a signal to the process, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout_s):
        """Wait for the end and give the exit code; fail with the log when late."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'still running: {self.describe()}') from None

    def stop(self, number=signal.SIGTERM, timeout_s=20):
        """Ask the process to end, kill what is left of its session, give the code."""
        self.send(number)
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.poll()

    def kill(self):
        """End the process and every child in its session without a chance to tidy."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(10)


def at_once(calls, most=MOST_AT_ONCE):
    """Make calls side by side, as each waits for another process; give the answers."""
    with ThreadPoolExecutor(most) as pool:
        return list(pool.map(lambda call: call(), calls))


def run(argv, **options):
    """Run a command to its end; give its output, or fail with it; see `completed`."""
    done = completed(argv, **options)
    said = done.stdout + done.stderr
    if done.returncode:
        raise AssertionError(f'{argv}: exit code {done.returncode}\n{said}')
    return said


def completed(argv, *, env=None, cwd=None, user=None, timeout_s=240):
    """Run a command to its end; give its exit code and both outputs, as text.

    A program of ours is a fork of a process that has loaded what it imports.
    """
    program, *words = (str(word) for word in argv)
    if not user and preloaded.is_ours([program, *words]):
        name = Path(program).name
        return preloaded.ours().run(name, *words, env=env, cwd=cwd, timeout_s=timeout_s)
    identity = {'user': user, 'group': user, 'extra_groups': []} if user else {}
    return subprocess.run(
        [program, *words],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        **identity,
    )
