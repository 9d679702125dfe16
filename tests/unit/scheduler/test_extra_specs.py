# SPDX-License-Identifier: Apache-2.0
"""The operators of extra specs."""

import pytest

from novasched.scheduler.extra_specs import match


@pytest.mark.parametrize(
    ('value', 'requirement', 'expected'),
    [
        ('1', '1', True),
        ('2', '= 1', True),
        ('0', '= 1', False),
        ('2', '== 2.0', True),
        ('1.0', '1', False),
        ('3', '> 2', False),
        ('> 2', '> 2', True),
        ('123', 's< 2', True),
        ('10', 's> 9', False),
        ('9', 's>= 9', True),
        ('9', 's<= 8', False),
        ('a', 's!= b', True),
        ('a', 's== a', True),
        ('3', '<= 2', False),
        ('3', '!= 3.0', False),
        ('hello', '<in> ell', True),
        ('ell', '<in> hello', False),
        ('ssd,hdd', '<in> ssd nope', True),
        ('aes vmx avx', '<all-in> aes avx', True),
        ('aes vmx', '<all-in> aes avx', False),
        ('true', 'True', False),
        ('5', '==5', False),
        ('nan', '== nan', False),
        ('12', '<or> 11 <or> 12', True),
        ('12', '<or> 11 <or> 12 <or>', True),
        ('12', '<or> 11 12', False),
        ('12', '<or> 13 X 12', True),
        ('13', '<or> 11 <or> 12', False),
        ('x', 's==', False),
        ('x', '<in>', False),
        ('x', '<all-in>', False),
        ('1', '=', False),
        ('', '', True),
        ('', ' ', False),
        (None, '= 1', False),
        (None, 's== 1', False),
        (None, '<or> 1', False),
        ('1e3', '== 1000', True),
        (' 5 ', '== 5', True),
        ('a b', ' a b', False),
        ('inf', '>= 5', True),
    ],
)
def test_match(value, requirement, expected):
    assert match(value, requirement) is expected


@pytest.mark.parametrize(
    ('value', 'requirement', 'error'),
    [
        ('12', '<or>', IndexError),
        ('abc', '>= 3', ValueError),
        ('3', '>= abc', ValueError),
        ('0x10', '== 16', ValueError),
    ],
)
def test_nonsense_raises_as_in_nova(value, requirement, error):
    with pytest.raises(error):
        match(value, requirement)
