# SPDX-License-Identifier: Apache-2.0
"""The API with databases in files; all others are played."""

import pytest

from lab.tests.unit.api.fakes import Api


@pytest.fixture
def made(neighbours):
    """The context of the API, and what is around it."""
    return Api(neighbours)
