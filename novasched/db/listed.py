# SPDX-License-Identifier: Apache-2.0
"""Lists of numbers within one row, so that one statement answers several questions.

Servers cut long lists, even within a number; a sum of all ids shows that.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def text(value: sa.ColumnElement[Any], where: sa.ColumnElement[bool]) -> Any:
    """Return an aggregate that lists the values of the rows of which that is true."""
    return sa.func.aggregate_strings(sa.case((where, _digits(value))), ',')


def pair(id_: sa.ColumnElement[int], value: sa.ColumnElement[int]) -> Any:
    """Return an id and a number as one value of a list."""
    return _digits(id_) + ':' + _digits(value)


def _digits(value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    is_number = isinstance(value.type, sa.Integer)
    return sa.cast(value, sa.String(20)) if is_number else value


def check(id_: sa.ColumnElement[int], where: sa.ColumnElement[bool]) -> Any:
    """Return an aggregate of the ids of a list, which tells whether it was cut."""
    zero = sa.literal_column('0', sa.Integer)
    return sa.func.coalesce(sa.func.sum(sa.case((where, id_))), zero)


def pairs(found: str | None, sum_of_ids: int) -> dict[int, int] | None:
    """Return the numbers of a list by id; None: it was cut.

    One that is cut within its last number only gives another number.
    """
    split = (each.partition(':') for each in (found or '').split(',') if each)
    numbers = {int(id_): int(number or 0) for id_, _, number in split}
    return numbers if sum(numbers) == sum_of_ids else None
