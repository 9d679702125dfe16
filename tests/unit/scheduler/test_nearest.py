# SPDX-License-Identifier: Apache-2.0
"""Conditions to change, where no host meets all of them."""

import numpy as np

from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.nearest import Change, asked_of_all, joined, nearest
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NAMES = ['a', 'b', 'c', 'd']


def met(**rows):
    """Which of four hosts meet each condition: `met(x='1101')`."""
    return {name: np.array([c == '1' for c in text]) for name, text in rows.items()}


@cases(
    'conditions, expected',
    ('there are no conditions', {}, {}),
    ('all are met by all', met(x='1111'), {}),
    ('each is the only obstacle', met(x='0011', y='1100'), {'x': 'ab', 'y': 'cd'}),
    ('the most comes first', met(x='1000', y='0111'), {'x': 'bcd', 'y': 'a'}),
    ('a pair', met(x='0000', y='0000', z='1110'), {'xy': 'abc'}),
)
def test_nearest(conditions, expected):
    assert nearest(conditions, NAMES) == [
        Change(tuple(names), len(gained), tuple(gained))
        for names, gained in expected.items()
    ]


@cases(
    'conditions, expected',
    ('z, or y', met(x='0001', y='1110', z='1110'), {'y': 'z', 'z': 'y'}),
    ('all', met(x='0000', y='0000', z='0000'), {'x': 'y', 'y': 'x', 'z': 'x'}),
)
def test_one_that_gives_none_names_what_else_stands_against_it(conditions, expected):
    found = [each for each in nearest(conditions, NAMES) if not each.hosts]
    assert found == [Change((name,), 0, (), other) for name, other in expected.items()]


def test_a_single_condition_that_gives_none_has_nothing_else_against_it():
    found = nearest({'x': np.array([], bool)}, [])
    assert found == []


def test_no_more_than_some_are_listed():
    each = {f'c{place}': np.arange(20) != place for place in range(20)}
    assert len(nearest(each, [str(n) for n in range(20)])) == 8
    assert len(nearest(each, [str(n) for n in range(20)], most=3)) == 3


def test_conditions_that_say_the_same_are_one():
    found = joined(
        met(zone='1100', other='1010', zone_too='0100'), {'zone_too': 'zone'}
    )
    assert {name: mask.tolist() for name, mask in found.items()} == {
        'zone': [False, True, False, False],
        'other': [True, False, True, False],
    }


class Even(BaseHostFilter):
    """Passes every other host."""

    def host_passes(self, host_state, spec_obj):
        return host_state.num_instances % 2 == 0


class Stops(BaseHostFilter):
    """Says to stop filtering."""

    def apply(self, hosts, request):
        return None


class Fails(BaseHostFilter):
    """Cannot answer for some host."""

    def host_passes(self, host_state, spec_obj):
        raise ValueError


def test_each_filter_is_asked_on_its_own():
    hosts = factories.hosts(num_instances=[0, 1, 2])[np.array([2, 1])]
    found = asked_of_all([Even(), Stops(), Fails()], hosts, factories.request())
    assert {name: mask.tolist() for name, mask in found.items()} == {
        'Even': [True, False],
        'Stops': [False, False],
    }
