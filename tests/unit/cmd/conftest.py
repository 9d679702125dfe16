# SPDX-License-Identifier: Apache-2.0
"""Programs run in this process, and leave its logging as it was."""

import pytest

from tests.unit.cmd.status_cloud import cloud, copies, placement  # noqa: F401  fixtures


@pytest.fixture(autouse=True)
def _as_before(logging_as_before):
    """Every test here may run a program."""
