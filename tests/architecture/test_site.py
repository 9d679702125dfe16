# SPDX-License-Identifier: Apache-2.0
"""The site is built offline, and every program has its manual page."""

import configparser
import pathlib
import re
import shlex

import pytest
from cliff.commandmanager import CommandManager

from novasched.cmd import manage, status
from novasched.cmd.main import COMMANDS
from novasched.process import opts
from tests.architecture.conftest import setup_of
from tests.live.servers.process import completed
from tests.unit.commands import played

DIRECTORIES = ('docs/man', 'lab/docs/man')


@pytest.fixture(scope='module')
def built(root, tmp_path_factory):
    """The directory of the site and of the manual pages, as they would be made now."""
    directory = tmp_path_factory.mktemp('docs')
    run = completed([root / 'tools/docs', directory])
    assert (run.returncode, run.stderr) == (0, '')
    return directory


@pytest.fixture(scope='module')
def kept(root):
    """The manual pages that are installed, by path from the root."""
    return {
        f'{directory}/{path.name}': path.read_text()
        for directory in DIRECTORIES
        for path in (root / directory).iterdir()
    }


def test_site_needs_no_other_server(built):
    pages = list((built / 'html').rglob('*.html'))
    assert len(pages) > 70
    loaded = re.compile(r'<(?:script|img|iframe|link rel="stylesheet")[^>]*"https?:')
    assert [page.name for page in pages if loaded.search(page.read_text())] == []


def test_site_has_every_option(built):
    page = (built / 'html/reference/options.html').read_text()
    named = set(re.findall(r'id="([\w.-]+)"', page))
    for group, options in opts.list_opts():
        for option in options:
            assert f'{group}.{option.dest}' in named


def heads(text):
    return [line for line in text.splitlines() if line.startswith(('.SH ', '.SS '))]


def test_manual_pages_are_up_to_date(built, kept):
    # The words of options of libraries may be others with other releases of them.
    made = {
        path.name: heads(path.read_text()) for path in (built / 'man').glob('*.[18]')
    }
    assert {pathlib.PurePath(n).name: heads(text) for n, text in kept.items()} == made


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


def test_every_command_of_novasched_has_examples_that_it_understands(root, kept):
    page = (root / 'docs/reference/programs/novasched.rst').read_text()
    _, _, examples = page.partition('Examples\n--------\n')
    manager, shown = CommandManager(COMMANDS), set()
    for line in re.findall(r'^    novasched (.*)', examples, re.M):
        make, name, rest = manager.find_command(shlex.split(line))
        assert make(played.App(), None).get_parser(name).parse_args(rest)
        shown.add(name)
    assert sorted(shown) == sections(kept['docs/man/novasched.1'])


@pytest.mark.parametrize('program', [manage, status])
def test_every_command_has_its_section(kept, program):
    name = program.__name__.rpartition('.')[2]
    page = kept[f'docs/man/novasched-{name}.8']
    assert sections(page) == sorted(program.COMMANDS)


def sections(page):
    lines = heads(page.replace('\\-', '-'))
    return [line[4:] for line in lines if line.startswith('.SS ')]
