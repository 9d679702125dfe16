# SPDX-License-Identifier: Apache-2.0
"""Tables of cases: a row has its name first, and then what the test is given."""

from __future__ import annotations

import pytest


def cases(names, *rows):
    """Run a test once for each row, which fails by its name."""
    params = [pytest.param(*values, id=name) for name, *values in rows]
    return pytest.mark.parametrize(names, params)
