# SPDX-License-Identifier: Apache-2.0
"""Where the daemon keeps its journal when its options do not tell it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tables.cases import cases

PROGRAM = Path(sys.executable).with_name('novasched-scheduler')
CONF = """
[DEFAULT]
transport_url = fake://
{options}
[api_database]
connection = sqlite:////proc/none
max_retries = 0
[database]
connection = sqlite:////proc/none
max_retries = 0
"""
NOWHERE = '/proc'
"""Not even root can make a directory there."""


IS_ROOT = not os.geteuid()
UNSHARED = """
mount -t tmpfs -o "$1" novasched /var/lib || exit 77
shift
"$@"
stat -c '%n %a' /var/lib/novasched
"""
"""Runs a program that has a /var/lib of its own; needs root."""


def _alone(argv, options):
    """Keep root out of the directory that is its default, or in one that is gone."""
    return ['unshare', '--mount', 'sh', '-c', UNSHARED, 'sh', options, *argv]


@pytest.fixture
def start(tmp_path):
    """Start the daemon, which ends as it has no database; return what it says of the
    journal. ``var_lib`` are the options with which root's is mounted."""

    def run(options='', var_lib='ro', **environ):
        conf = tmp_path / 'nova.conf'
        conf.write_text(CONF.format(options=options))
        argv = [PROGRAM, '--config-file', conf]
        names = ('STATE_DIRECTORY', 'XDG_STATE_HOME')
        kept = {name: os.environ[name] for name in os.environ if name not in names}
        done = subprocess.run(
            _alone(argv, var_lib) if IS_ROOT else argv,
            env={**kept, 'HOME': NOWHERE, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        if IS_ROOT and (done.returncode == 77 or 'unshare:' in done.stdout):
            pytest.skip(f'nothing can be mounted: {done.stdout}')
        assert 'CRITICAL' in done.stdout or 'database' in done.stdout
        words = ('journal of claims', '/var/lib/novasched 7')
        return [
            line
            for line in done.stdout.splitlines()
            if any(word in line for word in words)
        ]

    return run


@cases(
    ('environ', 'expected'),
    ('of systemd', {'STATE_DIRECTORY': '/proc/s:{home}/s'}, 's'),
    more=[('of a home', {'HOME': '{home}'}, '.local/state/novasched')],
)
def test_the_directory_without_being_asked(start, tmp_path, environ, expected):
    said = start(
        **{name: value.format(home=tmp_path) for name, value in environ.items()}
    )
    assert said == []
    made = tmp_path / expected
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    (decisions,) = made.iterdir()
    assert decisions.name == 'decisions'
    assert stat.S_IMODE(decisions.stat().st_mode) == 0o700
    assert list(decisions.iterdir()) == []


def test_an_option_that_cannot_be_followed_is_a_warning(start, tmp_path):
    (line,) = start('state_path = /proc/n', HOME=str(tmp_path))
    assert 'WARNING' in line
    assert f'is in {tmp_path}/.local/state/novasched' in line
    assert '([DEFAULT] state_path)' in line


@pytest.mark.exhaustive('the warning above; its words: tests/unit/journal')
def test_a_user_who_can_write_nowhere_is_warned(start):
    (line,) = start()
    assert 'WARNING' in line
    assert 'the claims of a killed worker will not be undone' in line
    assert 'Set [DEFAULT] state_path or [novasched] journal_dir' in line


@pytest.mark.exhaustive('the choice and the mode: tests/unit/journal')
@pytest.mark.skipif(not IS_ROOT, reason='needs root')
def test_the_directory_of_root(start):
    assert start(var_lib='rw') == ['/var/lib/novasched 700']
