# SPDX-License-Identifier: Apache-2.0
"""A host: what it has, what is free of it, and which servers hold the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from novasched.console.pages import query, shapes, words
from novasched.console.pages.hosts import state, usage
from novasched.console.pages.words import View
from novasched.inspection.host_text import ranges
from novasched.inspection.text import counted
from novasched.scheduler.fit.numa import size_text

FREE, TAKEN, UNKNOWN = 'free', 'taken', 'unknown'
KIB_OF_MIB = 1024
KINDS = ('pages', 'pcpu', 'pci')


def view(answer: Mapping[str, Any]) -> View:
    """Return the values for the page."""
    holders = answer['holders']
    return {
        'host': answer['host'],
        'as_of': answer['as_of'],
        'nodes': [_node(each, holders) for each in answer['nodes']],
        'servers': answer['servers'],
        'holders': [_holder(each) for each in holders],
        'has': {kind: any(each[kind] for each in holders) for kind in KINDS},
        'slots': [
            {**each, 'link': query.address('/capacity', [('heat', each['flavor'])])}
            for each in answer['slots'] or ()
        ],
        'is_counted': answer['slots'] is not None,
        'decisions': [
            {**each, 'href': query.of_decision(each['id'])}
            for each in answer['decisions']
        ],
        'all_decisions': query.of_decisions(host=answer['host']),
        'missing': [
            *words.missing(answer.get('unanswered'), (), answer['cells_left_out']),
            *answer.get('placement_problems', ()),
        ],
    }


def _node(node: Mapping[str, Any], holders: Sequence[Mapping[str, Any]]) -> View:
    kind = 'enabled' if node['enabled'] else 'disabled'
    if not node['up']:
        kind = 'down'
    said = [] if node['enabled'] or kind == 'disabled' else ['disabled, too']
    if node['forced_down']:
        said.append('forced down')
    return {
        **node,
        'state': state(kind, node['disabled_reason'] if not node['enabled'] else ''),
        'said': said,
        'cell': words.to_hosts(node['cell'], cell=node['cell']),
        'aggregates': [
            {
                'link': words.to_hosts(
                    each['name'] or words.NOTHING, aggregate=each['name'] or ''
                ),
                'properties': [f'{k}={v}' for k, v in each['properties'].items()],
            }
            for each in node['aggregates']
        ],
        'resources': list(_resources(node)),
        'numa': [_numa(each, holders) for each in node['numa']],
    }


def _resources(node: Mapping[str, Any]) -> Iterator[View]:
    for owner in (node, *node['children']):
        for name, each in owner['resources'].items():
            capacity = each['free'] + each['used']
            yield {
                'name': words.resource(name),
                **usage(name, each['used'], capacity),
                'free': words.amount(name, each['free']),
                'total': words.amount(name, each['total']),
                'reserved': words.amount(name, each['reserved']),
                'ratio': f'{each["ratio"]:g}',
                'is_child': owner is not node,
            }


def _numa(cell: Mapping[str, Any], holders: Sequence[Mapping[str, Any]]) -> View:
    free = cell['dedicated_free']
    total, memory = cell['dedicated_cpus'], cell['memory_mb']
    taken = memory - cell['memory_free_mb']
    return {
        'node': cell['node'],
        'cpus': _cpus(cell, holders),
        'cpus_text': f'{len(free)} of {total} CPUs free to be pinned'
        + (f': {ranges(free)}' if free else ''),
        'shared': f'{cell["cpus_used"]} guest CPUs on {cell["cpus"]} shared CPUs'
        if cell['cpus']
        else '',
        'amounts': [
            {
                'name': 'memory',
                'text': f'{words.part("MEMORY_MB", memory - taken, memory)} free',
                'share': shapes.share(taken, memory),
            },
            *(_pages(each) for each in cell['pages'] if each['total']),
        ],
    }


def _pages(pages: Mapping[str, Any]) -> View:
    """Return pages of a size; small ones as memory."""
    size_kb, free, total = pages['size_kb'], pages['free'], pages['total']
    said = f'{words.grouped(free)} of {words.grouped(total)} free'
    if size_kb < KIB_OF_MIB:
        of_memory = (round(number * size_kb / KIB_OF_MIB) for number in (free, total))
        said = f'{words.part("MEMORY_MB", *of_memory)} free'
    return {
        'name': f'pages of {size_text(size_kb)}',
        'text': said,
        'share': shapes.share(total - free, total),
    }


def _cpus(cell: Mapping[str, Any], holders: Sequence[Mapping[str, Any]]) -> list[View]:
    """Return the CPUs that may be pinned, in order, and the server on each.

    CPUs that no known server has taken come last, as their numbers are unknown.
    """
    by_cpu = {cpu: (FREE, f'CPU {cpu}: free') for cpu in cell['dedicated_free']}
    for each in holders:
        for cpu in each['pcpu'].get(str(cell['node']), ()):
            if cpu not in by_cpu:
                name = each['name'] or each['server']
                by_cpu[cpu] = (TAKEN, f'CPU {cpu}: {name}')
    made = [
        {'kind': kind, 'title': title} for _, (kind, title) in sorted(by_cpu.items())
    ]
    unknown = max(0, cell['dedicated_cpus'] - len(made))
    return [*made, *[{'kind': UNKNOWN, 'title': 'taken'}] * unknown]


def _holder(holder: Mapping[str, Any]) -> View:
    memory = words.amount('MEMORY_MB', holder['memory_mb'])
    uuid, flavor = holder['server'], holder['flavor'] or ''
    return {
        **holder,
        'server': words.to_decisions(holder['name'] or uuid, server=uuid),
        'uuid': uuid,
        'flavor': words.to_decisions(flavor, flavor=flavor),
        'size': f'{counted(holder["vcpus"], "CPU")}, {memory}',
        'pages': [
            f'{each["count"]} × {size_text(each["size_kb"])}, node {each["node"]}'
            for each in holder['pages']
        ],
        'pcpu': [
            f'{ranges(cpus)}, node {node}' for node, cpus in holder['pcpu'].items()
        ],
        'href': query.of_decision(holder['decision'] or ''),
    }
