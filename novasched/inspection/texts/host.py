# SPDX-License-Identifier: Apache-2.0
"""A host as text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from novasched.inspection.questions.reports import (
    Devices,
    HeldPages,
    Holder,
    HostNode,
    HostReport,
    NumaNode,
    PagePool,
)
from novasched.inspection.texts.lines import SEPARATOR, Fact, Style, columns, counted
from novasched.scheduler.fit.numa import size_text

NOTHING = '-'
EMPTY = 'Nothing runs here.'


def as_text(report: HostReport, style: Style) -> str:
    """Return a host: its state, what is free of it, and which servers hold the rest."""
    lines = []
    for node in report.nodes:
        said = map(str, facts(node))
        lines += style.packed(f'{report.host}   ', said, SEPARATOR)
        if style.is_long and node.traits:
            lines += style.packed('Traits', node.traits, ' ')
        lines += _resources(node)
        lines += _numa(node)
        lines += _devices(node)
    if report.placement_problems:
        lines += ['', *report.placement_problems]
    if not report.nodes:
        lines.append(f'{report.host} has no compute node that is known.')
    lines += ['', *_holders(report, style)]
    if report.slots:
        slots = [
            f'{each.flavor} {each.slots}' + (f' ({each.why})' if each.why else '')
            for each in report.slots
        ]
        lines += ['', *style.packed('Slots', slots, SEPARATOR)]
    if report.decisions:
        chosen = [f'{each.id} {each.at}' for each in report.decisions]
        lines += style.packed('Chosen', chosen, SEPARATOR)
    return '\n'.join(lines) + '\n'


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


def _resources(node: HostNode) -> list[str]:
    names = ['Class', 'Total', 'Reserved', 'Ratio', 'Used', 'Free']
    rows = []
    for provider in node.providers:
        for name, it in provider.resources.items():
            amounts = (it.total, it.reserved, it.ratio, it.used, it.free)
            rows.append([name, *(f'{amount:g}' for amount in amounts)])
    return ['', *columns(names, rows, {'Class'})] if rows else []


def _numa(node: HostNode) -> list[str]:
    lines = []
    for each in node.numa:
        pages = [': '.join(pages_text(pool)) for pool in each.pages]
        said = SEPARATOR.join([cpus_text(each), *pages])
        lines.append(f'NUMA node {each.node}: {said}')
    return ['', *lines] if lines else []


def cpus_text(cell: NumaNode) -> str:
    """Return in words which CPUs of a NUMA node can be pinned."""
    free = cell.dedicated_free
    which = f': {ranges(free)}' if free else ''
    return f'{len(free)} of {cell.dedicated_cpus} CPUs free to be pinned{which}'


def pages_text(pages: PagePool) -> tuple[str, str]:
    """Return the name of pages of a size, and how many are free."""
    free = f'{pages.free:,} of {pages.total:,} free'
    return f'pages of {size_text(pages.size_kb)}', free


def _devices(node: HostNode) -> list[str]:
    return [f'Devices {" ".join(device_text(each))}' for each in node.devices]


def device_text(devices: Devices) -> tuple[str, str]:
    """Return the kind of devices, and how many are free where."""
    near = '' if devices.numa_node is None else f'near node {devices.numa_node}: '
    return f'{devices.vendor_id}:{devices.product_id}', f'{near}{devices.free} free'


def held_pages(pages: HeldPages) -> str:
    """Return in words the pages that a server holds of a NUMA node."""
    return f'{pages.count} of {size_text(pages.size_kb)} on node {pages.node}'


def held_cpus(holder: Holder) -> list[str]:
    """Return in words the CPUs that a server holds of each NUMA node."""
    return [f'{ranges(cpus)} on node {node}' for node, cpus in holder.pcpu.items()]


def _holders(report: HostReport, style: Style) -> list[str]:
    if not report.servers:
        return [EMPTY]
    if not report.holders:
        return [f'None of the {counted(report.servers, "server")} holds any.']
    names = ['Server', 'Name', 'Flavor', 'Pages', 'CPUs', 'Devices']
    names += ['Since', 'Decision']
    rows = [
        [
            style.uuid(each.server),
            each.name or NOTHING,
            each.flavor or NOTHING,
            _joined(map(held_pages, each.pages)),
            _joined(held_cpus(each)),
            str(each.pci or NOTHING),
            each.since or NOTHING,
            each.decision or NOTHING,
        ]
        for each in report.holders
    ]
    return columns(names, rows, set(names) - {'Devices'})


def _joined(texts: Iterable[str]) -> str:
    return ', '.join(texts) or NOTHING


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order as ranges: 1-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ','.join(str(a) if a == b else f'{a}-{b}' for a, b in parts)
