# SPDX-License-Identifier: Apache-2.0
"""Every program has a manual page that knows its commands and can be formatted."""

from __future__ import annotations

import configparser
import importlib
import subprocess
import sys

import pytest


@pytest.fixture(scope='module')
def made(root, tmp_path_factory):
    """Pages as they would be written now, by name."""
    directory = tmp_path_factory.mktemp('man')
    words = [sys.executable, '-W', 'ignore', root / 'tools' / 'manpages', directory]
    subprocess.run(words, check=True)
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.fixture(scope='module')
def kept(root):
    return {path.name: path.read_text() for path in (root / 'docs/man').iterdir()}


def heads(text):
    return [line for line in text.splitlines() if line.startswith(('.SH ', '.SS '))]


def test_the_pages_are_those_that_the_tool_makes(made, kept):
    # The words of options of libraries may be others with other releases of them.
    assert {n: heads(text) for n, text in kept.items()} == {
        name: heads(text) for name, text in made.items()
    }


def test_every_program_has_a_page_that_is_installed(root, kept, entry_points):
    programs = sorted(entry_points['console_scripts'])
    assert sorted(name.rpartition('.')[0] for name in kept) == programs
    setup = configparser.ConfigParser()
    setup.read(root / 'setup.cfg')
    lines = ''.join(setup['options.data_files'].values()).split()
    pages = [line for line in lines if line.startswith('docs/man/')]
    assert sorted(pages) == sorted(f'docs/man/{name}' for name in kept)


@pytest.mark.parametrize('program', ['main', 'manage', 'status'])
def test_every_command_has_its_section(kept, program):
    suffix = '1' if program == 'main' else '8'
    name = 'novasched' if program == 'main' else f'novasched-{program}'
    commands = importlib.import_module(f'novasched.cmd.{program}').COMMANDS
    page = kept[f'{name}.{suffix}'].replace('\\-', '-')
    told = [line[4:] for line in heads(page) if line.startswith('.SS ')]
    assert told == sorted(commands)
