# SPDX-License-Identifier: Apache-2.0
"""The tree as the tests of its shape see it."""

import configparser
import pathlib
import re
import tomllib

import pytest


@pytest.fixture(scope='session')
def root():
    """The checkout."""
    return pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='session')
def python_files(root):
    """Every Python file of the packages and of their tests: path from root, text."""
    return {
        path.relative_to(root): path.read_text()
        for top in ('novasched', 'tests', 'lab/novasched_lab', 'lab/tests')
        for path in sorted((root / top).rglob('*.py'))
    }


@pytest.fixture(scope='session')
def package_files(python_files):
    """Every module of the two packages: path from the directory of it, text."""
    return {
        path.relative_to('lab') if path.parts[0] == 'lab' else path: text
        for path, text in python_files.items()
        if path.parts[0] == 'novasched' or path.parts[:2] == ('lab', 'novasched_lab')
    }


@pytest.fixture(scope='session')
def layers(root):
    """The names of the import contract, from the top down."""
    project = tomllib.loads((root / 'pyproject.toml').read_text())
    contracts = project['tool']['importlinter']['contracts']
    layered = next(contract for contract in contracts if contract['type'] == 'layers')
    listed = [re.split(r' [|:] ', layer) for layer in layered['layers']]
    return [name for names in listed for name in names]


@pytest.fixture(scope='session')
def entry_points(root):
    """The entry points of both setup.cfg: group to {name: 'module:attribute'}."""
    found = {}
    for directory in (root, root / 'lab'):
        for group, lines in setup_of(directory)['options.entry_points'].items():
            listed = (line.split(' = ') for line in lines.strip().splitlines())
            found.setdefault(group, {}).update(listed)
    return found


def setup_of(directory):
    """What the setup.cfg of a distribution says."""
    parser = configparser.ConfigParser()
    parser.optionxform = str
    parser.read(directory / 'setup.cfg')
    return parser
