# SPDX-License-Identifier: Apache-2.0
"""Columns with other values in some rows; the columns given stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from novasched.cluster.picks import Pick
from novasched.scheduler.columns import Instances
from novasched.scheduler.consumption import added_member
from novasched.scheduler.hosts import Categories, HostTable, Objects, Rows


def identity(column: Any) -> Any:
    """Return the array that is another one whenever the column is."""
    return column.codes if isinstance(column, Categories) else column


def numbers(column: Any, rows: Rows, values: Sequence[Any]) -> Any:
    """Return a column with other numbers in some rows; too large ones are objects."""
    new = np.array(values)
    changed = column.astype(np.promote_types(column.dtype, new.dtype))
    changed[rows] = new
    return changed


def shapes(column: Categories[Any], new: Mapping[int, Any]) -> Categories[Any]:
    """Return a column with other values in some rows."""
    values, codes = list(column.values), column.codes.copy()
    for place, shape in new.items():
        codes[place] = len(values)
        values.append(shape)
    return Categories(values, codes)


def with_members(hosts: HostTable, members: Mapping[int, list[Pick]]) -> HostTable:
    """Add members of groups to the instances of hosts, once these are read."""
    if not members:
        return hosts

    def changed(column: Objects | Instances) -> Instances:
        new = column.copy() if isinstance(column, Instances) else Instances(column)
        for place, picks in members.items():
            instances = new.item(place)
            if instances is not None:  # a host that this request looks at
                for pick in picks:
                    instances = added_member(instances, pick.uuid, pick.host)
                new[place] = instances
        return new

    instances = hosts.snapshot.lazy('instances').then(changed)
    return hosts.with_columns(instances=instances)
