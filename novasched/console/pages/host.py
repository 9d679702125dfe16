# SPDX-License-Identifier: Apache-2.0
"""A host: what it has, what is free of it, and which servers hold the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from novasched.console.pages import shapes, words
from novasched.console.pages.hosts import usage
from novasched.console.pages.words import View
from novasched.inspection.questions.reports import (
    Holder,
    HostNode,
    HostReport,
    NumaNode,
    PagePool,
)
from novasched.inspection.texts.host import (
    EMPTY,
    cpus_text,
    device_text,
    facts,
    held_cpus,
    held_pages,
    pages_text,
)
from novasched.inspection.texts.missing import missing_parts

FREE, TAKEN, UNKNOWN = 'free', 'taken', 'unknown'
KIB_OF_MIB = 1024
KINDS = ('pages', 'pcpu', 'pci')


def view(answer: HostReport) -> View:
    """Return the values for the page."""
    holders = answer.holders
    return {
        'answer': answer,
        'empty': EMPTY,
        'nodes': [_node(node, holders) for node in answer.nodes],
        'holders': [
            (each, list(map(held_pages, each.pages)), held_cpus(each))
            for each in holders
        ],
        'has': {kind: any(one.held(kind) for one in holders) for kind in KINDS},
        'missing': [
            *missing_parts(answer.unanswered, (), answer.cells_left_out),
            *answer.placement_problems,
        ],
    }


def _node(node: HostNode, holders: Sequence[Holder]) -> View:
    return {
        'node': node,
        'facts': list(facts(node)),
        'resources': list(_resources(node)),
        'numa': [_numa(each, holders) for each in node.numa],
        'devices': list(map(device_text, node.devices)),
    }


def _resources(node: HostNode) -> Iterator[View]:
    for owner in node.providers:
        for name, each in owner.resources.items():
            yield {
                'name': words.resource(name),
                **usage(name, each.used, each.free + each.used),
                'free': words.amount(name, each.free),
                'total': words.amount(name, each.total),
                'reserved': words.amount(name, each.reserved),
                'ratio': f'{each.ratio:g}',
                'is_child': owner is not node,
            }


def _numa(cell: NumaNode, holders: Sequence[Holder]) -> View:
    memory = cell.memory_mb
    taken = memory - cell.memory_free_mb
    return {
        'node': cell.node,
        'cpus': _cpus(cell, holders),
        'cpus_text': cpus_text(cell),
        'shared': f'{cell.cpus_used} guest CPUs on {cell.cpus} shared CPUs'
        if cell.cpus
        else '',
        'amounts': [
            {
                'name': 'memory',
                'text': f'{words.part("MEMORY_MB", memory - taken, memory)} free',
                'share': shapes.share(taken, memory),
            },
            *(_pages(each) for each in cell.pages if each.total),
        ],
    }


def _pages(pages: PagePool) -> View:
    """Return pages of a size; small ones as memory."""
    size_kb, free, total = pages.size_kb, pages.free, pages.total
    name, said = pages_text(pages)
    if size_kb < KIB_OF_MIB:
        of_memory = (round(number * size_kb / KIB_OF_MIB) for number in (free, total))
        said = f'{words.part("MEMORY_MB", *of_memory)} free'
    return {
        'name': name,
        'text': said,
        'share': shapes.share(total - free, total),
    }


def _cpus(cell: NumaNode, holders: Sequence[Holder]) -> list[View]:
    """Return the CPUs that may be pinned, in order, and the server on each.

    CPUs that no known server has taken come last, as their numbers are unknown.
    """
    by_cpu = {cpu: (FREE, f'CPU {cpu}: free') for cpu in cell.dedicated_free}
    for each in holders:
        for cpu in each.pcpu.get(str(cell.node), ()):
            if cpu not in by_cpu:
                name = each.name or each.server
                by_cpu[cpu] = (TAKEN, f'CPU {cpu}: {name}')
    made = [
        {'kind': kind, 'title': title} for _, (kind, title) in sorted(by_cpu.items())
    ]
    unknown = max(0, cell.dedicated_cpus - len(made))
    return [*made, *[{'kind': UNKNOWN, 'title': 'taken'}] * unknown]
