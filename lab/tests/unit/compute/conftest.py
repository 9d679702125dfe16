# SPDX-License-Identifier: Apache-2.0
"""Databases of a cell and of the API, on SQLite files; a placement with a script."""

import pytest
import sqlalchemy as sa

from tests.support.databases.databases import Databases
from tests.unit.placement.conftest import scripted

__all__ = ['databases', 'scripted']


@pytest.fixture
def databases(tmp_path):
    made = Databases(
        *(sa.create_engine(f'sqlite:///{tmp_path}/{name}') for name in ('api', 'cell'))
    )
    made.create_tables()
    yield made
    for engine in made:
        engine.dispose()
