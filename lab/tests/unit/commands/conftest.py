# SPDX-License-Identifier: Apache-2.0
"""The API with databases in files; all others are played."""

import pytest

from lab.tests.unit.api.conftest import made  # noqa: F401  fixture


@pytest.fixture(autouse=True)
def _as_before(logging_as_before):
    """Every test here may run a program."""
