# SPDX-License-Identifier: Apache-2.0
"""The funnel of a decision as text: how many hosts each stage left, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from novasched.decisions.decided import PLACEMENT, Stage, StageReason
from novasched.inspection.texts.lines import BOLD, DIM, SEPARATOR, Style, unbroken
from novasched.scheduler.reasons import Code

LEAST_FOR_REASONS = 30
INDENT = '  '


def summary(stages: Sequence[Stage]) -> str:
    """Return the numbers of hosts in a line: 312 -> 187 -> 185."""
    if not stages:
        return ''
    ends = [stage.after for stage in stages if stage.taken]
    return ' -> '.join(map(str, [stages[0].before, *ends]))


def lines(
    stages: Sequence[Stage],
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
        stage
        for stage in stages
        if style.is_long or stage.taken or notes.get(stage.name)
    ]
    names = max((len(stage.name) for stage in taking), default=0)
    places = max((len(str(stage.before)) for stage in taking), default=0)
    for stage in taking:
        start = (
            f'{INDENT}{stage.name:<{names}}  {stage.before:>{places}} -> '
            f'{stage.after:<{places}}  '
        )
        note = f'({notes[stage.name]})' if notes.get(stage.name) else ''
        text = f'{of_reasons(told(stage))} {unbroken(note)}'.strip()
        wrapped = style.wrapped(start, text)
        is_narrow = style.width - len(start) < LEAST_FOR_REASONS
        if text and (is_narrow or max(map(len, wrapped)) > style.width):
            yield start.rstrip()
            wrapped = style.wrapped(INDENT * 3, text)
        first, *others = wrapped
        yield first
        for other in others:
            yield style.paint(other, DIM)


def told(stage: Stage) -> Sequence[StageReason]:
    """Return the reasons of a stage but that placement gives none, which is a note."""
    is_one = stage.name == PLACEMENT and len(stage.reasons) == 1
    return [r for r in stage.reasons if not (is_one and r.code == Code.NOT_ASKED)]


def of_reasons(reasons: Iterable[StageReason]) -> str:
    """Return reasons in a line: one with its text, several as counts."""
    listed = list(reasons)
    if len(listed) == 1:
        return of_reason(listed[0])
    shown = (of_reason(replace(reason, text='')) for reason in listed)
    return SEPARATOR.join(map(unbroken, shown))


def of_reason(reason: StageReason, has_count: bool = True) -> str:
    """Return a reason in words: code, count, text and an example.

    Of one host, the example is that one.
    """
    text = f': {reason.text}' if reason.text else ''
    count = f' {reason.count}' if has_count else ''
    one_of = 'e.g. ' if reason.count > 1 else ''
    example = unbroken(f'({one_of}{reason.example})') if reason.example else ''
    return f'{reason.name}{count}{text} {example}'.rstrip()
