# SPDX-License-Identifier: Apache-2.0
"""The hosts of all cells as columns, changed by row and read as a whole.

Rows are keyed by (cell uuid, compute node id). Reading never waits for a
change: every change makes new columns and leaves the old ones as they were.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from novasched.cluster.rows import supported_instances
from novasched.scheduler.hosts import Categories

Key = tuple[str, int]

INTS = (
    'total_usable_ram_mb',
    'free_ram_mb',
    'total_usable_disk_gb',
    'disk_mb_used',
    'free_disk_mb',
    'vcpus_total',
    'vcpus_used',
    'num_instances',
    'num_io_ops',
    'failed_builds',
)
FLOATS = (
    'cpu_allocation_ratio',
    'ram_allocation_ratio',
    'disk_allocation_ratio',
    'hypervisor_version',
)
OBJECTS = (
    'host',
    'nodename',
    'uuid',
    'hypervisor_hostname',
    'host_ip',
    'stats',
    'updated',
)
CATEGORIES = (
    'cell_uuid',
    'hypervisor_type',
    'cpu_info',
    'supported_instances',
    'numa_topology',
    'pci_stats',
    'metrics',
)
DTYPES = {
    **dict.fromkeys(INTS, np.int64),
    **dict.fromkeys(FLOATS, np.float64),
    **dict.fromkeys(OBJECTS, object),
    **dict.fromkeys(CATEGORIES, np.intp),
}


class Encoder:
    """Numbers the distinct values of a column; a number never changes meaning."""

    def __init__(self, parse: Any = None) -> None:
        self.values: list[Any] = []
        self._codes: dict[Hashable, int] = {}
        self._parse = parse

    def code(self, value: Hashable) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(self._parse(value) if self._parse else value)
        return code


class HostColumns:
    """The columns of all hosts, and where each host stands in them.

    ``members`` grows whenever a host may stand somewhere else than before.
    """

    def __init__(self) -> None:
        self._hosts: dict[Key, dict[str, Any]] = {}
        self.members = 0
        self._rebuild()

    def __len__(self) -> int:
        return len(self._hosts)

    def ids_in(self, cell_uuid: str) -> set[int]:
        """Return the ids of the compute nodes that are held for a cell."""
        return {id_ for cell, id_ in self._hosts if cell == cell_uuid}

    def apply(
        self, changed: Mapping[Key, dict[str, Any]], gone: Iterable[Key] = ()
    ) -> None:
        """Put in new or changed hosts and take out those that are gone.

        The cost is that of the changed rows and one copy of each column, unless
        hosts come or go: then the columns are made anew.
        """
        gone = [key for key in gone if key in self._hosts]
        known = not gone and all(key in self._hosts for key in changed)
        for key in gone:
            del self._hosts[key]
        self._hosts.update(changed)
        if not known or self._is_sparse():
            self._rebuild()
        elif changed:
            self._overwrite(changed)

    def _is_sparse(self) -> bool:
        limit = 2 * len(self._hosts) + 64
        return any(len(self._encoders[name].values) > limit for name in CATEGORIES)

    def _encoded(self, name: str, value: Any) -> Any:
        return self._encoders[name].code(value) if name in CATEGORIES else value

    def _value(self, key: Key, name: str) -> Any:
        return key[0] if name == 'cell_uuid' else self._hosts[key][name]

    def _rebuild(self) -> None:
        self.members += 1
        self._encoders = {
            name: Encoder(
                supported_instances if name == 'supported_instances' else None
            )
            for name in CATEGORIES
        }
        self.position = {key: i for i, key in enumerate(self._hosts)}
        self._arrays = {}
        for name, dtype in DTYPES.items():
            array = np.empty(len(self._hosts), dtype)
            for i, key in enumerate(self._hosts):
                array[i] = self._encoded(name, self._value(key, name))
            self._arrays[name] = array
        self.by_uuid = {
            host['uuid']: self.position[key]
            for key, host in self._hosts.items()
            if host['uuid']
        }

    def _overwrite(self, changed: Mapping[Key, dict[str, Any]]) -> None:
        arrays = {name: array.copy() for name, array in self._arrays.items()}
        by_uuid = dict(self.by_uuid)
        for key in changed:
            position = self.position[key]
            before = arrays['uuid'][position]
            for name in DTYPES:
                value = self._encoded(name, self._value(key, name))
                arrays[name][position] = value
            if before != arrays['uuid'][position]:
                by_uuid.pop(before, None)
                by_uuid[arrays['uuid'][position]] = position
        self._arrays, self.by_uuid = arrays, by_uuid

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, as scheduler.hosts declares them."""
        return {
            name: Categories(self._encoders[name].values, array)
            if name in CATEGORIES
            else array
            for name, array in self._arrays.items()
        }
