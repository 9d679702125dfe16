# SPDX-License-Identifier: Apache-2.0
"""Every program has a manual page that knows its commands and can be formatted."""

import configparser
import pathlib
import shlex
import subprocess
import sys

import pytest
from cliff.commandmanager import CommandManager

from novasched.cmd import manage, status
from novasched.cmd.main import COMMANDS
from tests.architecture.conftest import setup_of
from tests.unit.commands import played

DIRECTORIES = ('docs/man', 'lab/docs/man')


@pytest.fixture(scope='module')
def made(root, tmp_path_factory):
    """Pages as they would be written now, by path from the root."""
    directory = tmp_path_factory.mktemp('man')
    words = [sys.executable, '-W', 'ignore', root / 'tools' / 'manpages', directory]
    subprocess.run(words, check=True)
    return pages_below(directory)


@pytest.fixture(scope='module')
def kept(root):
    return pages_below(root)


def pages_below(root):
    return {
        f'{directory}/{path.name}': path.read_text()
        for directory in DIRECTORIES
        for path in (root / directory).iterdir()
    }


def heads(text):
    return [line for line in text.splitlines() if line.startswith(('.SH ', '.SS '))]


def test_the_pages_are_those_that_the_tool_makes(made, kept):
    # The words of options of libraries may be others with other releases of them.
    assert {n: heads(text) for n, text in kept.items()} == {
        name: heads(text) for name, text in made.items()
    }


def test_every_program_has_a_page(kept, entry_points):
    pages = {pathlib.PurePath(name).stem for name in kept}
    assert pages - {'novasched-lab'} == set(entry_points['console_scripts'])


@pytest.mark.parametrize('directory', DIRECTORIES)
def test_the_pages_are_installed(root, kept, directory):
    distribution = pathlib.PurePath(directory).parents[1]
    setup = configparser.ConfigParser()
    setup.read(root / distribution / 'setup.cfg')
    lines = ''.join(setup['options.data_files'].values()).split()
    pages = [line for line in lines if line.startswith('docs/man/')]
    assert sorted(distribution / page for page in pages) == sorted(
        pathlib.PurePath(name) for name in kept if name.startswith(directory)
    )


@pytest.mark.parametrize(
    ('directory', 'page'), [('', 'novasched.1'), ('lab', 'novasched-lab.1')]
)
def test_every_command_of_novasched_has_its_section(root, kept, directory, page):
    points = setup_of(root / directory)['options.entry_points']['novasched.cli']
    names = (line.split(' = ')[0] for line in points.strip().splitlines())
    path = str(pathlib.PurePath(directory, 'docs', 'man', page))
    assert sections(kept[path]) == sorted(name.replace('_', ' ') for name in names)


def test_every_command_of_novasched_has_examples_that_it_understands(kept):
    page = kept['docs/man/novasched.1'].replace('\\-', '-')
    _, _, examples = page.partition('.SH EXAMPLES\n')
    lines = [line for line in examples.splitlines() if line.startswith('.B ')]
    manager, shown = CommandManager(COMMANDS), set()
    for line in lines:
        program, *words = shlex.split(line[3:])
        make, name, rest = manager.find_command(words)
        assert make(played.App(), None).get_parser(name).parse_args(rest)
        assert program == 'novasched'
        shown.add(name)
    assert sorted(shown) == sections(page)


@pytest.mark.parametrize('program', [manage, status])
def test_every_command_has_its_section(kept, program):
    name = program.__name__.rpartition('.')[2]
    page = kept[f'docs/man/novasched-{name}.8']
    assert sections(page) == sorted(program.COMMANDS)


def sections(page):
    lines = heads(page.replace('\\-', '-'))
    return [line[4:] for line in lines if line.startswith('.SS ')]
