# SPDX-License-Identifier: Apache-2.0
"""The overview of all schedulers as one frame of text, for ``novasched top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from novasched.decisions.listing import ShownDecision
from novasched.inspection.questions.reports import Overview
from novasched.inspection.texts.amounts import duration, number
from novasched.inspection.texts.lines import (
    GREEN,
    RED,
    SHOWN_OF_UUID,
    Fact,
    Style,
    counted,
    length,
)
from novasched.inspection.texts.missing import missing_parts
from novasched.runtime.times import time_of

LABEL = 14
RESULTS = {
    'scheduled': ('scheduled', GREEN),
    'unschedulable': ('NO VALID HOST', RED),
    'error': ('ERROR', RED),
}


def frame(overview: Overview, style: Style, rows: int = 20) -> str:
    """Return the text: sums first, then the newest requests."""
    lines = [
        *_labelled(style, 'novasched top   ', _head(overview)),
        *_labelled(style, _label(f'last {overview.window_s:g} s'), _results(overview)),
        *_labelled(style, _label('Away'), _away(style, overview)),
        *_labelled(style, _label('Picks'), _picks(overview.picks)),
        *_labelled(style, _label('Blockers'), _blockers(overview)),
        *_labelled(style, _label('Cells'), _cells(style, overview)),
        *_labelled(style, _label('Not seen'), list(missing(overview))),
        *(_row(style, row) for row in overview.newest[:rows]),
    ]
    return '\n'.join(lines) + '\n'


def _label(text: str) -> str:
    return f'  {text:<{LABEL - 2}}'


def _labelled(style: Style, start: str, items: list[str]) -> list[str]:
    """Return lines of items behind a label; none if there are no items."""
    lines = style._replace(width=style.width - len(start)).packed('', items)
    indents = (start, *([' ' * len(start)] * len(lines)))
    return [f'{indent}{line}' for indent, line in zip(indents, lines, strict=False)]


def figures(overview: Overview) -> list[Fact]:
    """Return the rates and durations that are known, each under its label."""
    took, placement = overview.took_ms, overview.placement_ms
    made = (
        Fact(number(overview.requests_per_s), label='requests/s'),
        Fact(number(overview.in_flight), label='in flight, mean'),
        *(Fact(duration(took[name]), label=name) for name in ('p50', 'p99')),
        Fact(duration(placement['p50']), label='placement p50'),
    )
    return [each for each in made if each.text]


def word(result: str) -> str:
    """Return a result in words."""
    return RESULTS[result][0].lower() if result in RESULTS else result


def cells(overview: Overview) -> list[Fact]:
    """Return the cells, and how old is what is known of their hosts."""
    made = []
    for cell in overview.cells:
        said = 'unavailable' if cell.left_out else ''
        age = '' if cell.age_s is None else length(cell.age_s)
        made.append(Fact(cell.cell, label=said, note=age))
    return made


def missing(overview: Overview) -> Iterator[str]:
    """Yield a sentence on each scheduler that is not in an overview."""
    return missing_parts(overview.unanswered, overview.without_log)


def _head(overview: Overview) -> list[str]:
    until = overview.until
    return [
        counted(len(overview.schedulers), 'scheduler'),
        until[11:19] + 'Z' if until is not None else '',
        *map(str, figures(overview)),
    ]


def _results(overview: Overview) -> list[str]:
    results = overview.results
    return [
        *(f'{word(name)} {results.get(name, 0)}' for name in RESULTS),
        *(
            f'{outcome} {lost.count}, {lost.age_s:.0f} s ago'
            for outcome, lost in overview.lost_claims.items()
        ),
        f'records lost {overview.records_lost}',
    ]


def _blockers(overview: Overview) -> list[str]:
    return [f'{each.blocker} {each.count}' for each in overview.blockers]


def _away(style: Style, overview: Overview) -> list[str]:
    return [
        f'{style.paint(each.service, RED)} since {each.since_s:.0f} s, '
        f'{counted(each.waiting, "request")} waiting: {each.problem}'
        for each in overview.outages
    ]


def _picks(picks: Mapping[str, float]) -> list[str]:
    if not picks:
        return []
    counts = ('sent', 'received', 'lost', 'refused')
    return [
        f'{picks["assumed"]:.0f} assumed, the oldest for {picks["oldest_s"]:.0f} s',
        *(f'{name} {picks[name]:.0f}' for name in counts if picks.get(name)),
    ]


def _cells(style: Style, overview: Overview) -> list[str]:
    return [
        style.paint(str(said), RED if cell.left_out else '')
        for cell, said in zip(overview.cells, cells(overview), strict=True)
    ]


def _row(style: Style, row: ShownDecision) -> str:
    """Return the line of a request, cut to the width."""
    result, colour = RESULTS.get(row.result, (row.result, ''))
    more = f' +{row.servers - 1}' if row.servers > 1 else ''
    cells = (
        (f'  {time_of(row.at, "%H:%M:%S")}', LABEL),
        (row.server[:SHOWN_OF_UUID] + more, 13),
        (row.flavor, 13),
        (result, 15),
        (row.why or ', '.join(row.picked), max(12, style.width - LABEL - 13 - 13 - 24)),
    )
    line = ''.join(f'{text[: width - 1]:<{width}}' for text, width in cells)
    line += f'{row.took_us / 1000:>6.0f} ms'
    return line.replace(result, style.paint(result, colour), 1)
