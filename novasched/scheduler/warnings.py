# SPDX-License-Identifier: Apache-2.0
"""Warnings of filters and weighers to operators, in nova's words.

Filters and weighers read past nonsense in options and aggregates; it is said here,
once, and not for every host of every request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from novasched.scheduler import aggregates
from novasched.scheduler.aggregates import Aggregate, Aggregates
from novasched.scheduler.hosts import HostTable

MOST_NAMES = 5


@dataclass(frozen=True)
class PluginWarning:
    """A line for the log, of a level of ``logging``.

    Equal ones say the same of other hosts: one of them is enough for a log.
    """

    text: str
    level: int = logging.WARNING
    hosts: str = field(default='', compare=False)

    def __str__(self) -> str:
        return f'{self.text}: {self.hosts}' if self.hosts else self.text


def number_warnings(
    groups: Sequence[Aggregates],
    key: str,
    read: Callable[[str], float],
    sentence: str = "Could not decode {key}: '{problem}'",
) -> Iterator[PluginWarning]:
    """Yield where a metadata key that a plugin reads is no number, or several."""
    for group in groups:
        values = aggregates.values(group, key)
        if len(values) > 1:
            names = ', '.join(str(a.name) for a in group if key in a.metadata)
            yield PluginWarning(
                f'{len(values)} values found, of which the minimum value will be '
                f'used. ({key} of aggregates {names})',
                logging.INFO,
            )
    for aggregate in members(groups):
        try:
            read(aggregate.metadata.get(key, '0'))
        except ValueError as problem:
            text = sentence.format(key=key, problem=problem)
            yield PluginWarning(f'{text} (aggregate {aggregate.name})')


def setting_warnings(option: str, ignored: Sequence[str]) -> Iterator[PluginWarning]:
    """Yield which items of an option of ``name=ratio`` are left out."""
    if ignored:
        yield PluginWarning(
            f'Ignoring the invalid elements of the option {option}: '
            f'{", ".join(ignored)}'
        )


def members(groups: Iterable[Aggregates]) -> list[Aggregate]:
    """Return the aggregates of which the groups consist, by id."""
    by_id = {aggregate.id: aggregate for group in groups for aggregate in group}
    return [by_id[id_] for id_ in sorted(by_id)]


def names(hosts: HostTable) -> str:
    """Return the names of hosts, not all if they are many."""
    more = len(hosts) - MOST_NAMES
    found = ', '.join(hosts.host.tolist()[:MOST_NAMES])
    return f'{found} and {more} more' if more > 0 else found
