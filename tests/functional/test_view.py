# SPDX-License-Identifier: Apache-2.0
"""The cluster view on SQLite: nothing committed before a request is missed."""

import pytest

import novasched.rpc  # noqa: F401  chooses threads before oslo.messaging asks
from novasched.db import engines
from tests.support.checks import view_checks
from tests.support.clouds.configuration import make_conf
from tests.support.databases.databases import Databases


@pytest.fixture
def conf(tmp_path):
    made = make_conf()
    made.set_override('connection', f'sqlite:///{tmp_path}/cell', 'database')
    made.set_override('connection', f'sqlite:///{tmp_path}/api', 'api_database')
    return made


@pytest.fixture
def databases(conf):
    made = Databases(engines.api_engine(conf), engines.main_engine(conf))
    made.create_tables()
    view_checks.map_cell(made, conf.database.connection)
    yield made
    for engine in made:
        engine.dispose()


def test_a_decision_sees_what_was_committed_before(databases, conf):
    view_checks.a_decision_sees_what_was_committed_before(databases, conf)
