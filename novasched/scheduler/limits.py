# SPDX-License-Identifier: Apache-2.0
"""Limits that aggregates set for their hosts."""

from __future__ import annotations

from novasched.scheduler import aggregates

LARGEST = 2**63 - 1


def lowest(host_aggregates: aggregates.Aggregates, key: str, configured: int) -> int:
    """Return the lowest limit that the aggregates of a host set.

    ``configured`` if none sets one, or one is no whole number. The limit fits
    into a column. Nova: scheduler/filters/utils.py.
    """
    values = aggregates.values(host_aggregates, key)
    try:
        limit = min((int(value) for value in values), default=configured)
    except ValueError:
        return configured
    return max(-LARGEST, min(limit, LARGEST))
