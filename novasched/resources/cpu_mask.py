# SPDX-License-Identifier: Apache-2.0
"""Masks of guest CPUs, such as ``0-3,^2``."""

from __future__ import annotations

from novasched import errors

_MOST = 2**16
"""No guest has a CPU of this number: a longer range is a mistake, or meant badly."""


def cpus_in(mask: str, count: int) -> set[int]:
    """Return the numbers that a mask names; those excluded count for nothing.

    A mask that begins with an exclusion means all of ``count`` CPUs but those.
    Raises errors.InvalidDemand for text that is no mask.
    """
    included: set[int] = set(range(count)) if mask.startswith('^') else set()
    excluded: set[int] = set()
    for part in filter(None, (part.strip() for part in mask.split(','))):
        numbers = excluded if part.startswith('^') else included
        numbers |= _numbers(part)
    return included - excluded


def _numbers(part: str) -> set[int]:
    kind = 'exclusion' if part.startswith('^') else 'inclusion'
    texts = part.removeprefix('^').split('-')
    if len(texts) > 1:
        kind = 'range'
    try:
        first, last = int(texts[0]), int(texts[-1])
    except ValueError:
        first, last = 1, 0
    if len(texts) > 2 or not 0 <= first <= last < _MOST:
        raise errors.InvalidDemand(f"Invalid {kind} expression '{part}'")
    return set(range(first, last + 1))
