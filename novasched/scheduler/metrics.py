# SPDX-License-Identifier: Apache-2.0
"""The metrics that computes report of themselves."""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

FRACTIONS = frozenset(
    {
        'cpu.user.percent',
        'cpu.kernel.percent',
        'cpu.idle.percent',
        'cpu.iowait.percent',
        'cpu.percent',
    }
)
NAMES = FRACTIONS | {
    'cpu.frequency',
    'cpu.user.time',
    'cpu.kernel.time',
    'cpu.idle.time',
    'cpu.iowait.time',
    'numa.membw.max',
    'numa.membw.current',
}


class HostMetric(NamedTuple):
    """One metric of a host; ``value`` is None where it is not a single number."""

    name: str
    value: int | None


@functools.lru_cache(maxsize=65536)
def parse(text: str | None) -> tuple[HostMetric, ...]:
    """Return the metrics in the JSON text that a compute reports, in its order.

    Fractions are read as percent: 0.35 is 35. Null and empty are no metrics.
    Raises ValueError for anything else that is not a list of known metrics, as
    nova does.
    """
    if not text:
        return ()
    try:
        return tuple(_metric(entry) for entry in json.loads(text))
    except (ArithmeticError, LookupError, RecursionError, TypeError) as problem:
        raise ValueError(f'not a list of metrics: {text:.200}') from problem


def reported(value: Any) -> tuple[HostMetric, ...]:
    """Return the metrics in a JSON text, or in a list that a plugin put there."""
    return parse(value) if isinstance(value, str | None) else tuple(value)


def _metric(entry: dict[str, Any]) -> HostMetric:
    name = entry['name']
    if name not in NAMES:
        raise ValueError(f'no metric has the name {name}')
    if 'value' not in entry:
        return HostMetric(name, None)
    return HostMetric(name, int(entry['value'] * (100 if name in FRACTIONS else 1)))
