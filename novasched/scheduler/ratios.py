# SPDX-License-Identifier: Apache-2.0
"""Options that are lists of ``name=ratio``."""

from __future__ import annotations

from collections.abc import Iterable


def parse(items: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return the names and ratios, in order; one name may come again.

    An item is split at its first ``=``, and blanks before that belong to the
    name. Items without a name or a number are left out.
    """
    found = (_ratio(item) for item in items)
    return tuple(pair for pair in found if pair is not None)


def invalid(items: Iterable[str]) -> tuple[str, ...]:
    """Return the items that parse() leaves out, in order."""
    return tuple(item for item in items if _ratio(item) is None)


def _ratio(item: str) -> tuple[str, float] | None:
    name, _, ratio = item.partition('=')
    try:
        return (name, float(ratio)) if name else None
    except ValueError:
        return None
