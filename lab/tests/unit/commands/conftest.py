# SPDX-License-Identifier: Apache-2.0
"""The API with databases in files; all others are played."""

from __future__ import annotations

from lab.tests.unit.api.conftest import made  # noqa: F401  fixture
