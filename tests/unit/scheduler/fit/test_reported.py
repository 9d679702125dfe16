# SPDX-License-Identifier: Apache-2.0
"""What computes report may be anything."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.reported import LARGEST, Unreadable, number, reading


@pytest.mark.parametrize(
    'error',
    [
        AttributeError('x'),
        KeyError('x'),
        OverflowError('x'),
        RecursionError('x'),
        TypeError('x'),
        ValueError('x'),
    ],
)
def test_what_goes_wrong_is_one_error(error):
    with pytest.raises(Unreadable, match=f'^{type(error).__name__}: '), reading():
        raise error


def test_a_message_is_short():
    with pytest.raises(Unreadable) as caught, reading():
        raise ValueError('x' * 1000)
    assert len(str(caught.value)) == len('ValueError: ') + 100


def test_faults_of_our_own_are_not_hidden():
    with pytest.raises(AssertionError), reading():
        raise AssertionError


@pytest.mark.parametrize('value', [LARGEST - 1, 1 - LARGEST, 0])
def test_numbers_in_bounds(value):
    assert number(value) == value


def test_text_and_fractions_become_whole_numbers():
    assert (number('7'), number(2.7), number(True)) == (7, 2, 1)


@pytest.mark.parametrize('value', [LARGEST, -LARGEST, 1e300, 10**400])
def test_numbers_out_of_bounds(value):
    with pytest.raises(ValueError, match='a number is below'):
        number(value)


@pytest.mark.parametrize('value', [-1, 11])
def test_bounds_may_be_closer(value):
    with pytest.raises(ValueError, match='a number is below 0 or above 10'):
        number(value, 0, 10)
