# SPDX-License-Identifier: Apache-2.0
"""A host: what it has, what is free of it, and which servers hold the rest."""

from __future__ import annotations

from collections.abc import Sequence

from novasched.console.pages.words import View
from novasched.inspection.questions.reports import (
    Holder,
    HostNode,
    HostReport,
    NumaNode,
)
from novasched.inspection.texts import host
from novasched.inspection.texts.lines import Style
from novasched.inspection.texts.missing import missing_parts

FREE, TAKEN, UNKNOWN = 'free', 'taken', 'unknown'


def view(answer: HostReport) -> View:
    """Return the values for the page."""
    return {
        'answer': answer,
        'no_node': host.NO_NODE,
        'nothing_held': host.nothing_held(answer),
        'nodes': [_node(node, answer.holders) for node in answer.nodes],
        'holders': host.holders(answer, Style()),
        'slots': host.slots(answer),
        'decisions': host.decisions(answer),
        'missing': [
            *missing_parts(answer.unanswered, (), answer.cells_left_out),
            *answer.placement_problems,
        ],
    }


def _node(node: HostNode, holders: Sequence[Holder]) -> View:
    return {
        'node': node,
        'facts': list(host.facts(node)),
        'resources': host.resources(node),
        'numa': [
            {
                'node': each.node,
                'drawn': _cpus(each, holders),
                'facts': list(host.numa(each)),
            }
            for each in node.numa
        ],
        'devices': list(host.devices(node)),
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
