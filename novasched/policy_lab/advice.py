# SPDX-License-Identifier: Apache-2.0
"""The few policies that are known to matter, tried on a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from novasched.inspection.texts.lines import BOLD, Style
from novasched.policy_lab import runs, sources, texts
from novasched.policy_lab.policy import FLAVORS, GROUP, MOST_FLAVORS, option_of, parse
from novasched.policy_lab.results import FIGURES, RunResult
from novasched.policy_lab.runs import RunOrder

NOW = 'now'
KNOWN = {
    'pack': ('cpu:-1.0,ram:-1.0', 'fills a host before the next one'),
    'pack-no-io': (
        'cpu:-1.0,ram:-1.0,io_ops:0.0',
        'fills hosts, also while servers are built on them',
    ),
    'pack-subset': (
        'cpu:-1.0,ram:-1.0,subset:20',
        'fills hosts, and takes one of the best 20: fewer requests race for one host',
    ),
    'keep-room': (
        'cpu:-1.0,ram:-1.0,keep_room:10.0',
        'takes the host where a server costs the flavors of the history the least room',
    ),
    'shares': (
        'cpu:0.0,ram:0.0,cpu_share:1.0,ram_share:1.0',
        'spreads by free shares instead of free amounts: unlike hosts fill alike',
    ),
}
"""Words of a policy and what it does, by name."""


@dataclass(frozen=True)
class AdvisedPolicy:
    """A policy: what it does, and the lines of nova.conf that make it."""

    name: str
    what: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Advice:
    """What policies would have changed; the first policy of the run is the one now."""

    policies: Sequence[AdvisedPolicy]
    run: RunResult


def advise(order: RunOrder, now: str) -> Advice:
    """Run the known policies beside the one that is given by its text."""
    before = f'{now},' if now else ''
    until = sources.extent(order.history)
    known = [parse(f'{NOW}={now}')]
    known += [parse(f'{name}={before}{words}') for name, (words, _) in KNOWN.items()]
    found = runs.run(order, known, until)
    load = sources.workload(order.history, found.plan.parts[0], until=until)
    flavors = sources.flavor_shares(load)
    advised = [
        AdvisedPolicy(name, what, list(_lines(words, flavors)))
        for name, (words, what) in KNOWN.items()
    ]
    return Advice(advised, found)


def _lines(words: str, flavors: Sequence[str]) -> Iterator[str]:
    yield f'[{GROUP}]'
    for word in words.split(','):
        name, _, value = word.partition(':')
        yield f'{option_of(name)} = {value}'
        if name == 'keep_room':
            yield flavors_line(flavors)


def flavors_line(flavors: Sequence[str]) -> str:
    """Return the line of nova.conf that has the flavors of a history."""
    return f'{FLAVORS} = {",".join(flavors[:MOST_FLAVORS])}'


def as_text(advice: Advice, style: Style) -> str:
    """Return the changes by each policy, and the lines that make it."""
    run = advice.run
    lines = [*texts.head(run, style), f'Now: {run.plan.policies[0].text or "defaults"}']
    for policy in advice.policies:
        lines += ['', *style.wrapped('', f'{policy.name}: {policy.what}')]
        lines[-1] = style.paint(lines[-1], BOLD)
        lines += style.wrapped('    ', ', '.join(_changes(run, policy.name)))
        if policy.name in run.overloaded:
            lines += style.wrapped('    ', texts.NOT_SAME_LOAD)
        lines += [f'    {line}' for line in policy.lines]
    return '\n'.join(lines)


def _changes(run: RunResult, policy: str) -> Iterator[str]:
    rows = {row.name: row for row in run.rows}
    for name, heading in texts.MAIN.items():
        if name not in rows:
            continue
        means = rows[name].means
        is_void = policy in run.overloaded and FIGURES[name].needs_same_load
        if is_void or means.get(policy) is None or means.get(NOW) is None:
            continue
        before, after = texts.value(name, means[NOW]), texts.value(name, means[policy])
        found = rows[name].differences.get(policy)
        within = ''
        if found is not None and found.within is not None:
            within = f' (±{texts.value(name, found.within)})'
        yield f'{heading.lower()} {before} → {after}{within}'
