# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab as text, for people."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from novasched import errors
from novasched.inspection.texts.lines import BOLD, Style, Table, columns, counted, table
from novasched.policy_lab.results import (
    FIGURES,
    PERCENT,
    POINTS,
    SECONDS,
    SERIES,
    FlavorCounts,
    FleetGroup,
    PartResult,
    RunResult,
    Series,
)

MAIN = {
    'refused_vcpus_percent': 'Refused',
    'filled_vcpus_percent': 'First refusal',
    'stranded_vcpus_percent': 'Stranded',
    'empty_percent': 'Empty',
    'spread_vcpus_points': 'Spread',
}
"""Figures of the table, and their heads."""
NOTHING = '-'
OTHER_LOAD = '*'
LEAST_SHARE = 0.005
"""A flavor that is rarer is no column of the table unless it is named."""
ROOMS = 2
"""Flavors whose room the table shows."""
NOT_SAME_LOAD = (
    'it refuses more or less by over 1 point, so it does not hold the same load'
)
BARS = '▁▂▃▄▅▆▇█'
HOUR_S = 3600.0
GB = 1024
ROOM = 'room'


def as_text(run: RunResult, style: Style, rooms: Sequence[str] = ()) -> str:
    """Return the table of a run: a line for each policy, and for each difference to the
    first. ``rooms`` are the flavors whose room is shown."""
    rooms = rooms or shown_rooms(run)
    names = [each.name for each in run.plan.policies]
    has_needed = bool(run.needed)
    heads = [
        'Policy',
        *MAIN.values(),
        *(f'Room {size(run, flavor)}' for flavor in rooms),
    ]
    rows = [_means(run, name, rooms) for name in names]
    if has_needed:
        heads.append('Hosts needed')
        for row, name in zip(rows, names, strict=True):
            row.append(needed(run, name))
    for name in names[1:] if len(run.plan.parts) > 1 else ():
        row = [f'{name} - {names[0]}', *(difference(run, each, name) for each in MAIN)]
        rows.append(row + [''] * (len(heads) - len(row)))
    names_line, *lines = columns(heads, rows, {'Policy'})
    wide = max(map(len, names))
    return '\n'.join(
        [
            *head(run, style),
            '',
            *(f'{e.name:<{wide}}  {e.text or "defaults"}' for e in run.plan.policies),
            '',
            style.paint(names_line, BOLD),
            *lines,
            *_remarks(run, style),
        ]
    )


def head(run: RunResult, style: Style) -> list[str]:
    """Return the lines about a history and its hosts."""
    load = max(
        ('vCPUs', run.offered_vcpus_percent),
        ('RAM', run.offered_ram_percent),
        key=lambda each: each[1],
    )
    offered = f'offered peak {load[1]:.0f} % of {load[0]}'
    return style.packed('History ', [*about(run), offered])


def about(run: RunResult) -> list[str]:
    """Return the title of a run, its parts and its hosts."""
    parts = counted(len(run.plan.parts), 'part')
    return [f'{run.title}, {parts}', f'hosts {fleet(run.hosts)}']


def fleet(hosts: Sequence[FleetGroup]) -> str:
    """Return the hosts in words: 24 x 40 vCPU 96 GB, 24 x 64 vCPU 256 GB."""
    return ', '.join(
        f'{each.count} x {each.vcpus} vCPU {each.ram_mb / GB:g} GB'
        + (f' in {each.numa_nodes} NUMA nodes' if each.numa_nodes else '')
        for each in hosts
    )


def shown_rooms(run: RunResult) -> list[str]:
    """Return the largest of the flavors that are not rare: their room ends first."""
    counts = run.parts[0].flavors if run.parts else ()
    usual = [each for each in counts if each.share >= LEAST_SHARE] or counts
    usual = sorted(usual, key=lambda each: (each.vcpus, each.ram_mb), reverse=True)
    return [each.flavor for each in usual[:ROOMS]]


def size(run: RunResult, flavor: str) -> str:
    """Return the vCPUs and GB of a flavor: 8/56. Raises errors.OptionError for a flavor
    that the run has not."""
    for part in run.parts:
        for each in part.flavors:
            if each.flavor == flavor:
                return f'{each.vcpus}/{each.ram_mb / GB:g}'
    raise errors.OptionError('--room', f'{flavor!r} is not known', 'See --refused')


def _means(run: RunResult, policy: str, rooms: Sequence[str]) -> list[str]:
    by_name = {row.name: row.means for row in run.rows}
    is_other = policy in run.overloaded
    cells = [policy]
    for name in MAIN:
        text = value(name, by_name.get(name, {}).get(policy))
        if is_other and FIGURES[name].needs_same_load:
            text = f'{text} {OTHER_LOAD}'
        cells.append(text)
    return cells + [f'{room(run, policy, flavor):.0f}' for flavor in rooms]


