# SPDX-License-Identifier: Apache-2.0
"""Lines of texts for terminals."""

from novasched.inspection.texts.lines import LEAST_WIDTH, Style, unbroken

REASON = unbroken('not-enough-dedicated-cpus VCPU 10')
START = ' ' * 8


def test_unbroken_word_that_fits_a_line_stays_whole():
    lines = Style(48).wrapped(START, f'rejected by {REASON}')
    assert lines == [f'{START}rejected by', f'{START}not-enough-dedicated-cpus VCPU 10']


def test_unbroken_word_longer_than_a_line_is_broken():
    lines = Style(LEAST_WIDTH).wrapped(START, REASON)
    assert lines == [f'{START}not-enough-dedicated-cpus VCPU', f'{START}10']
