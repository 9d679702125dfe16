# SPDX-License-Identifier: Apache-2.0
"""The sample configuration file names every option once, as it is here."""

import ast
import collections
import pathlib
import re
import subprocess
import sys

import pytest

from novasched.process import opts
from novasched_lab import opts as lab_opts


@pytest.fixture(scope='module')
def lines(root, tmp_path_factory):
    """The lines of the samples of novasched and of the lab."""
    directory = tmp_path_factory.mktemp('sample')
    generator = pathlib.Path(sys.executable).with_name('oslo-config-generator')
    made = []
    for name in (
        'etc/novasched/config-generator.conf',
        'lab/etc/config-generator-lab.conf',
    ):
        path = directory / pathlib.PurePath(name).stem
        subprocess.run(
            [generator, f'--config-file={root / name}', f'--output-file={path}'],
            capture_output=True,
            check=True,
        )
        made += path.read_text().splitlines()
    return made


@pytest.fixture(scope='module')
def options(lines):
    """The options of the sample: (group, name) of each line, and its value."""
    found, group = [], None
    for line in lines:
        if heading := re.fullmatch(r'\[(\S+)\]', line):
            group = heading.group(1)
        elif option := re.fullmatch(r'#(\w+) = ?(.*)', line):
            found.append(((group, option.group(1)), option.group(2)))
    return found


def test_the_groups_stand_there(lines):
    for group in (
        'DEFAULT',
        'api_database',
        'filter_scheduler',
        'placement',
        'scheduler',
    ):
        assert f'[{group}]' in lines, group


def test_every_option_stands_there_once(options):
    counts = collections.Counter(option for option, _ in options)
    assert [option for option, count in counts.items() if count > 1] == []


@pytest.mark.parametrize(
    ('group', 'name', 'value'),
    [
        ('DEFAULT', 'control_exchange', 'nova'),
        ('DEFAULT', 'graceful_shutdown_timeout', '180'),
        ('DEFAULT', 'debug', 'false'),
        ('scheduler', 'max_attempts', '3'),
    ],
)
def test_sample_has_the_defaults_of_the_daemon(options, group, name, value):
    assert [v for option, v in options if option == (group, name)] == [value]


def is_declaring(text):
    """Say whether a module has options of its own."""
    targets = (
        target
        for node in ast.parse(text).body
        for target in [getattr(node, 'target', None), *getattr(node, 'targets', ())]
    )
    return any(getattr(target, 'id', None) == 'OPTS' for target in targets)


def test_every_module_that_has_options_is_asked(package_files):
    declaring = {
        '.'.join(path.with_suffix('').parts).removesuffix('.__init__')
        for path, text in package_files.items()
        if is_declaring(text)
    }
    readers = [
        *(f'novasched.{name}' for name in opts.READERS),
        *(f'novasched_lab.{name}' for name in lab_opts.READERS),
    ]
    asked = {
        name
        for name in declaring
        if any(f'{name}.'.startswith(f'{reader}.') for reader in readers)
    }
    assert asked == declaring


def test_lines_of_a_help_are_not_broken_again(lines):
    written = {
        f'# {line}'.rstrip()
        for listed in (opts.list_opts(), lab_opts.list_opts())
        for _, options in listed
        for option in options
        if option.help and option.help.startswith('\n')
        for line in option.help.strip().splitlines()
    }
    assert sorted(written - {line.rstrip() for line in lines}) == []
