# SPDX-License-Identifier: Apache-2.0
"""The funnel of a decision as text: how many hosts each stage left, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from novasched.inspection.texts.lines import BOLD, DIM, SEPARATOR, Style, unbroken
from novasched.inspection.texts.stages import PLACEMENT
from novasched.scheduler.reasons import Code

LEAST_FOR_REASONS = 30
INDENT = '  '


def summary(stages: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of hosts in a line: 312 -> 187 -> 185."""
    if not stages:
        return ''
    ends = [each['out'] for each in stages if each['out'] != each['in']]
    return ' -> '.join(map(str, [stages[0]['in'], *ends]))


def lines(
    stages: Sequence[Mapping[str, Any]],
    style: Style,
    notes: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield the funnel: its summary, and a line for each stage that took hosts.

    ``notes`` are added to the reasons of stages, by name. A style that is long has the
    other stages, too.
    """
    if not stages:
        return
    yield from style.labelled('Hosts', summary(stages), BOLD)
    notes = notes or {}
    taking = [
        each
        for each in stages
        if style.is_long or each['in'] != each['out'] or notes.get(each['name'])
    ]
    names = max((len(each['name']) for each in taking), default=0)
    places = max((len(str(each['in'])) for each in taking), default=0)
    for each in taking:
        start = (
            f'{INDENT}{each["name"]:<{names}}  {each["in"]:>{places}} -> '
            f'{each["out"]:<{places}}  '
        )
        note = notes.get(each['name'], '')
        reasons = each['reasons']
        if each['name'] == PLACEMENT and len(reasons) == 1:
            # That there is no reason stands in the note.
            reasons = [r for r in reasons if r['code'] != Code.NOT_ASKED]
        text = f'{of_reasons(reasons)} {unbroken(note)}'.strip()
        wrapped = style.wrapped(start, text)
        is_narrow = style.width - len(start) < LEAST_FOR_REASONS
        if text and (is_narrow or max(map(len, wrapped)) > style.width):
            yield start.rstrip()
            wrapped = style.wrapped(INDENT * 3, text)
        first, *others = wrapped
        yield first
        for other in others:
            yield style.paint(other, DIM)


def of_reasons(reasons: Iterable[Mapping[str, Any]]) -> str:
    """Return reasons in a line: one with its text, several as counts."""
    listed = list(reasons)
    if len(listed) == 1:
        return of_reason(listed[0])
    shown = (of_reason({**each, 'text': ''}) for each in listed)
    return SEPARATOR.join(map(unbroken, shown))


def of_reason(reason: Mapping[str, Any], has_count: bool = True) -> str:
    """Return a reason in words: code, count, text and an example.

    Of one host, the example is that one.
    """
    what, text = reason.get('what', ''), reason['text']
    count = str(reason['count']) if has_count else ''
    said = filter(None, [str(reason['code']), what, count])
    one_of = 'e.g. ' if reason['count'] > 1 else ''
    example = unbroken(f'({one_of}{reason["example"]})') if reason['example'] else ''
    return f'{" ".join(said)}{f": {text}" if text else ""} {example}'.rstrip()
