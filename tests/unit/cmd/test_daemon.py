# SPDX-License-Identifier: Apache-2.0
"""Threads or eventlet; each choice in a process of its own, as it is for good."""

import os
import subprocess
import sys

from tests.support.tables.cases import cases

SCRIPT = """
import sys
from novasched.cmd import daemon
chosen = daemon.chosen_backend(sys.argv[1:])
daemon.use_backend(chosen)
from oslo_service import backend
import socket
print(chosen, backend.get_backend_type().value, 'green' in socket.socket.__module__)
"""


@cases(
    'environment, option, backend',
    ('nothing said', None, None, 'threading'),
    ('auto', None, 'auto', 'threading'),
    ('threads', None, 'threading', 'threading'),
    ('eventlet', None, 'eventlet', 'eventlet'),
    ('the environment says threads', 'Yes', 'eventlet', 'threading'),
    ('the environment says eventlet', '0', 'threading', 'eventlet'),
)
def test_the_backend(tmp_path, environment, option, backend):
    path = tmp_path / 'nova.conf'
    line = f'concurrency_backend = {option}\n' if option else ''
    path.write_text(f'[DEFAULT]\n{line}')
    variables = {**os.environ, 'OS_NOVA_DISABLE_EVENTLET_PATCHING': environment or ''}
    done = subprocess.run(
        [sys.executable, '-c', SCRIPT, '--debug', f'--config-file={path}'],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == [backend, backend, str(backend == 'eventlet')]


def test_programs_that_do_not_choose_do_without_eventlet():
    loads = 'import novasched.cmd.main, futurist, sys; '
    shows = 'print([name for name in sys.modules if name.startswith("eventlet.")])'
    done = subprocess.run(
        [sys.executable, '-c', loads + shows],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ('[]\n', '')


def test_sigusr2_ends_no_program_that_is_starting():
    told = (
        'import os, signal, novasched.cmd; '
        'os.kill(os.getpid(), signal.SIGUSR2); print("on")'
    )
    done = subprocess.run(
        [sys.executable, '-c', told], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ('on\n', '')
