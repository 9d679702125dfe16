# SPDX-License-Identifier: Apache-2.0
"""Contents of placement as they would be after a change to the cloud."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from novasched.providers.contents import Contents
from novasched.providers.rows import by_provider
from novasched.scheduler.columns import Floats, Ints, Mask

A = TypeVar('A', Ints, Floats)

TOTAL, RESERVED, RATIOS = 2, 3, slice(7, 9)
"""Columns of inventories."""


def _ids(contents: Contents, uuids: Iterable[str]) -> list[int]:
    """Return the ids of the providers that exist."""
    by_uuid = {each: id_ for id_, each in contents.uuids.items()}
    return [by_uuid[each] for each in uuids if each in by_uuid]


def _number(names: Mapping[int, str], name: str) -> tuple[int, Mapping[int, str]]:
    """Return the number of a name, and the names with it."""
    for number, each in names.items():
        if each == name:
            return number, names
    number = max(names, default=0) + 1
    return number, {**names, number: name}


def without_trees(contents: Contents, roots: Iterable[str]) -> Contents:
    """Return contents without the trees of some roots."""
    gone = contents.providers[
        np.isin(contents.providers[:, 2], _ids(contents, roots)), 0
    ]

    def left(rows: A) -> A:
        return rows[~np.isin(rows[:, 0], gone)]

    return replace(
        contents,
        providers=left(contents.providers),
        inventories=left(contents.inventories),
        usage=left(contents.usage),
        traits=left(contents.traits),
        aggregates=left(contents.aggregates),
    )


def with_copies(contents: Contents, copies: Mapping[str, str]) -> Contents:
    """Return contents with an unused tree for each new uuid, like the other one's."""
    of_each: dict[str, list[str]] = {}
    for new, like in copies.items():
        of_each.setdefault(like, []).append(new)
    for like, made in of_each.items():
        for root in _ids(contents, [like]):
            contents = _with_copies_of(contents, made, root)
    return contents


def _with_copies_of(contents: Contents, made: Sequence[str], root: int) -> Contents:
    """Return contents with trees of new uuids like the tree of a root."""
    tree = contents.providers[contents.providers[:, 2] == root]
    old = tree[:, 0].tolist()
    first = int(contents.providers[:, 0].max()) + 1
    numbers = [
        {0: 0} | {id_: first + place * len(old) + at for at, id_ in enumerate(old)}
        for place in range(len(made))
    ]
    uuids = {
        new[id_]: uuid_ if id_ == root else str(uuid.uuid5(uuid.UUID(uuid_), str(id_)))
        for uuid_, new in zip(made, numbers, strict=True)
        for id_ in old
    }

    def joined(rows: A, columns: Sequence[int] = (0,)) -> A:
        of_tree: A = rows[np.isin(rows[:, 0], tree[:, 0])]
        more: list[A] = [_renumbered(of_tree, new, columns) for new in numbers]
        return np.concatenate([rows, *more])

    return replace(
        contents,
        providers=joined(contents.providers, (0, 2, 3)),
        inventories=joined(contents.inventories),
        traits=by_provider(joined(contents.traits)),
        aggregates=joined(contents.aggregates),
        uuids={**contents.uuids, **uuids},
    )


def _renumbered(rows: A, numbers: Mapping[int, int], columns: Sequence[int]) -> A:
    """Return rows with other numbers in columns."""
    made = rows.copy()
    for column in columns:
        made[:, column] = [numbers[int(each)] for each in rows[:, column].tolist()]
    return made


def with_trait(
    contents: Contents, uuids: Iterable[str], name: str, has: bool
) -> Contents:
    """Return contents in which providers have a trait, or have it no more."""
    number, names = _number(contents.trait_names, name)
    rows = _with_pairs(contents.traits, _ids(contents, uuids), number, has)
    return replace(contents, traits=by_provider(rows), trait_names=names)


def with_members(
    contents: Contents, uuids: Iterable[str], aggregate: str, are: bool
) -> Contents:
    """Return contents in which providers are members of an aggregate, or no more."""
    number, names = _number(contents.aggregate_uuids, aggregate)
    rows = _with_pairs(contents.aggregates, _ids(contents, uuids), number, are)
    return replace(contents, aggregates=rows, aggregate_uuids=names)


def _with_pairs(rows: Ints, ids: list[int], number: int, has: bool) -> Ints:
    rows = rows[~(np.isin(rows[:, 0], ids) & (rows[:, 1] == number))]
    more = np.array([(id_, number) for id_ in ids], np.int64).reshape(-1, 2)
    return np.concatenate([rows, more]) if has else rows


def with_ratio(
    contents: Contents, before: Mapping[str, float], name: str, ratio: float
) -> Contents:
    """Return contents in which providers have another allocation ratio.

    ``before`` gives the ratio of each by which its inventory was multiplied already,
    where that is guessed: its capacity alone is known.
    """
    number, _ = _number(contents.class_names, name)
    rows = contents.inventories.copy()
    for uuid_, known in before.items():
        ids = _ids(contents, [uuid_])
        of_provider: Mask = np.isin(rows[:, 0], ids)
        old = known if contents.guessed.issuperset(ids) else 1.0
        of_provider &= rows[:, 1] == number
        rows[of_provider, TOTAL] = np.round(rows[of_provider, TOTAL] / old)
        rows[of_provider, RATIOS] = ratio
    return replace(contents, inventories=rows)
