# SPDX-License-Identifier: Apache-2.0
"""Databases in SQLite files, and a conductor's neighbours."""

import pytest

from lab.tests.unit.fakes import Neighbours
from tests.unit.db.conftest import conf, databases  # noqa: F401  fixtures


@pytest.fixture
def neighbours(databases, conf, tmp_path):  # noqa: F811
    """What stands around a conductor."""
    made = Neighbours(databases, conf, tmp_path)
    yield made
    made.cells.close()
