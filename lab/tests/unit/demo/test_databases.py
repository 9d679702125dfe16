# SPDX-License-Identifier: Apache-2.0
"""The databases of the demo."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db import engines
from novasched_lab.demo import databases
from novasched_lab.store.stores import ApiServers


@pytest.mark.parametrize('names', ['aaa', 'abc'])
def test_tables_and_cells_are_made_and_dropped(conf, tmp_path, names):
    urls = databases.Urls(*(f'sqlite:///{tmp_path}/{name}' for name in names))
    made = conf(urls.cell0, urls.api)
    engine = engines.api_engine(made)
    with databases.made(made, urls, 'rabbit://h/', drops=True):
        cells = ApiServers(engine).cells()
        assert [(c.name, c.database_connection) for c in cells] == [
            ('cell0', urls.cell0),
            ('cell1', urls.cell1),
        ]
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


def test_a_database_that_is_in_use_is_left_alone(conf, tmp_path):
    url = f'sqlite:///{tmp_path}/used'
    urls, made = databases.Urls(url, url, url), conf(url, url)
    engine = engines.api_engine(made)
    with engine.begin() as connection:
        connection.exec_driver_sql('CREATE TABLE mine (id INTEGER)')
    with (
        pytest.raises(errors.OptionError, match='has tables, such as mine'),
        databases.made(made, urls, 'rabbit://h/', drops=True),
    ):
        pass
    assert sa.inspect(engine).get_table_names() == ['mine']
    engine.dispose()


def test_a_database_that_is_named_is_used_for_all(tmp_path):
    with databases.somewhere('sqlite:///one', tmp_path) as urls:
        assert set(urls) == {'sqlite:///one'}
