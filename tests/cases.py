# SPDX-License-Identifier: Apache-2.0
"""Tables of the cases of a test."""

from __future__ import annotations

import pytest


def cases(names, table):
    """Run a test once for each row of a table, by the names of the rows.

    A row is what one name means, or a tuple of what several names mean.
    """
    return pytest.mark.parametrize(names, list(table.values()), ids=list(table))
