# SPDX-License-Identifier: Apache-2.0
"""Databases in SQLite files."""

import pytest

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched.db import engines
from tests.support.clouds.configuration import make_conf
from tests.support.databases.databases import Databases


@pytest.fixture
def conf():
    """Make a configuration: `conf(main=url, api=url, **options of [database])`."""

    def make(main=None, api=None, **options):
        made = make_conf()
        made.set_override('connection', main, 'database')
        made.set_override('connection', api, 'api_database')
        for name, value in options.items():
            made.set_override(name, value, 'database')
        return made

    return make


@pytest.fixture
def databases(tmp_path, conf):
    """An API database and a cell's, with empty tables."""
    made = conf(f'sqlite:///{tmp_path}/cell', f'sqlite:///{tmp_path}/api')
    found = Databases(engines.api_engine(made), engines.main_engine(made))
    found.create_tables()
    yield found
    for engine in found:
        engine.dispose()
