# SPDX-License-Identifier: Apache-2.0
"""The API with databases in files; all others are played."""

from __future__ import annotations

from tests.unit.shims.api.conftest import made  # noqa: F401  fixture
