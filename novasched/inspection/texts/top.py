# SPDX-License-Identifier: Apache-2.0
"""The overview of all schedulers as one frame of text, for ``novasched top``."""

from __future__ import annotations

from collections.abc import Mapping

from novasched.decisions.listing import ShownDecision
from novasched.inspection.questions.reports import CellState, Overview
from novasched.inspection.texts.lines import GREEN, RED, SHOWN_OF_UUID, Style, counted
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
        *_labelled(style, _label('Cells'), [_cell(style, c) for c in overview.cells]),
        *_labelled(style, _label('Not seen'), _not_seen(overview)),
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


def _head(overview: Overview) -> list[str]:
    took, until = overview.took_ms, overview.until
    return [
        counted(len(overview.schedulers), 'scheduler'),
        _clock(until) + 'Z' if until is not None else '',
        f'requests/s {overview.requests_per_s:.1f}',
        f'in flight {overview.in_flight:.1f} (mean)',
        *(f'{name} {took[name]:.0f} ms' for name in ('p50', 'p99') if took[name]),
    ]


def _clock(at: str) -> str:
    return at[11:19]


def _results(overview: Overview) -> list[str]:
    results, query_ms = overview.results, overview.placement_ms['p50']
    return [
        *(f'{name} {results.get(name, 0)}' for name in RESULTS),
        '' if query_ms is None else f'placement p50 {query_ms:.0f} ms',
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


def _cell(style: Style, cell: CellState) -> str:
    age = '' if cell.age_s is None else f' {cell.age_s:.0f} s'
    unavailable = f' {style.paint("UNAVAILABLE", RED)}' if cell.left_out else ''
    return f'{cell.cell}{unavailable}{age}'


def _not_seen(overview: Overview) -> list[str]:
    return [
        *(f'{host} (does not answer)' for host in overview.unanswered),
        *(f'{host} (nova-scheduler)' for host in overview.without_log),
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
