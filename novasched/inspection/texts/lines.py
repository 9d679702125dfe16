# SPDX-License-Identifier: Apache-2.0
"""Texts for terminals: labelled and wrapped lines, colours where they may be."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

BOLD, DIM, GREEN, RED = '1', '2', '1;32', '1;31'
LABEL_WIDTH = 8
LEAST_WIDTH = 40
UNBROKEN = '\xa0'
LONGEST_UNBROKEN = 34
SEPARATOR = ' · '
UUID_LENGTH = 36
SHOWN_OF_UUID = 8
MOST_IN_FULL = 1e6
_NUMBER = re.compile(r'(-|[-+]?[\d.,]+(±[\d.,]+)?( %| h| [KMGT]iB| m?s)?)?')


class Fact(NamedTuple):
    """A text with its label and its note, as a terminal and a page say it.

    A page opens what has the ``value`` of the criterion ``by``: '': the text.
    """

    text: str
    by: str = ''
    label: str = ''
    note: str = ''
    value: str = ''

    def __str__(self) -> str:
        note = f'({self.note})' if self.note else ''
        return ' '.join(filter(None, (self.label, self.text, note)))


class Table(NamedTuple):
    """Rows of facts under the names of their columns."""

    names: Sequence[str]
    rows: Sequence[Sequence[Fact]]

    @property
    def numbers(self) -> set[str]:
        """The names of columns of numbers, which stand on the right."""
        cells = zip(*([each.text for each in row] for row in self.rows), strict=True)
        columns = zip(self.names, cells, strict=True)
        return {name for name, texts in columns if all(map(_NUMBER.fullmatch, texts))}

    def lines(self) -> list[str]:
        """Return the table as text; '-' stands for no text."""
        rows = [[str(each) or '-' for each in row] for row in self.rows]
        return columns(self.names, rows, set(self.names) - self.numbers) if rows else []


def table(names: Sequence[str], rows: Iterable[Sequence[Fact | str]]) -> Table:
    """Return a table without the columns in which no row has a text."""
    made = [
        [each if isinstance(each, Fact) else Fact(each) for each in row] for row in rows
    ]
    kept = [n for n in range(len(names)) if any(row[n].text for row in made)]
    facts = [[row[n] for n in kept] for row in made]
    return Table([names[n] for n in kept], facts)


class Style(NamedTuple):
    """Style of texts: the width of lines, colours, and whether ids are cut."""

    width: int = 80
    has_colour: bool = False
    is_long: bool = False

    def paint(self, text: str, code: str) -> str:
        """Return text in a colour, if there are any."""
        return f'\033[{code}m{text}\033[0m' if self.has_colour and code else text

    def uuid(self, text: str) -> str:
        """Return a uuid as it is shown, cut unless all is asked for."""
        is_cut = len(text) >= UUID_LENGTH and not self.is_long
        return f'{text[:SHOWN_OF_UUID]}…' if is_cut else text

    def labelled(self, label: str, text: str, code: str = '') -> list[str]:
        """Return wrapped lines, the first of which begins with the label."""
        first, *others = self.wrapped(f'{label:<{LABEL_WIDTH}}', text)
        return [self.paint(label, code) + first[len(label) :], *others]

    def wrapped(self, start: str, text: str) -> list[str]:
        """Return lines of text, the later ones indented as far as the first.

        What is unbroken, but longer than a line, is broken all the same.
        """
        width = max(self.width, LEAST_WIDTH)
        lines = textwrap.wrap(
            ' '.join(
                word if len(start) + len(word) <= width else word.replace(UNBROKEN, ' ')
                for word in text.split(' ')
            ),
            width,
            initial_indent=start,
            subsequent_indent=' ' * len(start),
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace(UNBROKEN, ' ') for line in lines] or [start.rstrip()]

    def packed(self, label: str, items: Iterable[str], gap: str = '   ') -> list[str]:
        """Return labelled lines of items; a line ends between two of them, if it can.

        Empty items are left out.
        """
        start = f'{label:<{LABEL_WIDTH}}' if label else ''
        return list(self._packed(start, items, gap))

    def _packed(self, start: str, items: Iterable[str], gap: str) -> Iterator[str]:
        width = max(self.width, LEAST_WIDTH) - len(start)
        line, end = '', gap.rstrip()
        for item in filter(None, items):
            if line and len(line) + len(gap) + len(item) > width:
                is_full = len(line) + len(end) > width
                yield from self.wrapped(start, line if is_full else f'{line}{end}')
                start, line = ' ' * len(start), ''
            line = f'{line}{gap}{item}' if line else item
        if line:
            yield from self.wrapped(start, line)


def columns(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[str] | None = None,
) -> list[str]:
    """Return lines of a table, with the columns in ``left`` aligned there.

    If it is None, these are all columns but numbers.
    """
    lines = [list(names), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if left is None:
        listed = zip(names, *rows, strict=True)
        left = [name for name, *cells in listed if not all(map(str.isdigit, cells))]
    return [
        '   '.join(
            text.ljust(width) if name in left else text.rjust(width)
            for text, width, name in zip(line, widths, names, strict=True)
        ).rstrip()
        for line in lines
    ]


def unbroken(text: str) -> str:
    """Return text that no line ends within, unless it is long."""
    return text.replace(' ', UNBROKEN) if len(text) < LONGEST_UNBROKEN else text


def first_of(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts, and how many more there are."""
    more = len(texts) - most
    return [*texts[:most], f'{more} more'] if more > 0 else list(texts)


def length(seconds: float) -> str:
    """Return a length of time in the largest unit that says something."""
    for unit, unit_s in (('d', 86400), ('h', 3600), ('min', 60)):
        if seconds >= 2 * unit_s:
            number = seconds / unit_s
            return f'{number:.{int(number < 10)}f}'.removesuffix('.0') + f' {unit}'
    return f'{seconds:.0f} s'


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: 1 host, 2 hosts."""
    return f'{number} {noun}{"" if number == 1 else "s"}'


def shown(number: float | None, sign: str = '') -> str:
    """Return a number of a weigher as it is shown; ``sign`` '+': always with one."""
    if number is None:
        return '-'
    # Rounded first: less than nothing by less than is shown has no sign.
    number = round(number, 4) + 0.0
    return format(number, f'{sign}.4f' if abs(number) < MOST_IN_FULL else f'{sign}.4g')
