# SPDX-License-Identifier: Apache-2.0
"""What an operator should hear of options and aggregates, in nova's words.

Filters and weighers read past nonsense; it is said here, once, and not for every
host of every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from novasched.scheduler import aggregates, hooks
from novasched.scheduler.aggregates import Aggregate, Aggregates
from novasched.scheduler.weighers import Weigher


class Notice(NamedTuple):
    """A line for the log: a warning, else for information."""

    text: str
    warning: bool = True


def notices(plugins: Iterable[object], groups: Iterable[Aggregates]) -> list[Notice]:
    """Return what filters and weighers find odd, each text once.

    ``groups`` are the aggregates of each host; they may repeat. Who has them asks
    whenever they change, and logs what was not found the time before. A filter or
    weigher that has something to say on its options, or on aggregates, has a method
    notices(groups): an iterable of Notice. It is given each set of aggregates once.
    """
    distinct = list({tuple(a.id for a in group): group for group in groups}.values())
    found: list[Notice] = []
    for plugin in plugins:
        cls: type = type(plugin)
        say = hooks.meant(cls, 'notices')
        if say is not None:
            found.extend(say(plugin, distinct))
        option = hooks.meant(cls, 'option')
        if isinstance(plugin, Weigher) and option is not None:
            found.extend(_of_multiplier(distinct, option))
    return list(dict.fromkeys(found))


def of_numbers(
    groups: Sequence[Aggregates], key: str, read: Callable[[str], float]
) -> Iterator[Notice]:
    """Say where a key of metadata that a filter reads is no number, or several."""
    return _of_numbers(groups, key, read, f"Could not decode {key}: '{{}}'")


def _of_multiplier(groups: Sequence[Aggregates], option: str) -> Iterator[Notice]:
    sentence = f"Could not decode '{option}' weight multiplier: {{}}"
    return _of_numbers(groups, option, float, sentence)


def _of_numbers(
    groups: Sequence[Aggregates],
    key: str,
    read: Callable[[str], float],
    sentence: str,
) -> Iterator[Notice]:
    for group in groups:
        values = aggregates.values(group, key)
        if len(values) > 1:
            names = ', '.join(str(a.name) for a in group if key in a.metadata)
            yield Notice(
                f'{len(values)} values found, of which the minimum value will be '
                f'used. ({key} of aggregates {names})',
                warning=False,
            )
    for aggregate in members(groups):
        try:
            read(aggregate.metadata.get(key, '0'))
        except ValueError as problem:
            text = sentence.format(problem)
            yield Notice(f'{text} (aggregate {aggregate.name})')


def of_setting(option: str, ignored: Sequence[str]) -> Iterator[Notice]:
    """Say which items of an option of ``name=ratio`` are left out."""
    if ignored:
        yield Notice(
            f'Ignoring the invalid elements of the option {option}: '
            f'{", ".join(ignored)}'
        )


def members(groups: Iterable[Aggregates]) -> list[Aggregate]:
    """Return the aggregates of which the groups consist, by id."""
    by_id = {aggregate.id: aggregate for group in groups for aggregate in group}
    return [by_id[id_] for id_ in sorted(by_id)]
