# SPDX-License-Identifier: Apache-2.0
"""Columns that are more than an array."""

import numpy as np

from novasched.scheduler.columns import Categories, Instances, Lazy, PerHost, PerValue
from tests.support.clouds import factories

COLOURS = Categories(['red', 'blue', 'unused'], np.array([0, 1, 0]))


def test_categories_read_like_a_column():
    assert COLOURS.tolist() == ['red', 'blue', 'red']
    assert COLOURS.item(1) == 'blue'
    assert COLOURS[np.array([1, 0])].tolist() == ['blue', 'red']


def test_map_asks_once_per_value_that_occurs():
    asked = []

    def is_red(colour):
        asked.append(colour)
        return colour == 'red'

    assert COLOURS.map(is_red).tolist() == [True, False, True]
    assert asked == ['red', 'blue']


def counting(made):
    def make():
        made.append(1)
        return np.array([1, 2])

    return Lazy(make)


def test_a_lazy_column_is_made_once():
    made = []
    lazy = counting(made)
    assert not made
    assert lazy.column() is lazy.column()
    assert len(made) == 1


def test_changes_wait_until_the_column_is_read():
    made = []
    lazy = counting(made)
    changed = lazy.then(lambda column: column + 1).then(lambda column: column * 10)
    assert not made
    assert changed.column().tolist() == [20, 30]
    assert lazy.column().tolist() == [1, 2]
    assert len(made) == 1


def test_a_change_of_a_made_column():
    lazy = counting([])
    lazy.column()
    changed = lazy.then(lambda column: column + 1)
    changed.column()
    assert changed.then(lambda column: column * 10).column().tolist() == [20, 30]


def test_derived_value_is_computed_once_for_all_tables():
    asked = []

    def length(word):
        asked.append(word)
        return len(word)

    values = ['red', 'blue', 'unused']
    lengths = PerValue(length)
    assert lengths.of(Categories(values, np.array([0, 1, 0]))).tolist() == [3, 4, 3]
    assert lengths.of(Categories(values, np.array([1]))).tolist() == [4]
    values.append('yellow')
    assert lengths.of(Categories(values, np.array([3, 0]))).tolist() == [6, 3]
    assert asked == ['red', 'blue', 'yellow']


def test_several_numbers_may_follow_from_a_value():
    pairs = PerValue(lambda word: [len(word), 0.5], float, (2,))
    assert pairs.of(COLOURS).tolist() == [[3, 0.5], [4, 0.5], [3, 0.5]]


def test_nothing_follows_from_no_hosts():
    none = Categories([], np.empty(0, np.intp))
    assert PerValue(len, float, (3,)).of(none).shape == (0, 3)


class Counted(dict):
    """Instances that write down when they are looked through."""

    looked = ()

    def __iter__(self):
        self.looked = (*self.looked, 1)
        return super().__iter__()


def counted(*uuids):
    return Counted(dict.fromkeys(uuids))


def test_hosts_may_be_given_other_instances():
    given = factories.objects([{'a': 1}, {'b': 1}, {'c': 1}])
    before = Instances(given)
    after = before.copy()
    after[1] = {'d': 1}
    assert len(after) == 3
    assert after.tolist() == [{'a': 1}, {'d': 1}, {'c': 1}]
    assert after[np.array([2, 1])].tolist() == [{'c': 1}, {'d': 1}]
    assert [after.item(row) for row in range(2)] == [{'a': 1}, {'d': 1}]
    assert before.tolist() == given.tolist() == [{'a': 1}, {'b': 1}, {'c': 1}]


def test_which_hosts_have_any_of_some_instances():
    column = Instances(factories.objects([{'a': 1}, {'b': 1, 'x': 1}, {}, {'c': 1}]))
    rows = np.array([3, 1, 2, 0])
    uuids = frozenset('abd')
    assert column.having(uuids, rows).tolist() == [False, True, False, True]
    column[2], column[0] = {'d': 1}, {'x': 1}
    assert column.having(uuids, rows).tolist() == [False, True, True, False]
    assert column.having(frozenset('x'), rows).tolist() == [False, True, False, True]
    assert column.having(frozenset(), rows).tolist() == [False] * 4


def test_hosts_are_looked_through_once_for_the_same_instances():
    hosts = [counted('a'), counted('b'), counted('c')]
    column = Instances(factories.objects(hosts))
    assert column.having(frozenset('a'), np.array([0, 1])).tolist() == [True, False]
    assert [len(host.looked) for host in hosts] == [1, 1, 0]
    column = column.copy()
    column[1] = {'a': 1}
    asked = column.having(frozenset('a'), np.array([2, 1, 0]))
    assert asked.tolist() == [False, True, True]
    assert [len(host.looked) for host in hosts] == [1, 1, 1]
    assert column.having(frozenset('c'), np.array([2])).tolist() == [True]
    assert [len(host.looked) for host in hosts] == [1, 1, 2]


def test_only_values_unknown_from_an_earlier_table_are_computed():
    asked = []

    def length(word):
        asked.append(word)
        return len(word)

    lengths, first, second = PerValue(length), ['red', 'blue'], ['red', 'blue', 'pink']
    assert lengths.of(Categories(first, np.array([1, 0]))).tolist() == [4, 3]
    assert lengths.of(Categories(second, np.array([0, 2]))).tolist() == [3, 4]
    first.append('yellow')
    assert lengths.of(Categories(first, np.array([2, 0]))).tolist() == [6, 3]
    assert asked == ['red', 'blue', 'pink', 'yellow']


class TestPerHost:
    def test_each_is_made_once_when_it_is_looked_at(self):
        made = []

        def make(row):
            made.append(row)
            return [row]

        column = PerHost(3, make)
        assert column[np.array([2, 0, 2])].tolist() == [[2], [0], [2]]
        assert made == [2, 0]
        column.item(2).append('more')
        copied = column.copy()
        copied[0] = 'other'
        assert copied.tolist() == ['other', [1], [2, 'more']]
        assert column.tolist() == [[0], [1], [2, 'more']]
        assert made == [2, 0, 1]
        assert len(copied) == 3
