# SPDX-License-Identifier: Apache-2.0
"""Tables of cases: a row a case, under what it shows."""

from __future__ import annotations

import pytest


def cases(names, table):
    """Parametrize a test by a table, whose keys are the ids of its rows.

    ``names`` are separated by commas; a row of several names is a tuple.
    """
    several = ',' in names
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(*(row if several else [row]), id=each)
            for each, row in table.items()
        ],
    )