def value(name: str, number: float | None, sign: str = '') -> str:
    """Return a figure with its unit; a dash if it does not apply."""
    if number is None:
        return NOTHING
    unit = FIGURES[name].unit
    digits = 2 if name.startswith('refused') and unit == PERCENT else 1
    if unit == SECONDS:
        return f'{number / HOUR_S:{sign}.1f} h'
    if unit in (PERCENT, POINTS):
        return f'{number:{sign}.{digits}f}{" %" if unit == PERCENT else ""}'
    return f'{number:{sign}.0f}'


def difference(run: RunResult, name: str, policy: str) -> str:
    """Return how a figure of a policy differs from the first one, with its interval."""
    row = next((each for each in run.rows if each.name == name), None)
    found = None if row is None else row.differences.get(policy)
    if found is None:
        return NOTHING
    text = value(name, found.mean, '+').removesuffix(' %')
    within = '' if found.within is None else f'±{value(name, found.within)}'
    return f'{text}{within}'.removesuffix(' %')


def room(run: RunResult, policy: str, flavor: str) -> float:
    """Return the room for a flavor under a policy: VMs, mean over time and parts."""
    return fmean(
        each.room
        for part in run.of_policy(policy)
        for each in part.flavors
        if each.flavor == flavor
    )


def needed(run: RunResult, policy: str) -> str:
    """Return the hosts that a policy needs, and how much it differs from the first."""
    means = {
        name: fmean(each.hosts for each in run.needed if each.policy == name)
        for name in {each.policy for each in run.needed}
    }
    if policy not in means:
        return NOTHING
    first = means.get(run.plan.policies[0].name)
    more = ''
    if first and policy != run.plan.policies[0].name:
        more = f' {100 * (means[policy] / first - 1):+.1f} %'
    return f'{means[policy]:.0f}{more}'


def needed_hosts(run: RunResult, style: Style) -> str:
    """Return the hosts that each policy needs, part by part."""
    rows = [
        [
            each.policy,
            str(each.part),
            str(each.hosts),
            f'{each.over_bound_percent:+.1f} %',
            str(each.bound),
            str(each.refused_vms),
        ]
        for each in run.needed
    ]
    names = ['Policy', 'Part', 'Hosts', 'Over bound', 'Bound', 'Refused VMs']
    names_line, *lines = columns(names, rows, {'Policy'})
    means = [f'{e.name}: {needed(run, e.name)} hosts' for e in run.plan.policies]
    return '\n'.join(
        [*head(run, style), '', style.paint(names_line, BOLD), *lines, '', *means]
    )


def other_load(run: RunResult) -> str:
    """Say which policies do not hold the same load as the first."""
    return (
        f'{", ".join(run.overloaded)} refused more or less than '
        f'{run.plan.policies[0].name}, by over 1 point: they do not hold the same '
        'load, so these figures cannot be compared.'
    )


def _remarks(run: RunResult, style: Style) -> Iterator[str]:
    yield ''
    if run.overloaded:
        yield from style.wrapped(f'{OTHER_LOAD} ', other_load(run))
    if len(run.plan.parts) < 2:
        yield from style.wrapped('', 'One part alone: there is no interval.')
    else:
        yield from style.wrapped(
            '', f'±: 95 % interval over {len(run.plan.parts)} parts, paired by part.'
        )
    for each in run.plan.policies:
        if refusals := most_refused(run.of_policy(each.name)):
            yield from style.wrapped(f'Most refused under {each.name}: ', refusals)
    if run.unmodelled:
        found = ', '.join(f'{name} ({count})' for name, count in run.unmodelled.items())
        yield from style.wrapped('Not modelled: ', found)


def most_refused(parts: Sequence[PartResult]) -> str:
    """Return the flavor that was refused most, with the step that took the last host;
    '' if none was."""
    refused = sorted(flavors(parts), key=lambda each: each.refused, reverse=True)
    if not refused or not refused[0].refused:
        return ''
    first = refused[0]
    step = max(first.steps, key=lambda name: first.steps[name], default='')
    return (
        f'{first.flavor} ({first.vcpus} vCPU {first.ram_mb / GB:g} GB), '
        f'{counted(first.refused, "VM")}' + (f', by {step}' if step else '')
    )


def flavors(parts: Sequence[PartResult]) -> list[FlavorCounts]:
    """Return the counts of each flavor, summed over parts; room is the mean."""
    found: dict[str, list[FlavorCounts]] = {}
    for part in parts:
        for each in part.flavors:
            found.setdefault(each.flavor, []).append(each)
    asked = sum(each.asked for many in found.values() for each in many) or 1
    summed = []
    for many in found.values():
        steps = Counter[str]()
        for each in many:
            steps.update(each.steps)
        of_flavor = sum(each.asked for each in many)
        summed.append(
            FlavorCounts(
                many[0].flavor,
                many[0].vcpus,
                many[0].ram_mb,
                of_flavor / asked,
                of_flavor,
                sum(each.refused for each in many),
                dict(steps),
                fmean(each.room for each in many),
                min(each.room_least for each in many),
            )
        )
    return summed


