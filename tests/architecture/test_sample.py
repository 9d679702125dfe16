# SPDX-License-Identifier: Apache-2.0
"""The sample configuration file names every option once, as it is here."""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys

import pytest


@pytest.fixture(scope='module')
def options(root, tmp_path_factory):
    """The options of the sample: (group, name) of each line, and its value."""
    path = tmp_path_factory.mktemp('sample') / 'novasched.conf.sample'
    generator = pathlib.Path(sys.executable).with_name('oslo-config-generator')
    configuration = root / 'etc' / 'novasched' / 'config-generator.conf'
    subprocess.run(
        [generator, f'--config-file={configuration}', f'--output-file={path}'],
        capture_output=True,
        check=True,
    )
    found, group = [], None
    for line in path.read_text().splitlines():
        if heading := re.fullmatch(r'\[(\S+)\]', line):
            group = heading.group(1)
        elif option := re.fullmatch(r'#(\w+) = ?(.*)', line):
            found.append(((group, option.group(1)), option.group(2)))
    return found


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
def test_defaults_are_those_of_the_daemon(options, group, name, value):
    assert [v for option, v in options if option == (group, name)] == [value]
