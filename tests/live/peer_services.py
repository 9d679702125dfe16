# SPDX-License-Identifier: Apache-2.0
"""Run many programs of the peer, loading it once: they are forks of this process.

Reads requests in JSON, one a line, and writes a line with the answer:
``{"start": program, "argv", "log", "env"}`` to the pid of a session of its own,
``{"code": pid}`` to the exit code, null while the program runs. Ends what still runs
when the input ends, and so also when whoever asked has been killed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import traceback

# What the programs import beyond their own module; loading it here saves seconds each.
# The programs come first: they choose between threads and eventlet.
LOADED = (
    'nova.cmd.compute',
    'nova.cmd.conductor',
    'nova.cmd.manage',
    'nova.cmd.scheduler',
    'nova.api.openstack.compute.routes',
    'nova.compute.manager',
    'nova.conductor.manager',
    'nova.scheduler.manager',
    'nova.virt.fake',
    'gunicorn.app.wsgiapp',
)
GRACE_S = 8


def start(program, argv, log, env):
    """Fork a program; give the pid, which is its session's too."""
    pid = os.fork()
    if not pid:
        detach(log)
        os.environ.update(env)
        become(program, argv)
    return pid


def detach(log):
    """Make a session of its own whose output goes to a file."""
    os.setsid()
    with open(os.devnull) as nothing, open(log, 'ab') as output:
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)


def become(program, argv):
    """Run a program to its end, and end with it."""
    sys.argv = [program, *argv]
    sys.stdout = sys.stderr
    code = 1
    try:
        code = entry(program)() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  as the interpreter ends a program
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code & 255)


def entry(program):
    """The function that a program's script calls."""
    if program == 'gunicorn':
        application = sys.modules['gunicorn.app.wsgiapp'].WSGIApplication()
        # The peer's application would take gunicorn's words for its own.
        del sys.argv[1:]
        return application.run
    return sys.modules[f'nova.cmd.{program.removeprefix("nova-")}'].main


def code(running, pid):
    """Give the exit code of a program, None while it runs."""
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    running.discard(pid)
    return os.waitstatus_to_exitcode(status)


def end_all(running):
    """Ask all programs to end; kill what has not ended in time."""
    for pid in running:
        os.killpg(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    left = set(running)
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if code(running, pid) is None}
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def write(answer):
    """Write a line."""
    sys.stdout.write(json.dumps(answer) + '\n')
    sys.stdout.flush()


def main():
    """Answer each line."""
    for name in LOADED:
        importlib.import_module(name)
    running = set()
    write('ready')
    for line in sys.stdin:
        request = json.loads(line)
        if 'code' in request:
            answer = code(running, request['code'])
        else:
            answer = start(
                request['start'], request['argv'], request['log'], request['env']
            )
            running.add(answer)
        write(answer)
    end_all(running)


if __name__ == '__main__':
    main()