def refused(run: RunResult, style: Style) -> str:
    """Return the refused VMs of each policy by flavor and by step."""
    rows = [
        [
            policy.name,
            each.flavor,
            str(each.asked),
            str(each.refused),
            f'{100 * each.refused / each.asked:.2f} %',
            ', '.join(f'{step} {count}' for step, count in each.steps.items()),
        ]
        for policy in run.plan.policies
        for each in flavors(run.of_policy(policy.name))
        if each.refused
    ]
    if not rows:
        return 'No policy refused a VM.'
    names = ['Policy', 'Flavor', 'Asked', 'Refused', 'Share', 'Last step']
    names_line, *lines = columns(names, rows, {'Policy', 'Flavor', 'Last step'})
    return '\n'.join([style.paint(names_line, BOLD), *lines])


def all_figures(run: RunResult, style: Style) -> str:
    """Return all figures of all policies, a line each."""
    names_line, *lines = figures(run).lines()
    return '\n'.join([style.paint(names_line, BOLD), *lines])


def figures(run: RunResult) -> Table:
    """Return all figures of all policies, and their differences to the first."""
    names = [each.name for each in run.plan.policies]
    blank = [''] * len(names[1:])
    rows = [
        [f'room for {size(run, flavor)}']
        + [f'{room(run, name, flavor):.0f}' for name in names]
        + blank
        for flavor in shown_rooms(run)
    ]
    if run.needed:
        rows.insert(0, ['hosts needed', *(needed(run, n) for n in names), *blank])
    for row in run.rows:
        means = [value(row.name, row.means.get(name)) for name in names]
        differences = [difference(run, row.name, name) for name in names[1:]]
        rows.append([FIGURES[row.name].text, *means, *differences])
    return table(('Figure', *names, *(f'{n} - {names[0]}' for n in names[1:])), rows)


# -- over time


def series_of(run: RunResult, name: str) -> dict[str, tuple[list[float], list[float]]]:
    """Return times in seconds and values by policy, the mean of its parts.

    ``name`` is one of SERIES, or ``room:`` and a flavor. Raises LookupError if the run
    has none of this name.
    """
    found = {}
    for policy in run.plan.policies:
        parts = [each.series for each in run.of_policy(policy.name)]
        lists = [_column(each, name) for each in parts]
        length = min(map(len, lists), default=0)
        values = [fmean(each[n] for each in lists) for n in range(length)]
        times = [*parts[0].at_s[:length]] if parts else []
        found[policy.name] = times, values
    return found


def _column(series: Series, name: str) -> Sequence[float]:
    if name.startswith(f'{ROOM}:'):
        return series.room[name.removeprefix(f'{ROOM}:')]
    return series.columns[name]


def of_room(flavor: str) -> str:
    """Return the name of the series of the room for a flavor."""
    return f'{ROOM}:{flavor}'


def named(name: str) -> str:
    """Return the name of a series for people."""
    flavor = name.removeprefix(f'{ROOM}:')
    return SERIES.get(name) or f'room for {flavor}, VMs'


def over_time(run: RunResult, names: Sequence[str], style: Style) -> str:
    """Return series as lines of bars, one for each policy, on one scale."""
    wide = max(len(each.name) for each in run.plan.policies)
    lines: list[str] = []
    for name in names:
        found = series_of(run, name)
        least = min((n for _, values in found.values() for n in values), default=0.0)
        most = max((n for _, values in found.values() for n in values), default=0.0)
        width = max(style.width - wide - 20, 20)
        lines += [style.paint(f'{named(name)}, {least:.4g} to {most:.4g}', BOLD)]
        for policy, (_, values) in found.items():
            bars = sparkline(values, least, most, width)
            mean = f'{fmean(values):10.4g}' if values else NOTHING
            lines.append(f'{policy:<{wide}}  {bars}  {mean}')
        lines.append('')
    return '\n'.join(lines[:-1])


def sparkline(values: Sequence[float], least: float, most: float, width: int) -> str:
    """Return values as bars of eight heights, at most ``width`` of them."""
    count = min(width, len(values))
    means = [
        fmean(values[n * len(values) // count : (n + 1) * len(values) // count])
        for n in range(count)
    ]
    span = most - least or 1.0
    top = len(BARS) - 1
    return ''.join(BARS[round((each - least) / span * top)] for each in means)


def as_csv(found: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return series as CSV: a line for each time, a column for each policy."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator='\n')
    lines.writerow(['at_s', *found])
    times = max((times for times, _ in found.values()), key=len, default=[])
    for place, at_s in enumerate(times):
        cells = [
            f'{values[place]:g}' if place < len(values) else ''
            for _, values in found.values()
        ]
        lines.writerow([f'{at_s:g}', *cells])
    return text.getvalue()
