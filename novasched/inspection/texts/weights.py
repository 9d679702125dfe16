# SPDX-License-Identifier: Apache-2.0
"""The weights of the best hosts as text, and by what the picked one won."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from novasched.decisions.decided import ScoredHost
from novasched.inspection.questions.explain import Explanation
from novasched.inspection.texts.lines import BOLD, GREEN, Style, first_of, shown
from novasched.scheduler.outcomes import Outcome

SHOWN_HOSTS = 5
SUFFIX = 'Weigher'
MOST_NO_EFFECT = 2
GAP = '  '
WIDE = 100


def lines(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield a table of the best hosts: totals, and what each weigher adds to them.

    Where not all weighers fit, those that tell the hosts apart most are shown.
    """
    rows = _rows(explained, style)
    if not rows:
        return
    remarks = _remarks(explained, style)
    table = [['total', *(shown(row.total) for row in rows)]]
    first = max(len('Weights') - 2, *(len(row.host) for row in rows))
    weighers = list(rows[0].weights)
    columns = {name: _column(name, rows) for name in weighers}
    width = style.width - first - len(GAP) - _width(table[0]) - len(GAP)
    width -= max(len(remarks.get(row.host, '')) for row in rows) + len(GAP)
    kept = set()
    for name in sorted(weighers, key=lambda name: -_spread(name, explained.top)):
        if (needed := _width(columns[name]) + len(GAP)) <= width:
            kept.add(name)
            width -= needed
    table += [columns[name] for name in weighers if name in kept]
    widths = [_width(column) for column in table]
    heads, *numbered = (
        GAP.join(f'{c:>{w}}' for c, w in zip(cells, widths, strict=True))
        for cells in zip(*table, strict=True)
    )
    yield f'{style.paint("Weights", BOLD)}{"":<{first - 5}}{GAP}{heads}'
    for row, numbers in zip(rows, numbered, strict=True):
        remark = remarks.get(row.host, '')
        colour = GREEN if remark.startswith('<-') else ''
        yield f'  {row.host:<{first}}{GAP}{numbers}{GAP}{style.paint(remark, colour)}'
    yield from _left_out([n for n in weighers if n not in kept], explained, style)


def won_by(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield by how much the picked host is ahead of the second, and thanks to which
    weighers."""
    if text := gap_text(explained):
        said = [f'{decided_by(name)}{h}.' for name, h in explained.decisive.items()]
        yield from style.labelled('Won by', ' '.join([text, *said]))


def decided_by(weigher: str) -> str:
    """Return the words on a weigher before the host that would have won without it."""
    return f'{weigher} decided it: without it, '


def gap_text(explained: Explanation) -> str:
    """Return in words by how much the picked host is ahead; '': it is the only one."""
    margin = explained.margin
    if margin is None:
        return ''
    gaps = {n: g for n, g in margin.weighers.items() if g and round(g, 4)}
    each = ', '.join(
        f'{short(name)} {shown(gap, "+")}'
        for name, gap in sorted(gaps.items(), key=lambda item: -abs(item[1]))
    )
    by, over = margin.by, margin.over
    if by is None:
        text = f'what is no number, over {over}'
    elif by > 0:
        text = f'{shown(by)} over {over}'
    elif by == 0:
        text = f'a tie: {over} has the same weight'
    else:
        text = (
            f'a later turn: {over} has {shown(-by)} more, and was refused a claim or '
            'left out by [filter_scheduler] host_subset_size'
        )
    return f'{text}: {each}.' if each else f'{text}.'


def _rows(explained: Explanation, style: Style) -> list[ScoredHost]:
    top = explained.top
    if style.is_long:
        return list(top)
    picked = [row for row in top[SHOWN_HOSTS:] if row.host == explained.picked]
    return [*top[:SHOWN_HOSTS], *picked]


def _remarks(explained: Explanation, style: Style) -> dict[str, str]:
    """Return the remarks on hosts beside their weights."""
    found = dict(explained.roles)
    if picked := explained.picked:
        tries = tries_of(explained) if style.width >= WIDE else ''
        found[picked] = f'<- selected{", " if tries else ""}{tries}'
    return found


def tries_of(explained: Explanation) -> str:
    """Return at which try the claim for the picked host was granted; '': no claim of
    one server was."""
    claimed = explained.picked, Outcome.CLAIMED
    outcomes = [(claim.host, claim.outcome) for claim in explained.claims]
    if explained.servers_total > 1 or claimed not in outcomes:
        return ''
    tries = outcomes.index(claimed) + 1
    return 'claimed at the first try' if tries == 1 else f'claimed at try {tries}'


def _column(name: str, rows: Sequence[ScoredHost]) -> list[str]:
    head = f'{short(name)} {multiplier_of(name, rows)}'.rstrip()
    return [head, *(shown(row.weights[name].adds) for row in rows)]


def multiplier_of(name: str, rows: Sequence[ScoredHost]) -> str:
    """Return the multiplier of a weigher in words; '': hosts have different ones."""
    multipliers = {row.weights[name].multiplier for row in rows}
    times = multipliers.pop() if len(multipliers) == 1 else None
    return '' if times is None else f'x{float(f"{times:.6g}")}'


def _spread(name: str, rows: Sequence[ScoredHost]) -> float:
    adds = [row.weights[name].adds for row in rows]
    known = [number for number in adds if number is not None]
    return float('inf') if len(known) < len(adds) else max(known) - min(known)


def _left_out(
    names: Sequence[str], explained: Explanation, style: Style
) -> Iterator[str]:
    """Yield which weighers are not in the table."""
    if names:
        yield from style.wrapped('  also: ', ', '.join(map(short, names)))
    idle = [short(name) for name in explained.no_effect]
    if idle:
        said = first_of(idle, len(idle) if style.is_long else MOST_NO_EFFECT)
        yield from style.wrapped('  no effect: ', ', '.join(said))


def short(name: str) -> str:
    """Return the name of a weigher without what all of them end with."""
    return name.removesuffix(SUFFIX) or name


def _width(cells: Sequence[str]) -> int:
    return max(map(len, cells))
