# SPDX-License-Identifier: Apache-2.0
"""Plans and answers to why-not as text, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from novasched.inspection.questions.reports import (
    AnyPlan,
    BootPlan,
    DrainedHost,
    DrainPlan,
    MovePlan,
    PlanReport,
    TakenHost,
    UnplacedServers,
    WhyNotReport,
)
from novasched.inspection.texts import funnel, render
from novasched.inspection.texts.amounts import explained_amounts, percent
from novasched.inspection.texts.lines import (
    BOLD,
    GREEN,
    RED,
    SEPARATOR,
    Fact,
    Style,
    Table,
    columns,
    counted,
    first_of,
    shown,
    table,
)
from novasched.scheduler.reasons import Code

MOST_ALTERNATES = 3
MOST_OTHERS = 5
MOST_HOLDERS = 3
_HELD = {'pages': 'Pages', 'pcpu': 'Dedicated CPUs', 'pci': 'Devices'}
INDENT = '  '
CHANGES = ('What would change the answer', 'Hosts that then fit', 'Also missing')


def as_text(report: AnyPlan, style: Style, scope: Sequence[str] = ()) -> str:
    """Return a plan; the servers of a drain leave the hosts of a ``scope``."""
    if isinstance(report, BootPlan):
        return _boot(report, style)
    if isinstance(report, MovePlan):
        return _move(report, style)
    return _drain(report, style, scope)


def _boot(report: BootPlan, style: Style) -> str:
    lines = [_head(report, verdict(report), style)]
    if report.placed:
        lines += _by_server(report) if style.is_long else _by_host(report)
    return _joined([*lines, *_refusals(report, style)], report, style)


def verdict(report: PlanReport, noun: str = '') -> str:
    """Return how many of new servers fit."""
    asked = counted(report.asked, noun) if noun else report.asked
    return f'{report.fits} of {asked} fit{"s" * (report.asked == 1)}'


def _move(report: MovePlan, style: Style) -> str:
    text = f'{report.fits} of {counted(report.asked, "server")} can move'
    lines = [_head(report, text, style)]
    if report.placed:
        lines += _by_server(report)
    return _joined([*lines, *_refusals(report, style)], report, style)


def _drain(report: DrainPlan, style: Style, scope: Sequence[str]) -> str:
    if report.hosts is not None:
        return _one_of_as_text(report, report.hosts, style)
    if not report.asked and not report.cells_left_out:
        return f'Nothing runs on {", ".join(scope)}.\n'
    text = f'{report.fits} of {counted(report.asked, "server")} have a place'
    lines = [_head(report, text, style), *_unplaced(report, style)]
    if style.is_long and report.placed:
        lines += _by_server(report)
    elif taken := Counter(each.host for each in report.placed):
        others = first_of([f'{h} {n}' for h, n in taken.most_common()], MOST_OTHERS)
        label = 'others' if report.unplaced else 'they go to'
        lines.append(f'{INDENT}{label}: {", ".join(others)}')
    if (tight := report.tightest) is not None:
        zone = f' in {tight.zone}' if tight.zone else ''
        text = f'{tight.flavor}{zone}, {tight.slots} more'
        lines.append(f'{INDENT}tightest after it: {text}')
    return _joined([*lines, *changes(report).lines()], report, style)


def _one_of_as_text(
    report: DrainPlan, hosts: Sequence[DrainedHost], style: Style
) -> str:
    text = f'{report.fits} of {counted(report.asked, "host")} can be lost alone'
    lines = [_head(report, text, style)]
    rows = [
        (each.host, str(each.asked), str(each.asked - each.fits))
        for each in hosts
        if style.is_long or each.fits < each.asked
    ]
    if rows:
        lines += _table(('Host', 'Servers', 'Without a place'), rows)
    lines += _unplaced(report, style)
    return _joined([*lines, *changes(report).lines()], report, style)


def _head(report: PlanReport, text: str, style: Style) -> str:
    said = style.paint(text, GREEN if report.all_fit else RED)
    if not report.all_fit:
        return f'{said}.'
    return '   '.join([f'{said}.', report.as_of.rpartition('T')[2], *facts(report)])


def facts(report: PlanReport) -> list[str]:
    """Return the facts of a plan: the hosts that were offered, and its id."""
    offered = report.offered
    hosts = [] if offered is None else [f'{counted(offered, "host")} offered']
    return [*hosts, f'plan {report.plan_id}', 'nothing was claimed']


def _by_host(report: BootPlan) -> Iterator[str]:
    """Yield a table of the hosts in the order in which they are first taken."""
    rows = [
        (
            each.host,
            str(each.servers),
            room(each) or '-',
            _alternates(each.alternates),
        )
        for each in report.hosts
    ]
    yield from _table(('Host', 'Servers', 'Room', 'Alternates'), rows)


def _by_server(report: PlanReport) -> Iterator[str]:
    rows = [
        (each.name or each.server, each.flavor, each.host, _alternates(each.alternates))
        for each in report.placed
    ]
    yield from _table(('Server', 'Flavor', 'Host', 'Alternates'), rows)


def room(taken: TakenHost) -> str:
    """Return how many more servers a host takes, in words; '': it is not known."""
    return '' if taken.room is None else f'{taken.room} more'


def _alternates(names: Sequence[str]) -> str:
    return ', '.join(names[:MOST_ALTERNATES]) or '-'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows in columns; columns of numbers are on the right."""
    return (f'{INDENT}{line}' for line in columns(heads, rows))


