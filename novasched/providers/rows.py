# SPDX-License-Identifier: Apache-2.0
"""Rows about providers, whose id is their first column: sorted, compared, renewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from novasched.scheduler.columns import Floats, Ints, Rows

A = TypeVar('A', Ints, Floats)


def by_provider(rows: A) -> A:
    """Return rows sorted by their provider."""
    if (np.diff(rows[:, 0]) >= 0).all():
        return rows
    return rows[np.argsort(rows[:, 0], kind='stable')]


def of_providers(rows: A, ids: Ints) -> A:
    """Return those rows, of rows by provider, that are of these providers."""
    starts: list[int] = np.searchsorted(rows[:, 0], ids).tolist()
    ends: list[int] = np.searchsorted(rows[:, 0], ids, 'right').tolist()
    parts: list[A] = [rows[start:end] for start, end in zip(starts, ends, strict=True)]
    return np.concatenate([rows[:0], *parts])


def of_both(some: Ints, others: Ints) -> tuple[Rows, Rows]:
    """Return where the ids are that both have: in the one, and in the other."""
    _, at, here = np.intersect1d(
        some[:, 0], others[:, 0], assume_unique=True, return_indices=True
    )
    return at, here


def unpaired(some: A, others: A) -> A:
    """Return the first columns of the rows that only one of both has."""
    both = np.nan_to_num(np.concatenate([some, others]))  # NaN differs from itself
    both = both[np.lexsort(both.T)]
    paired = np.zeros(len(both), bool)
    same = (both[1:] == both[:-1]).all(axis=1)
    paired[1:] |= same
    paired[:-1] |= same
    found: A = both[~paired, 0]
    return found


def has_same_rows(some: A, others: A) -> bool:
    """Return whether rows are the same in any order."""
    return not len(unpaired(some, others))


def with_more(rows: A, dropped: Ints, more: A) -> A:
    """Return rows, the ``dropped`` providers replaced by ``more`` rows."""
    kept = rows[~np.isin(rows[:, 0].astype(np.int64), dropped)]
    return np.concatenate([kept, more])


def renewed(rows: A, dropped: Ints, more: A) -> A:
    """Return the same, by provider; the rows themselves, if nothing differs."""
    if not len(unpaired(of_providers(rows, dropped), more)):
        return rows
    return by_provider(with_more(rows, dropped, more))


def put(rows: A, ids: Ints, fresh: Mapping[int, A]) -> A:
    """Return the rows without these ids, and all fresh rows."""
    kept = rows[~np.isin(rows[:, 0], [*ids.tolist(), *fresh])]
    return np.concatenate([kept, *fresh.values()])
