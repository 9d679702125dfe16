# SPDX-License-Identifier: Apache-2.0
"""What a user can cause ends a program quietly or in one line, never in a traceback.

Each program runs in a process of its own, as its console script does.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.live.servers import preloaded
from tests.live.servers.process import completed
from tests.support.tables.cases import cases

PROGRAM = """
import sys
from {module} import main
sys.exit(main())
"""
INTERRUPTED_AT = """
import signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
RUN_S = 120


def program_of(module):
    package = 'novasched_lab' if module in ('compute', 'conductor') else 'novasched'
    return PROGRAM.format(module=f'{package}.cmd.{module}')


def run(module, *words, before='', **options):
    return subprocess.run(
        [sys.executable, '-c', before + program_of(module), *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, 'PYTHONUNBUFFERED': ''},
        text=True,
        timeout=RUN_S,
        check=False,
        **options,
    )


@pytest.fixture(autouse=True)
def interruptible():
    """Programs inherit that Ctrl-C is ignored, as where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def conf(tmp_path):
    """A configuration file that names a database where nobody listens."""
    path = tmp_path / 'nova.conf'
    path.write_text(
        f'[DEFAULT]\nstate_path = {tmp_path}\n'
        '[api_database]\nconnection = mysql+pymysql://127.0.0.1:1/x\n'
    )
    return path


@cases(
    'module, name',
    ('novasched, while it is imported', 'main', 'cliff.app'),
    ('novasched, at work', 'main', 'novasched_lab.api.servers'),
    ('novasched-manage', 'manage', 'sqlalchemy'),
    ('novasched-conductor', 'conductor', 'oslo_service'),
    ('the scheduler, at once', 'scheduler', 'oslo_config'),
    ('the scheduler, when it has a log', 'scheduler', 'pymysql'),
    more=(
        ('novasched-status', 'status', 'numpy'),
        ('novasched-compute', 'compute', 'oslo_config'),
        ('the scheduler, later', 'scheduler', 'oslo_messaging'),
    ),
)
def test_ctrl_c_ends_a_program_without_a_word(conf, module, name):
    words = ['--config-file', str(conf), *(['list'] if module == 'main' else [])]
    before = INTERRUPTED_AT.format(name=name)
    done = run(module, *words, before=before, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (130, '', '')


def test_ctrl_c_ends_the_shutdown_of_the_interpreter_without_a_word():
    before = 'import atexit, signal\n'
    before += 'atexit.register(signal.raise_signal, signal.SIGINT)\n'
    done = run('scheduler', '--version', before=before, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (130, '')


@pytest.mark.parametrize('module', ['main', 'manage', 'status', 'scheduler'])
def test_output_that_is_not_read_on_is_no_error(module):
    unread, output = os.pipe()
    os.close(unread)
    try:
        done = run(module, '--help', stdout=output)
    finally:
        os.close(output)
    assert done.returncode in (0, 141)
    assert done.stderr == ''


@cases(
    'words, says',
    (
        'a log that cannot be written',
        ['--log-file', '/proc/nowhere/x.log'],
        '[DEFAULT] log_file: /proc/nowhere/x.log: No such file or directory. ',
    ),
    (
        'a configuration of the log that is not there',
        ['--log-config-append', '/proc/nowhere/x.conf'],
        '[DEFAULT] log_config_append: ',
    ),
    (
        'a completion that has no template',
        ['--shell_completion', 'bash'],
        '--shell_completion: not offered. Leave it out.',
    ),
    (
        'a directory that is none',
        ['--config-dir', '/proc/self/cmdline'],
        '--config-dir: /proc/self/cmdline: Not a directory. ',
    ),
    (
        'a file that is a directory',
        ['--config-file', '/proc/self'],
        '--config-file: /proc/self: Is a directory. ',
    ),
)
@cases(
    'program',
    ('the scheduler', 'novasched-scheduler'),
    more=[('the conductor', 'novasched-conductor')],
)
def test_a_daemon_says_in_one_line_what_is_wrong(conf, program, words, says):
    named = [] if '--shell_completion' in words else ['--config-file', conf]
    done = completed([preloaded.BIN / program, *words, *named], timeout_s=RUN_S)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith(f'{program}: {says}')


def test_the_help_offers_no_completion_without_a_template():
    done = run('scheduler', '--help', stdout=subprocess.PIPE)
    assert '--config-file' in done.stdout
    assert 'completion' not in done.stdout
