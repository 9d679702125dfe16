# SPDX-License-Identifier: Apache-2.0
"""Providers of a history as a table: recorded ones, and what the rows of hosts say."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import os_traits  # type: ignore[import-untyped]

from novasched.providers.contents import NOTHING, build
from novasched.providers.table import ProviderTable
from novasched.scheduler.columns import Ints
from novasched.scheduler.hosts import HostTable

Providers = Mapping[str, Mapping[str, Any]]
"""By uuid: ``parent``, ``inventories`` by class, ``traits`` and ``aggregates``."""


def table_of(providers: Providers) -> ProviderTable:
    """Return a table of providers."""
    ids = {uuid: number for number, uuid in enumerate(providers, 1)}
    classes, traits, aggregates = _numbers(), _numbers(), _numbers()
    _ = traits[os_traits.COMPUTE_STATUS_DISABLED]  # queries name it
    rows = [
        (ids[uuid], 0, ids[_root(providers, uuid)], ids.get(provider['parent'], 0))
        for uuid, provider in providers.items()
    ]
    inventories = [
        (ids[uuid], classes[name], limits)
        for uuid, provider in providers.items()
        for name, limits in provider['inventories'].items()
    ]

    def pairs(field: str, numbers: dict[str, int]) -> Ints:
        listed = [
            (ids[uuid], numbers[name])
            for uuid, provider in providers.items()
            for name in provider[field]
        ]
        return _ints(2, listed)

    limits = [
        (provider, name, of['capacity'], 0, *(of[unit] for unit in _UNITS), 1, 1)
        for provider, name, of in inventories
    ]
    usage = [(provider, name, of['used']) for provider, name, of in inventories]
    contents = replace(
        NOTHING,
        providers=_ints(4, sorted(rows)),
        inventories=_ints(9, sorted(limits)).astype(np.float64),
        usage=_ints(3, usage),
        traits=pairs('traits', traits),
        aggregates=pairs('aggregates', aggregates),
    )
    named = {
        'uuids': ids,
        'class_names': classes,
        'trait_names': traits,
        'aggregate_uuids': aggregates,
    }
    names: dict[str, Any] = {
        field: {number: name for name, number in numbers.items()}
        for field, numbers in named.items()
    }
    return build(replace(contents, **names))


_UNITS = ('min_unit', 'max_unit', 'step_size')


def _numbers() -> dict[str, int]:
    """Return a dict that numbers names as they are asked for."""
    return defaultdict(itertools.count(1).__next__)


def _root(providers: Providers, uuid: str) -> str:
    parent = providers[uuid]['parent']
    return _root(providers, parent) if parent in providers else uuid


def _ints(width: int, rows: Sequence[tuple[Any, ...]]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, width)


def of_rows(hosts: HostTable) -> Providers:
    """Return providers of hosts by uuid, as far as the rows of hosts know them."""
    ram_mb, disk_gb = hosts.total_usable_ram_mb, hosts.total_usable_disk_gb
    amounts = {
        'VCPU': (hosts.vcpus_total * hosts.cpu_allocation_ratio, hosts.vcpus_used),
        'MEMORY_MB': (ram_mb * hosts.ram_allocation_ratio, ram_mb - hosts.free_ram_mb),
        'DISK_GB': (
            disk_gb * hosts.disk_allocation_ratio,
            disk_gb - hosts.free_disk_mb // 1024,
        ),
    }
    capacities = {n: np.nan_to_num(c).astype(np.int64) for n, (c, _) in amounts.items()}
    return {
        uuid: {
            'parent': None,
            'inventories': {
                name: {
                    'capacity': capacities[name].item(row),
                    'min_unit': 1,
                    'max_unit': capacities[name].item(row),
                    'step_size': 1,
                    'used': used.item(row),
                }
                for name, (_, used) in amounts.items()
                if capacities[name].item(row) > 0
            },
            'traits': [os_traits.OWNER_NOVA],
            'aggregates': [each.uuid for each in groups if each.uuid],
        }
        for row, (uuid, groups) in enumerate(
            zip(hosts.uuid.tolist(), hosts.aggregates.tolist(), strict=True)
        )
    }
