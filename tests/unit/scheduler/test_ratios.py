# SPDX-License-Identifier: Apache-2.0
"""Lists of name=ratio, good and bad."""

from __future__ import annotations

import pytest

from novasched.scheduler.metrics import invalid_ratios, ratios


@pytest.mark.parametrize(
    ('items', 'found'),
    [
        pytest.param([], [], id='empty'),
        pytest.param(['a=1', 'b=-0.5'], [('a', 1.0), ('b', -0.5)], id='two'),
        pytest.param(['a=1', 'a=2'], [('a', 1.0), ('a', 2.0)], id='one twice'),
        pytest.param(['a= 2 '], [('a', 2.0)], id='blanks around the number'),
        pytest.param(['b = 2'], [('b ', 2.0)], id='a blank in the name'),
        pytest.param(['a=b=2', 'c=1'], [('c', 1.0)], id='two equals signs'),
        pytest.param(['bad', '=1', 'a=', 'a=x'], [], id='no name or no number'),
    ],
)
def test_parse(items, found):
    assert list(ratios(items)) == found


def test_invalid():
    items = ['a=1', 'bad', '=1', 'a=x', 'b=2']
    assert invalid_ratios(items) == ('bad', '=1', 'a=x')