def _refusals(report: PlanReport, style: Style) -> Iterator[str]:
    """Yield the funnel of the first refusal, and what would change it."""
    for each in report.unplaced[:1]:
        if each.explanation is None:
            yield f'{_named(each, style)}  {each.error}'
        else:
            yield from funnel.lines(each.explanation.stages, style)
    yield from (_unplaced_line(each, style) for each in report.unplaced[1:])
    yield from changes(report).lines()


def _unplaced(report: PlanReport, style: Style) -> Iterator[str]:
    return (_unplaced_line(each, style) for each in report.unplaced)


def _unplaced_line(entry: UnplacedServers, style: Style) -> str:
    explained = entry.explanation
    if explained is None:
        return f'{INDENT}{_named(entry, style)}  no place: {entry.error}'
    counts: Counter[str] = Counter()
    for stage in explained.stages:
        for reason in stage.reasons:
            if reason.code != Code.NOT_ASKED:
                words = _WORDS.get(reason.code, reason.code)
                counts[f'{words} {reason.what}'.strip()] += reason.count
    said = ', '.join(f'{code} {number}' for code, number in counts.most_common(4))
    return f'{INDENT}{_named(entry, style)}  no place: {said or explained.blocker}'


_WORDS: Mapping[str, str] = {Code.NOT_NAMED: 'left out by the request'}


def _named(entry: UnplacedServers, style: Style) -> str:
    name = f'{entry.name} ' if entry.name else ''
    return f'{name}{style.uuid(entry.server)}  {entry.flavor}'.rstrip()


def changes(report: PlanReport) -> Table:
    """Return the changes that would help, and for how many hosts."""
    most = max((each.hosts for each in report.changes), default=0)
    rows = [
        (
            explained_amounts(each.change),
            Fact(f'{each.hosts}', 'share', value=percent(each.hosts, most)),
            '' if each.hosts else explained_amounts(each.also_fail),
        )
        for each in report.changes
    ]
    return table(CHANGES, rows)


def _joined(lines: Iterable[str], report: AnyPlan, style: Style) -> str:
    made = [*lines, *(f'Note    {note}' for note in report.notes)]
    for explained in report.explanations or ():
        made += ['', render.as_text(explained, style).rstrip('\n')]
    return '\n'.join(line.rstrip() for line in made) + '\n'


def why_not_as_text(report: WhyNotReport, style: Style) -> str:
    """Return which conditions a host meets."""
    total = len(report.conditions)
    about = ', '.join(_about(report))
    if report.fits:
        verdict = style.paint('Yes.', GREEN)
        text = f'{verdict} {report.host} ({about}) meets all {total} conditions.'
    else:
        verdict = style.paint('No.', RED)
        text = (
            f'{verdict} {report.host} ({about}) fails {len(report.failing)} of '
            f'{counted(total, "condition")}.'
        )
    width = max((len(each.name) for each in report.conditions), default=0)
    lines = [text]
    for each in report.conditions:
        answer = 'yes' if each.passes else style.paint('NO ', BOLD)
        start = f'{INDENT}{each.name:<{width}}  {answer}   '
        code = f'{each.code}: ' if each.code else ''
        indent = ' ' * (len(INDENT) + width + 8)
        wrapped = style.wrapped(indent, f'{code}{each.text}'.rstrip(': '))
        lines += [start + wrapped[0].lstrip(), *wrapped[1:]]
    lines += [*_held(report, style), *_ranked(report)]
    lines += [f'Note    {note}' for note in report.notes]
    return '\n'.join(line.rstrip() for line in lines) + '\n'


def _held(report: WhyNotReport, style: Style) -> Iterator[str]:
    """Yield which servers hold what the host lacks."""
    if report.held_by is None:
        return
    kind, servers = report.held_by.holding, report.held_by.servers
    said = [f'{each.name or each.server} has {each.held(kind)}' for each in servers]
    if said and servers[0].since:
        said[0] += f' since {servers[0].since}'
    holders = ', '.join(first_of(said, MOST_HOLDERS))
    command = f'novasched host {report.host} --holders {kind}'
    yield from style.wrapped('', f'{_HELD[kind]}: {holders}: {command}')


def _about(report: WhyNotReport) -> Iterator[str]:
    yield from (report.zone, report.cell)
    yield 'enabled' if report.enabled else 'disabled'
    if report.heard_from_s is not None:
        yield f'heard from {report.heard_from_s} s ago'
    if not report.up:
        yield 'down'


def _ranked(report: WhyNotReport) -> Iterator[str]:
    if report.rank is None:
        if report.fits:
            yield 'It is not among the hosts that placement offers within its limit.'
        return
    if report.rank == 1:
        yield f'It is the best of {report.of}.'
    beaten = report.beaten_by
    if beaten is None:
        return
    by = SEPARATOR.join(
        f'{name} {shown(by, "+")}' for name, by in beaten.weighers.items()
    )
    yield (
        f'It is number {report.rank} of {report.of}: {beaten.host} is ahead '
        f'by {shown(beaten.by)}: {by}'
    )
