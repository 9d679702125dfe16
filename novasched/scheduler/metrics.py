# SPDX-License-Identifier: Apache-2.0
"""The metrics that computes report, and options that give names their ratios."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

from novasched import errors
from novasched.objects.monitor_metric import name_and_value
from novasched.parsing import parse_json


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
        return tuple(HostMetric(*name_and_value(each)) for each in parse_json(text))
    except (ArithmeticError, LookupError, TypeError) as problem:
        raise ValueError(f'not a list of metrics: {text:.200}') from problem


def reported(value: Any) -> tuple[HostMetric, ...]:
    """Return the metrics in a JSON text, or in a list that a plugin put there."""
    if isinstance(value, str | None):
        return parse(value)
    return tuple(HostMetric(each.name, _value(each)) for each in value)


def _value(metric: Any) -> int | None:
    try:
        value: int | None = metric.value
    except errors.UnsetField:
        return None
    return value


def ratios(items: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return the names and ratios, in order; one name may come again.

    An item is split at its first ``=``, and blanks before that belong to the
    name. Items without a name or a number are left out.
    """
    found = (_ratio(item) for item in items)
    return tuple(pair for pair in found if pair is not None)


def invalid_ratios(items: Iterable[str]) -> tuple[str, ...]:
    """Return the items that ratios() leaves out, in order."""
    return tuple(item for item in items if _ratio(item) is None)


def _ratio(item: str) -> tuple[str, float] | None:
    name, _, ratio = item.partition('=')
    try:
        return (name, float(ratio)) if name else None
    except ValueError:
        return None
