# SPDX-License-Identifier: Apache-2.0
"""The tree as the tests of its shape see it."""

from __future__ import annotations

import configparser
import pathlib
import tomllib

import pytest


@pytest.fixture(scope='session')
def root():
    """The checkout."""
    return pathlib.Path(__file__).parents[2]


@pytest.fixture(scope='session')
def python_files(root):
    """Every Python file of the package and of its tests: path from root, text."""
    return {
        path.relative_to(root): path.read_text()
        for top in ('novasched', 'tests')
        for path in sorted((root / top).rglob('*.py'))
    }


@pytest.fixture(scope='session')
def package_files(python_files):
    """Every module of the package: path from root, text."""
    return {
        path: text
        for path, text in python_files.items()
        if path.parts[0] == 'novasched'
    }


@pytest.fixture(scope='session')
def layers(root):
    """The names of the import contract, from the top down."""
    project = tomllib.loads((root / 'pyproject.toml').read_text())
    contracts = project['tool']['importlinter']['contracts']
    layered = next(contract for contract in contracts if contract['type'] == 'layers')
    return [name.strip() for layer in layered['layers'] for name in layer.split('|')]


@pytest.fixture(scope='session')
def entry_points(root):
    """The entry points of setup.cfg: group to {name: 'module:attribute'}."""
    parser = configparser.ConfigParser()
    parser.optionxform = str
    parser.read(root / 'setup.cfg')
    return {
        group: dict(line.split(' = ') for line in lines.strip().splitlines())
        for group, lines in parser['options.entry_points'].items()
    }
