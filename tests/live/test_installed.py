# SPDX-License-Identifier: Apache-2.0
"""novasched as it is installed: a wheel with the extra for MySQL, and nothing else.

The environment that runs the tests holds every extra; this one shows what needs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ours

ROOT = Path(__file__).parents[2]
SOURCES = (
    'LICENSE',
    'MANIFEST.in',
    'README.md',
    'docs',
    'etc',
    'novasched',
    'pyproject.toml',
    'setup.cfg',
)
PROGRAMS = (
    'novasched',
    'novasched-compute',
    'novasched-conductor',
    'novasched-manage',
    'novasched-scheduler',
    'novasched-status',
)
PIP_S = 300
RUN_S = 60


class Installed:
    """A virtual environment with what the wheel and its extra put there."""

    def __init__(self, prefix):
        self.prefix = Path(prefix)

    def run(self, program, *words, timeout_s=RUN_S):
        """Run a program as a user of this environment does; see subprocess.run."""
        variables = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
        return subprocess.run(
            [self.prefix / 'bin' / program, *words],
            env={**variables, 'PIP_DISABLE_PIP_VERSION_CHECK': '1'},
            cwd=self.prefix,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def share(self, name):
        """The path of a file beside the programs."""
        return self.prefix / 'share' / name


def _made(words, **options):
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PIP_S, check=False, **options
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope='session')
def wheel(tmp_path_factory):
    """A wheel of this tree, made of a copy: nothing is left in the tree."""
    directory = tmp_path_factory.mktemp('wheel')
    tree = directory / 'tree'
    tree.mkdir()
    for name in SOURCES:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    pip = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps', '-w', directory]
    _made([*pip, tree])
    (made,) = directory.glob('novasched-*.whl')
    return made


@pytest.fixture(scope='session')
def installed(tmp_path_factory, wheel):
    """A new virtual environment with the wheel in it."""
    made = Installed(tmp_path_factory.mktemp('installed') / 'venv')
    _made([sys.executable, '-m', 'venv', made.prefix])
    # Programs compile what they import; pip would compile everything.
    words = ('install', '-q', '--no-compile', f'{wheel}[mysql]')
    done = made.run('pip', *words, timeout_s=PIP_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return made


def test_no_other_extra_is_there(installed):
    for name in ('placement', 'psycopg2', 'pymemcache'):
        assert installed.run('python', '-c', f'import {name}').returncode == 1


@pytest.mark.parametrize('program', PROGRAMS)
def test_a_program_tells_its_version_and_its_options(installed, program):
    version, usage = installed.run(program, '--version'), installed.run(program, '-h')
    assert (version.returncode, usage.returncode) == (0, 0), usage.stderr
    assert version.stdout.strip().endswith(' 0.1.0')
    assert usage.stdout.startswith(f'usage: {program} ')
    assert (version.stderr, usage.stderr) == ('', '')


@pytest.mark.parametrize(
    ('program', 'words'),
    [
        ('novasched-compute', ['--fleet', '/nonexistent']),
        ('novasched-conductor', []),
        ('novasched-scheduler', []),
    ],
)
def test_a_daemon_says_what_it_lacks_in_one_line(installed, tmp_path, program, words):
    conf = tmp_path / 'empty.conf'
    conf.write_text('[DEFAULT]\n')
    done = installed.run(program, '--config-file', conf, *words)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if ' WARNING ' not in line]
    assert [line.partition(':')[0] for line in said] == [program]
    assert 'No module' not in said[0]


def test_servers_of_a_running_cloud_are_listed(installed, cloud, tmp_path):
    conf = cloud.write_conf(tmp_path / 'nova.conf')
    done = installed.run('novasched', '--config-file', conf, 'list', '-f', 'json')
    assert (done.returncode, done.stdout.strip()) == (0, '[]'), done.stderr


def test_a_running_cloud_is_checked(installed, cloud, tmp_path):
    conf = cloud.write_conf(tmp_path / 'nova.conf')
    done = installed.run('novasched-status', '--config-file', conf, 'upgrade', 'check')
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_says_which_extra_it_needs(installed):
    done = installed.run('novasched', 'demo')
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'placement is missing: pip install novasched[embedded]'
    ]


def test_the_sample_file_is_made_of_what_is_installed(installed, tmp_path):
    sample = tmp_path / 'novasched.conf.sample'
    done = installed.run(
        'oslo-config-generator',
        '--config-file',
        installed.share('novasched/config-generator.conf'),
        '--output-file',
        sample,
    )
    assert done.returncode == 0, done.stderr
    groups = {line for line in sample.read_text().splitlines() if line[:1] == '['}
    assert {'[DEFAULT]', '[novasched]', '[scheduler]', '[quota]'} <= groups


def test_the_unit_and_the_manual_pages_come_along(installed):
    unit = installed.share('novasched/novasched-scheduler.service').read_text()
    assert 'bin/novasched-scheduler --config-file /etc/nova/nova.conf' in unit
    pages = {path.name for path in installed.share('man').rglob('*.[18]')}
    assert pages == {path.name for path in (ROOT / 'docs/man').iterdir()}


@pytest.mark.parametrize(
    ('typed', 'offered'),
    [
        pytest.param('novasched l', ['list'], id='a command'),
        pytest.param('novasched move --t', ['--to', '--timeout'], id='an option'),
    ],
)
def test_bash_completes_without_the_package_bash_completion(installed, typed, offered):
    words = typed.split()
    script = (
        f'. {installed.share("bash-completion/completions/novasched")}\n'
        f'COMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n'
        '_novasched && printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ['bash', '--norc', '--noprofile', '-c', script],
        env={'PATH': '/usr/bin:/bin'},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (offered, '')
