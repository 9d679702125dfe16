# SPDX-License-Identifier: Apache-2.0
"""Lines of texts for terminals."""

from novasched.inspection.texts.lines import LEAST_WIDTH, Style, length, unbroken
from tests.support.tables.cases import cases

REASON = unbroken('not-enough-dedicated-cpus VCPU 10')
START = ' ' * 8


def test_unbroken_word_that_fits_a_line_stays_whole():
    lines = Style(48).wrapped(START, f'rejected by {REASON}')
    assert lines == [f'{START}rejected by', f'{START}not-enough-dedicated-cpus VCPU 10']


def test_unbroken_word_longer_than_a_line_is_broken():
    lines = Style(LEAST_WIDTH).wrapped(START, REASON)
    assert lines == [f'{START}not-enough-dedicated-cpus VCPU', f'{START}10']


@cases(
    ('seconds', 'said'),
    ('none', 0, '0 s'),
    ('seconds', 119.4, '119 s'),
    ('minutes', 120, '2 min'),
    ('parts of them', 150, '2.5 min'),
    ('hours', 23 * 3600, '23 h'),
    ('days', 7 * 86400, '7 d'),
)
def test_lengths_have_the_largest_unit_that_says_something(seconds, said):
    assert length(seconds) == said
