# SPDX-License-Identifier: Apache-2.0
"""A host as text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from novasched.inspection.questions.reports import (
    HeldPages,
    Holder,
    HostNode,
    HostReport,
    NumaNode,
)
from novasched.inspection.texts.amounts import (
    KIB_OF_MIB,
    amount,
    part,
    percent,
    resource,
)
from novasched.inspection.texts.lines import (
    SEPARATOR,
    Fact,
    Style,
    Table,
    counted,
    table,
)
from novasched.scheduler.fit.numa import size_text

NOTHING = '-'
EMPTY = 'Nothing runs here.'
NO_NODE = 'no compute node is known: a host has one once its nova-compute has started'
HELD = ['Server', 'Name', 'Flavor', 'Size', 'Pages', 'CPUs', 'Devices']
HELD += ['State', 'Since', 'Decision']


def as_text(report: HostReport, style: Style) -> str:
    """Return a host: its state, what is free of it, and which servers hold the rest."""
    lines = []
    for node in report.nodes:
        said = map(str, facts(node))
        lines += style.packed(f'{report.host}   ', said, SEPARATOR)
        if style.is_long and node.traits:
            lines += style.packed('Traits', node.traits, ' ')
        lines += _part(resources(node).lines())
        lines += _part(
            line
            for cell in node.numa
            for line in style.packed(
                f'NUMA node {cell.node}: ', map(str, numa(cell)), SEPARATOR
            )
        )
        lines += _part(f'Devices {each}' for each in devices(node))
    lines += _part(report.placement_problems)
    if not report.nodes:
        lines.append(f'{report.host}: {NO_NODE}')
    lines += _part(holders(report, style).lines() or [nothing_held(report)])
    lines += _part(slots(report).lines())
    lines += _part(decisions(report).lines())
    return '\n'.join(lines) + '\n'


def _part(lines: Iterable[str]) -> list[str]:
    """Return lines after an empty one; none if there are none."""
    made = list(lines)
    return ['', *made] if made else []


def facts(node: HostNode) -> Iterator[Fact]:
    """Yield the state of a node, where it belongs, and how many servers it has."""
    if not node.up:
        yield Fact('down', 'state')
    if node.forced_down:
        yield Fact('forced down')
    if not node.enabled:
        yield Fact('disabled', 'state', note=node.disabled_reason or '')
    elif node.up:
        yield Fact('enabled', 'state')
    seen = node.heard_from
    yield Fact(seen or 'never', 'time' if seen else '', 'heard from')
    yield Fact(node.cell, 'cell', 'cell')
    for each in node.aggregates:
        properties = ', '.join(f'{key}={it}' for key, it in each.properties.items())
        yield Fact(each.name or NOTHING, 'aggregate', 'aggregate', properties)
    yield Fact(counted(node.instances, 'server'))
    if node.io_ops:
        yield Fact(f'{node.io_ops} builds or moves under way')


def resources(node: HostNode) -> Table:
    """Return the used and the free part of each resource class."""
    names = ('Class', 'Used', 'Free', 'Total', 'Reserved', 'Ratio')
    rows: list[Sequence[Fact | str]] = [
        (
            Fact(resource(name), note='' if provider is node else 'child'),
            used(name, it.used, it.free + it.used),
            *(amount(name, number) for number in (it.free, it.total, it.reserved)),
            f'{it.ratio:g}',
        )
        for provider in node.providers
        for name, it in provider.resources.items()
    ]
    return table(names, rows)


def used(name: str, number: float, whole: float) -> Fact:
    """Return how much of a resource class is used."""
    return Fact(part(name, number, whole), 'used', value=percent(number, whole))


def numa(cell: NumaNode) -> Iterator[Fact]:
    """Yield which CPUs of a NUMA node can be pinned, what is shared, and how much
    memory and how many pages are free. Small pages are said as memory."""
    free = cell.dedicated_free
    if cell.dedicated_cpus:
        text = f'{len(free)} of {cell.dedicated_cpus} CPUs free to be pinned'
        yield Fact(f'{text}: {ranges(free)}' if free else text)
    if cell.cpus:
        yield Fact(f'{cell.cpus_used} guest CPUs on {cell.cpus} shared CPUs')
    yield _free('memory', 'MEMORY_MB', cell.memory_free_mb, cell.memory_mb)
    for each in filter(lambda pages: pages.total, cell.pages):
        is_small = each.size_kb < KIB_OF_MIB
        unit = each.size_kb / KIB_OF_MIB if is_small else 1
        name = 'MEMORY_MB' if is_small else ''
        label = f'pages of {size_text(each.size_kb)}'
        yield _free(label, name, round(each.free * unit), round(each.total * unit))


def _free(label: str, name: str, free: float, whole: float) -> Fact:
    text = f'{part(name, free, whole)} free'
    return Fact(text, 'used', label, value=percent(whole - free, whole))


def devices(node: HostNode) -> Iterator[Fact]:
    """Yield how many devices of each kind are free, and where."""
    for each in node.devices:
        near = '' if each.numa_node is None else f'near node {each.numa_node}: '
        yield Fact(f'{near}{each.free} free', '', f'{each.vendor_id}:{each.product_id}')


def held_pages(pages: HeldPages) -> str:
    """Return in words the pages that a server holds of a NUMA node."""
    return f'{pages.count} of {size_text(pages.size_kb)} on node {pages.node}'


def held_cpus(holder: Holder) -> list[str]:
    """Return in words the CPUs that a server holds of each NUMA node."""
    return [f'{ranges(cpus)} on node {node}' for node, cpus in holder.pcpu.items()]


def nothing_held(report: HostReport) -> str:
    """Say that no server holds anything, or none holds what was asked for."""
    servers = counted(report.servers, 'server')
    return f'None of the {servers} holds any.' if report.servers else EMPTY


def holders(report: HostReport, style: Style) -> Table:
    """Return which servers hold what of a host."""
    rows = [
        (
            Fact(style.uuid(each.server), 'server', value=each.server),
            each.name or '',
            Fact(each.flavor or '', 'flavor'),
            f'{counted(each.vcpus, "CPU")}, {amount("MEMORY_MB", each.memory_mb)}',
            ', '.join(map(held_pages, each.pages)),
            ', '.join(held_cpus(each)),
            str(each.pci or ''),
            each.state or '',
            Fact(each.since or '', 'time'),
            Fact(each.decision or '', 'decision'),
        )
        for each in report.holders
    ]
    return table(HELD, rows)


def slots(report: HostReport) -> Table:
    """Return how many more servers of each flavor the host takes."""
    rows = [
        (Fact(each.flavor or '', 'slots'), str(each.slots), each.why or '')
        for each in report.slots or ()
    ]
    return table(('Flavor', 'More', 'Why no slot'), rows)


def decisions(report: HostReport) -> Table:
    """Return the last decisions that chose the host."""
    rows = [
        (Fact(each.at, 'time'), Fact(each.id, 'decision'), Fact(each.flavor, 'flavor'))
        for each in report.decisions
    ]
    return table(('Time', 'Decision', 'Flavor'), rows)


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order as ranges: 1-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)
