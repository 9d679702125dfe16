# SPDX-License-Identifier: Apache-2.0
"""Configurations that name databases."""

from __future__ import annotations

from tests.unit.db.conftest import conf  # noqa: F401  fixture
