# SPDX-License-Identifier: Apache-2.0
"""Tables of cases: a row has its name first, and then what the test is given."""

import pytest

MORE = pytest.mark.exhaustive('other rows prove the same, in most that they do')


def cases(names, *rows, more=()):
    """Run a test once for each row, which fails by its name; ``more`` are rows that
    only all tests have."""
    params = [
        pytest.param(*values, id=name, marks=marks)
        for some, marks in ((rows, ()), (more, MORE))
        for name, *values in some
    ]
    return pytest.mark.parametrize(names, params)
