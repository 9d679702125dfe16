# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers within one row, so that one statement answers several questions.

Servers cut long lists, even within a number; a sum of all ids shows that.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def packed_columns(
    name: str,
    id_: sa.ColumnElement[int],
    number: sa.ColumnElement[int],
    where: sa.ColumnElement[bool],
) -> tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]:
    """Return two aggregates of the rows that meet ``where``.

    They are a list of their ids, each with a number, and the sum of these ids.
    """
    one = sa.cast(id_, sa.String(20)) + ':' + sa.cast(number, sa.String(20))
    zero = sa.literal_column('0', sa.Integer)
    return (
        sa.func.aggregate_strings(sa.case((where, one)), ',').label(name),
        sa.func.coalesce(sa.func.sum(sa.case((where, id_))), zero).label(f'{name}_ids'),
    )


def unpack(found: str | None, sum_of_ids: int) -> dict[int, int] | None:
    """Return the numbers of a list by id; None if it was cut.

    A list that is cut within its last number only gives another number.
    """
    split = (each.partition(':') for each in (found or '').split(',') if each)
    numbers = {int(id_): int(number or 0) for id_, _, number in split}
    return numbers if sum(numbers) == sum_of_ids else None
