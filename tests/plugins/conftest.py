# SPDX-License-Identifier: Apache-2.0
"""Where the plugins are."""

import pathlib

import pytest


@pytest.fixture
def root():
    """The checkout."""
    return pathlib.Path(__file__).parents[2]
