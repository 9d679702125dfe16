# SPDX-License-Identifier: Apache-2.0
"""Every program has a manual page that knows its commands and can be formatted."""

from __future__ import annotations

import configparser
import pathlib
import subprocess
import sys

import pytest

from novasched.cmd import manage, status

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
    ('page', 'commands'),
    [
        pytest.param('docs/man/novasched.1', [], id='novasched'),
        pytest.param(
            'lab/docs/man/novasched-lab.1',
            ['boot', 'delete', 'demo', 'list', 'move', 'show'],
            id='novasched, of the lab',
        ),
        pytest.param(
            'docs/man/novasched-manage.8', sorted(manage.COMMANDS), id='manage'
        ),
        pytest.param(
            'docs/man/novasched-status.8', sorted(status.COMMANDS), id='status'
        ),
    ],
)
def test_every_command_has_its_section(kept, page, commands):
    lines = heads(kept[page].replace('\\-', '-'))
    assert [line[4:] for line in lines if line.startswith('.SS ')] == commands
