# SPDX-License-Identifier: Apache-2.0
"""Lines of texts for terminals."""

from novasched.inspection.texts.lines import (
    LEAST_WIDTH,
    SEPARATOR,
    Fact,
    Style,
    length,
    table,
    unbroken,
)
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


def test_separator_without_room_starts_no_line():
    items = ['a' * 19, 'b' * 18, 'c' * 10]
    lines = Style(LEAST_WIDTH).packed('', items, SEPARATOR)
    assert lines == [f'{items[0]}{SEPARATOR}{items[1]}', items[2]]


@cases(
    ('fact', 'said'),
    ('text', Fact('cmp-1', 'host'), 'cmp-1'),
    ('label and note', Fact('az1', label='zone', note='down'), 'zone az1 (down)'),
    ('no text', Fact('', label='server'), 'server'),
)
def test_fact_is_said_with_its_label_and_note(fact, said):
    assert str(fact) == said


def test_table_has_numbers_on_the_right_and_no_empty_column():
    made = table(
        ('Host', 'Pages', 'Share', 'Since'),
        [('cmp-1', '', '5.5 %', ''), ('c2', '', '12.5 %', Fact('now', 'time'))],
    )
    assert made.numbers == {'Share'}
    assert made.lines() == [
        'Host     Share   Since',
        'cmp-1    5.5 %   -',
        'c2      12.5 %   now',
    ]


def test_table_without_rows_has_no_lines():
    assert table(('Host',), []).lines() == []
