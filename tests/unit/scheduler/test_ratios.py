# SPDX-License-Identifier: Apache-2.0
"""Lists of name=ratio, good and bad."""

from novasched.scheduler.metrics import invalid_ratios, ratios
from tests.support.tables.cases import cases


@cases(
    'items, found',
    ('empty', [], []),
    ('two', ['a=1', 'b=-0.5'], [('a', 1.0), ('b', -0.5)]),
    ('one twice', ['a=1', 'a=2'], [('a', 1.0), ('a', 2.0)]),
    ('blanks around the number', ['a= 2 '], [('a', 2.0)]),
    ('a blank in the name', ['b = 2'], [('b ', 2.0)]),
    ('two equals signs', ['a=b=2', 'c=1'], [('c', 1.0)]),
    ('no name or no number', ['bad', '=1', 'a=', 'a=x'], []),
)
def test_parse(items, found):
    assert list(ratios(items)) == found


def test_invalid():
    items = ['a=1', 'bad', '=1', 'a=x', 'b=2']
    assert invalid_ratios(items) == ('bad', '=1', 'a=x')
