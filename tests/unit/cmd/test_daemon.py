# SPDX-License-Identifier: Apache-2.0
"""Threads or eventlet; each choice in a process of its own, as it is for good."""

import os
import sys

from tests.live.servers.process import completed
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


def run(text, *words, env=None):
    return completed([sys.executable, '-c', text, *words], env=env, timeout_s=60)


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
    done = run(SCRIPT, '--debug', f'--config-file={path}', env=variables)
    assert done.stdout.split() == [backend, backend, str(backend == 'eventlet')]


def test_programs_that_do_not_choose_do_without_eventlet():
    loads = 'import novasched.cmd.main, futurist, sys; '
    shows = 'print([name for name in sys.modules if name.startswith("eventlet.")])'
    done = run(loads + shows)
    assert (done.stdout, done.stderr) == ('[]\n', '')


def test_sigusr2_ends_no_program_that_is_starting():
    told = (
        'import os, signal, novasched.cmd; '
        'os.kill(os.getpid(), signal.SIGUSR2); print("on")'
    )
    done = run(told)
    assert (done.stdout, done.stderr) == ('on\n', '')
