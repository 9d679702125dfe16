# SPDX-License-Identifier: Apache-2.0
"""Invalid rows of compute_nodes and services: ignored, and named once.

A database may hold null where there must be a name, a date of zeros, or what was
written by hand. One such row must cost neither a request nor the other hosts of its
cell.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, get_args, get_type_hints

from novasched.cluster.services import STAMPS
from novasched.ports import ComputeNodeRow, ServiceRow
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

LARGEST = 2**31 - 1
"""The largest number that an integer column of nova's holds."""

_TYPES = {
    name: (int, float) if kind is float else (kind,)
    for name, hint in get_type_hints(ComputeNodeRow).items()
    for kind in get_args(hint)[:1] or (hint,)
    if name not in ('mark', 'checksum')
}
"""Accepted types of each column; mark and checksum are the last, and ours."""

_NAMES = ('host', 'hypervisor_hostname')
_AMOUNTS = (
    'vcpus',
    'vcpus_used',
    'memory_mb',
    'memory_mb_used',
    'local_gb',
    'local_gb_used',
    'hypervisor_version',
)
"""What a node that has reported its usage has reported, too."""


class InvalidValue(NamedTuple):
    """A column of a row that cannot be used."""

    table: str
    id: int
    host: str
    column: str
    value: str


def readable_nodes(
    rows: Iterable[ComputeNodeRow],
    invalid: list[InvalidValue],
    known: Mapping[int, ComputeNodeRow],
) -> list[ComputeNodeRow]:
    """Return the rows, those that cannot be used without anything but id and marks.

    A row that is known already was looked at before: the known one is returned.
    """
    found = []
    for row in rows:
        before = known.get(row.id)
        if before is not None and row == before:
            found.append(before)
            continue
        column = _invalid_column(row) if row.deleted == 0 else None
        if column is not None:
            invalid.append(_invalid('compute_nodes', row, column))
            row = blank(row)
        found.append(row)
    return found


def blank(row: ComputeNodeRow) -> ComputeNodeRow:
    """Return a row that is no host: it keeps its id, and what it is known by."""
    nothing = ComputeNodeRow(*[None] * len(row))  # type: ignore[arg-type]
    return nothing._replace(
        id=row.id, deleted=row.deleted, mark=row.mark, checksum=row.checksum
    )


def _invalid_column(row: ComputeNodeRow) -> str | None:
    for (name, types), value in zip(_TYPES.items(), row, strict=False):
        if value is not None and (type(value) not in types or not _fits(value)):
            return name
    needed = _NAMES if row.free_disk_gb is None else _NAMES + _AMOUNTS
    return next((n for n in needed if getattr(row, n) in (None, '')), None)


def _fits(value: object) -> bool:
    if not isinstance(value, int | float):
        return True
    return math.isfinite(value) and abs(value) <= LARGEST


def readable_services(
    rows: Iterable[ServiceRow], invalid: list[InvalidValue]
) -> list[ServiceRow]:
    """Return the rows without times that are none: such a service was never heard of.

    One whose host is no text is left out.
    """
    found = []
    for row in rows:
        if type(row.host) is not str:
            invalid.append(_invalid('services', row, 'host'))
            continue
        wrong = [name for name in STAMPS if not _is_time(getattr(row, name))]
        if wrong:
            invalid.append(_invalid('services', row, wrong[0]))
            row = row._replace(updated_at=None)
            if wrong != ['updated_at']:
                row = row._replace(last_seen_up=None, created_at=None)
        found.append(row)
    return found


def _is_time(value: Any) -> bool:
    return value is None or isinstance(value, datetime.datetime)


def _invalid(table: str, row: ComputeNodeRow | ServiceRow, column: str) -> InvalidValue:
    value = repr(getattr(row, column))
    return InvalidValue(table, row.id, str(row.host), column, f'{value:.60}')


def log_invalid(named: LogOnce, cell_uuid: str, found: Iterable[InvalidValue]) -> None:
    """Name a column of a cell that cannot be used once, until it has another value."""
    for invalid in found:
        if named.begins((invalid.table, invalid.id), invalid):
            LOG.warning(
                'Ignoring row %d of %s in cell %s, of host %s: its %s is %s',
                invalid.id,
                invalid.table,
                cell_uuid,
                invalid.host,
                invalid.column,
                invalid.value,
            )
