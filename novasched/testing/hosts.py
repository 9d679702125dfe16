# SPDX-License-Identifier: Apache-2.0
"""Tables of hosts that are valid by default."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.fit.parse import HostPools, host_topology
from novasched.scheduler.hosts import (
    Categories,
    Column,
    Columns,
    HostTable,
    Objects,
    Snapshot,
)

_FLOATS = {
    'cpu_allocation_ratio': 4.0,
    'ram_allocation_ratio': 1.0,
    'disk_allocation_ratio': 1.0,
    'hypervisor_version': 8002002,
}
_INTS = {
    'total_usable_ram_mb': 16384,
    'free_ram_mb': 8192,
    'total_usable_disk_gb': 100,
    'disk_mb_used': 0,
    'free_disk_mb': 102400,
    'vcpus_total': 8,
    'vcpus_used': 0,
    'num_instances': 0,
    'num_io_ops': 0,
    'failed_builds': 0,
}
_MASKS = {'service_disabled': False, 'service_up': True}
_CATEGORIES = {
    'cell_uuid': 'cell1',
    'hypervisor_type': 'QEMU',
    'cpu_info': None,
    'supported_instances': [['x86_64', 'kvm', 'hvm']],
    'numa_topology': None,
    'pci_stats': None,
    'metrics': None,
    'aggregates': (),
}
_OBJECTS: dict[str, Any] = {
    'host_ip': None,
    'stats': {},
    'service': {'disabled_reason': None, 'forced_down': False, 'last_seen_up': None},
    'updated': None,
    'instances': {},
    'instance_images': {},
    'limits': {},
    'allocation_candidates': [],
}
_DEFAULTS: dict[str, Any] = {**_FLOATS, **_INTS, **_MASKS, **_CATEGORIES, **_OBJECTS}
_PARSED: dict[str, Callable[[str | None], Any]] = {
    'numa_topology': host_topology,
    'pci_stats': HostPools,
}


def objects(values: Sequence[Any]) -> Objects:
    """Return an array of Python objects, lists and dicts included."""
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def aggregate(number: int = 1, hosts: Iterable[str] = (), **metadata: str) -> Aggregate:
    """Return an aggregate with metadata; ``number`` makes its id and names."""
    return Aggregate(
        number, f'aggregate-{number}', f'agg{number}', frozenset(hosts), metadata
    )


def hosts(count: int | None = None, **columns: Iterable[Any]) -> HostTable:
    """Return a table of hosts h1, h2, ...: a list of values per column given.

    Without a column, ``count`` hosts (default 1). What a column is not given for
    is the same on every host; dicts and lists are not shared. Raises TypeError for a
    column that hosts do not have, and ValueError if some are longer than others.
    """
    given = {name: list(values) for name, values in columns.items()}
    known = {name for name, c in vars(Columns).items() if isinstance(c, Column)}
    if unknown := sorted(given.keys() - known):
        raise TypeError(f'hosts have no columns {", ".join(unknown)}')
    if count is None:
        count = len(next(iter(given.values()))) if given else 1
    names = [f'h{i + 1}' for i in range(count)]
    given.setdefault('host', names)
    given.setdefault('nodename', given['host'])
    given.setdefault('uuid', [f'uuid-{name}' for name in given['nodename']])
    given.setdefault('hypervisor_hostname', given['nodename'])
    for name, value in _DEFAULTS.items():
        given.setdefault(name, [copy.deepcopy(value) for _ in range(count)])
    if wrong := sorted(name for name, v in given.items() if len(v) != count):
        raise ValueError(f'not {count} values: {", ".join(wrong)}')
    return HostTable(Snapshot({k: _column(k, v) for k, v in given.items()}))


def _column(name: str, values: list[Any]) -> Any:
    if name in _PARSED:
        texts = list(dict.fromkeys(values))
        codes = np.array([texts.index(text) for text in values], np.intp)
        return Categories([_PARSED[name](text) for text in texts], codes)
    if name in _CATEGORIES:
        distinct: list[Any] = []
        for value in values:
            if value not in distinct:
                distinct.append(value)
        codes = np.array([distinct.index(value) for value in values], np.intp)
        return Categories(distinct, codes)
    for kind, dtype in ((_FLOATS, np.float64), (_INTS, np.int64), (_MASKS, np.bool_)):
        if name in kind:
            return np.array(values, dtype)
    return objects(values)
