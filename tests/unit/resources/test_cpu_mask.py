# SPDX-License-Identifier: Apache-2.0
"""Masks of guest CPUs."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources.cpu_mask import cpus_in


@pytest.mark.parametrize(
    ('mask', 'cpus'),
    [
        pytest.param('0', {0}, id='one'),
        pytest.param('0-1,3', {0, 1, 3}, id='a range and one'),
        pytest.param('^0', {1, 2, 3}, id='all but one'),
        pytest.param('^0,1', {1, 2, 3}, id='all but one, and one that is there'),
        pytest.param('0-3,^1-2', {0, 3}, id='a range without another'),
        pytest.param('0-1,^9', {0, 1}, id='without one that is not there'),
        pytest.param(' 0 - 1 ,, 2', {0, 1, 2}, id='blanks mean nothing'),
        pytest.param('+1', {1}, id='a sign'),
        pytest.param('9', {9}, id='one that the guest does not have'),
        pytest.param(',', set(), id='none'),
    ],
)
def test_cpus(mask, cpus):
    assert cpus_in(mask, 4) == cpus


@pytest.mark.parametrize(
    ('mask', 'text'),
    [
        ('x', "Invalid inclusion expression 'x'"),
        ('1.5', "Invalid inclusion expression '1.5'"),
        ('0-1,^', "Invalid exclusion expression '^'"),
        ('^x', "Invalid exclusion expression '^x'"),
        ('3-1', "Invalid range expression '3-1'"),
        ('-1', "Invalid range expression '-1'"),
        ('0-', "Invalid range expression '0-'"),
        ('0-1-2', "Invalid range expression '0-1-2'"),
        ('^0-', "Invalid range expression '^0-'"),
        ('0-999999999999', "Invalid range expression '0-999999999999'"),
    ],
)
def test_what_is_no_mask(mask, text):
    with pytest.raises(errors.InvalidDemand) as raised:
        cpus_in(mask, 4)
    assert str(raised.value) == text
