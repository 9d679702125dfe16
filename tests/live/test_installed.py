# SPDX-License-Identifier: Apache-2.0
"""novasched as it is installed: a wheel with the extra for MySQL, and then the lab.

The environment that runs the tests holds every extra; this one shows what needs them.
With `--all`, pip takes what the wheels require from the index; else it is linked from
the environment that runs the tests.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

ROOT = Path(__file__).parents[2]
OURS = {
    *('capacity', 'decisions', 'explain', 'host', 'lab', 'plan', 'shadow', 'top'),
    'why-not',
}
LAB = {'boot', 'delete', 'demo', 'list', 'move', 'show'}
SOURCES = (
    'LICENSE',
    'MANIFEST.in',
    'README.md',
    'docs',
    'etc',
    'lab',
    'novasched',
    'pyproject.toml',
    'setup.cfg',
)
PROGRAMS = (
    'novasched',
    'novasched-console',
    'novasched-manage',
    'novasched-scheduler',
    'novasched-status',
)
SEEN = ('novasched-console', 'novasched-status')
WHEELS = ('novasched', 'novasched_lab')
LIBRARIES = Path(sysconfig.get_path('purelib'))
NOT_LINKED = ('__pycache__', '__editable__', 'novasched')
OF_EACH = pytest.mark.exhaustive('the version of each program comes of one place')
RUNS_BELOW = pytest.mark.exhaustive('it runs in another test of this file')
OF_LAB = pytest.mark.exhaustive('the same of the lab')
PIP_S = 300
RUN_S = 180


class Installed:
    """A virtual environment with what the wheel and its extra put there."""

    def __init__(self, prefix):
        self.prefix = Path(prefix)

    def run(self, program, *words, timeout_s=RUN_S):
        """Run a program as a user of this environment does; see subprocess.run."""
        variables = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
        return subprocess.run(
            [self.prefix / 'bin' / 'python', *self._script(program), *words],
            env={**variables, 'PIP_DISABLE_PIP_VERSION_CHECK': '1'},
            cwd=self.prefix,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def _script(self, program):
        return [] if program == 'python' else [self.prefix / 'bin' / program]

    def programs(self):
        """The names of our programs."""
        return {path.name for path in (self.prefix / 'bin').glob('novasched*')}

    def share(self, name):
        """The path of a file beside the programs."""
        return self.prefix / 'share' / name


def _made(words):
    trusting = {k: v for k, v in os.environ.items() if k != 'SSL_CERT_FILE'}
    done = subprocess.run(
        words, env=trusting, capture_output=True, text=True, timeout=PIP_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def distributions(*requirements):
    """Return what is installed here that requirements need, by name and extra."""
    found, left = {}, [Requirement(each) for each in requirements]
    while left:
        wanted = left.pop()
        for extra in {'', *wanted.extras} - found.get(wanted.name, (None, set()))[1]:
            made = importlib.metadata.distribution(wanted.name)
            found.setdefault(wanted.name, (made, set()))[1].add(extra)
            needed = map(Requirement, made.requires or ())
            left += [
                one
                for one in needed
                if one.marker is None or one.marker.evaluate({'extra': extra})
            ]
    return [made for made, _ in found.values()]


class Pip:
    """Installs wheels of ours and what they require."""

    def __init__(self, is_from_index):
        self._is_from_index = is_from_index

    def make_wheels(self, directory, *trees):
        """Make wheels; each with what its build requires, or with what is here."""
        words = [] if self._is_from_index else ['--no-build-isolation']
        pip = [sys.executable, '-m', 'pip', 'wheel', '-q', '--no-deps']
        _made([*pip, *words, '-w', directory, *trees])

    def install(self, made, wheel, extra='', needed=()):
        """Install a wheel; what it requires comes from the index, or is linked."""
        words = [] if self._is_from_index else ['--no-index', '--no-deps']
        if not self._is_from_index:
            self._link(made, needed)
        # Programs compile what they import; pip would compile everything.
        pip = [sys.executable, '-m', 'pip', '--python', made.prefix / 'bin' / 'python']
        _made([*pip, 'install', '-q', '--no-compile', *words, f'{wheel}{extra}'])

    def _link(self, made, needed):
        (libraries,) = made.prefix.glob('lib/python*/site-packages')
        for one in distributions(*needed):
            for file in one.files or ():
                name = file.parts[0]
                if name == '..' and file.parent.name == 'bin':
                    link, target = made.prefix / 'bin' / file.name, LIBRARIES / file
                elif name == '..' or name.startswith(NOT_LINKED):
                    continue
                else:
                    link, target = libraries / name, LIBRARIES / name
                if target.exists() and not link.exists():
                    link.symlink_to(target.resolve())


@pytest.fixture(scope='session')
def pip(request):
    return Pip(request.config.getoption('--all'))


@pytest.fixture(scope='session')
def wheels(tmp_path_factory, pip):
    """The wheels of novasched and of its lab, made of a copy of this tree."""
    directory = tmp_path_factory.mktemp('wheel')
    tree = directory / 'tree'
    tree.mkdir()
    for name in SOURCES:
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
    pip.make_wheels(directory, tree, tree / 'lab')
    (product,), (lab,) = (directory.glob(f'{n}-*.whl') for n in WHEELS)
    return product, lab


@pytest.fixture(scope='session')
def installed(tmp_path_factory, wheels, pip):
    """A new virtual environment with novasched in it."""
    made = Installed(tmp_path_factory.mktemp('installed') / 'venv')
    _made([sys.executable, '-m', 'venv', '--without-pip', made.prefix])
    pip.install(made, wheels[0], '[mysql]', ['novasched[mysql]'])
    return made


@pytest.fixture(scope='session')
def with_lab(tmp_path_factory, installed, wheels, pip):
    """A copy of that environment, with the lab in it, too."""
    made = Installed(tmp_path_factory.mktemp('lab') / 'venv')
    shutil.copytree(installed.prefix, made.prefix, symlinks=True)
    pip.install(made, wheels[1], needed=['novasched-lab'])
    return made


def test_no_other_extra_is_there(installed):
    for name in ('flask', 'placement', 'psycopg2', 'pymemcache', 'novasched_lab'):
        assert installed.run('python', '-c', f'import {name}').returncode == 1


def test_five_programs_are_there_and_with_the_lab_two_more(installed, with_lab):
    assert installed.programs() == set(PROGRAMS)
    assert with_lab.programs() - installed.programs() == {
        'novasched-compute',
        'novasched-conductor',
    }


def commands(usage):
    lines = usage.partition('Commands:')[2].splitlines()
    found = {line.split()[0] for line in lines if line.strip()}
    return found - {'complete', 'help'}


def test_commands_of_the_lab_are_there_with_the_lab(with_lab):
    assert commands(with_lab.run('novasched', '--help').stdout) == OURS | LAB


@pytest.mark.parametrize(
    'program',
    [pytest.param(name, marks=[RUNS_BELOW] * (name in SEEN)) for name in PROGRAMS],
)
def test_a_program_tells_its_options(installed, program):
    usage = installed.run(program, '-h')
    assert usage.returncode == 0, usage.stderr
    assert usage.stdout.startswith(f'usage: {program} ')
    assert usage.stderr == ''
    if program == 'novasched':
        assert commands(usage.stdout) == OURS


@pytest.mark.parametrize(
    'program',
    [PROGRAMS[0], *(pytest.param(name, marks=OF_EACH) for name in PROGRAMS[1:])],
)
def test_a_program_tells_its_version(installed, program):
    version = installed.run(program, '--version')
    assert version.returncode == 0, version.stderr
    assert version.stdout.strip().endswith(' 1.0.0rc1')
    assert version.stderr == ''


def test_the_console_says_which_extra_it_needs(installed, tmp_path):
    conf = tmp_path / 'empty.conf'
    conf.write_text('')
    done = installed.run('novasched-console', '--config-file', conf)
    assert done.returncode == 1
    assert done.stderr.endswith(' is missing. Install novasched[console].\n')
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ('program', 'words'),
    [
        ('novasched-scheduler', []),
        pytest.param('novasched-compute', ['--fleet', '/nonexistent'], marks=OF_LAB),
        pytest.param('novasched-conductor', [], marks=OF_LAB),
    ],
)
def test_a_daemon_says_what_it_lacks_in_one_line(with_lab, tmp_path, program, words):
    conf = tmp_path / 'empty.conf'
    conf.write_text('[DEFAULT]\n')
    done = with_lab.run(program, '--config-file', conf, *words)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if ' WARNING ' not in line]
    assert [line.partition(':')[0] for line in said] == [program]
    assert 'No module' not in said[0]


def test_servers_of_a_running_cloud_are_listed(with_lab, cloud, tmp_path):
    conf = cloud.write_conf(tmp_path / 'nova.conf')
    done = with_lab.run('novasched', '--config-file', conf, 'list', '-f', 'json')
    assert (done.returncode, done.stdout.strip()) == (0, '[]'), done.stderr


def test_a_running_cloud_is_checked(installed, cloud, tmp_path):
    conf = cloud.write_conf(tmp_path / 'nova.conf')
    done = installed.run('novasched-status', '--config-file', conf, 'upgrade', 'check')
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_needs_nothing_else(with_lab):
    done = with_lab.run('novasched', 'demo')
    assert done.returncode == 0, done.stderr
    assert 'SCHEDULED on' in done.stdout


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('config-generator.conf', {'[DEFAULT]', '[novasched]', '[pci]', '[scheduler]'}),
        pytest.param(
            'config-generator-lab.conf', {'[DEFAULT]', '[conductor]'}, marks=OF_LAB
        ),
    ],
)
def test_a_sample_file_is_made_of_what_is_installed(with_lab, tmp_path, name, expected):
    sample = tmp_path / 'novasched.conf.sample'
    generator = ('oslo-config-generator', '--config-file')
    made_by = with_lab.share(f'novasched/{name}')
    done = with_lab.run(*generator, made_by, '--output-file', sample)
    assert done.returncode == 0, done.stderr
    groups = {line for line in sample.read_text().splitlines() if line[:1] == '['}
    assert expected <= groups
    assert ('[scheduler]' in groups) == ('[scheduler]' in expected)


def test_units_and_manual_pages_come_along(installed):
    for name in ('scheduler', 'shadow'):
        unit = installed.share(f'novasched/novasched-{name}.service').read_text()
        assert 'bin/novasched-scheduler --config-file /etc/nova/nova.conf' in unit
    sample = installed.share('novasched/novasched-shadow.conf.sample').read_text()
    assert '\nshadow = true\n' in sample
    pages = {path.name for path in installed.share('man').rglob('*.[18]')}
    assert pages == {path.name for path in (ROOT / 'docs/man').iterdir()}


@cases(
    'typed, offered',
    ('a command', 'novasched he', ['help']),
    ('an option', 'novasched complete --n', ['--name']),
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
