# SPDX-License-Identifier: Apache-2.0
"""Columns of all hosts, made from rows of compute_nodes, changed by row.

Rows are keyed by (cell uuid, compute node id). Every change makes new columns and
leaves the old ones as they were, so that readers of those are not disturbed.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from oslo_config import cfg

from novasched.cluster.services import aware
from novasched.objects import machine
from novasched.parsing import parse_json
from novasched.ports import ComputeNodeRow, shared
from novasched.scheduler.fit.parse import HostPools, host_topology
from novasched.scheduler.hosts import Categories

LOG = logging.getLogger(__name__)

LARGEST_COUNT = 2**31 - 1

NodeKey = tuple[str, int]

KINDS: dict[str, type] = {
    'host': object,
    'nodename': object,
    'uuid': object,
    'total_usable_ram_mb': int,
    'free_ram_mb': int,
    'total_usable_disk_gb': int,
    'disk_mb_used': int,
    'free_disk_mb': int,
    'vcpus_total': int,
    'vcpus_used': int,
    'num_instances': int,
    'num_io_ops': int,
    'failed_builds': int,
    'cpu_allocation_ratio': float,
    'ram_allocation_ratio': float,
    'disk_allocation_ratio': float,
    'hypervisor_type': str,
    'hypervisor_version': float,
    'hypervisor_hostname': object,
    'host_ip': object,
    'cpu_info': str,
    'supported_instances': str,
    'numa_topology': str,
    'pci_stats': str,
    'metrics': str,
    'stats': object,
    'updated': object,
}
"""The values of a host. Columns of kind str, and ``cell_uuid``, have few values and are
stored as numbers."""

CATEGORIES = ('cell_uuid', *(name for name, kind in KINDS.items() if kind is str))
DTYPES: dict[type, Any] = {
    int: np.int64,
    float: np.float64,
    object: np.object_,
    str: np.intp,
}
UNREPORTED: dict[type, float] = {int: 0, float: float('nan')}

OPTS = {
    'DEFAULT': [
        *(
            cfg.FloatOpt(
                f'{name}_allocation_ratio',
                min=0.0,
                help=f'Virtual per physical {what} of computes that report no ratio. '
                f'Unset or 0: initial_{name}_allocation_ratio.',
            )
            for name, what in (('cpu', 'CPU'), ('ram', 'memory'), ('disk', 'disk'))
        ),
        *(
            cfg.FloatOpt(
                f'initial_{name}_allocation_ratio',
                default=default,
                min=0.0,
                help=f'Ratio for computes that report no {name}_allocation_ratio, '
                f'when {name}_allocation_ratio is not set here either.',
            )
            for name, default in (('cpu', 4.0), ('ram', 1.0), ('disk', 1.0))
        ),
    ]
}


@dataclass(frozen=True)
class Ratios:
    """Allocation ratios for computes that report none (null or 0)."""

    cpu: float = 4.0
    ram: float = 1.0
    disk: float = 1.0

    @classmethod
    def from_conf(cls, conf: Any) -> Ratios:
        return cls(
            conf.cpu_allocation_ratio or conf.initial_cpu_allocation_ratio,
            conf.ram_allocation_ratio or conf.initial_ram_allocation_ratio,
            conf.disk_allocation_ratio or conf.initial_disk_allocation_ratio,
        )


def host_values(row: ComputeNodeRow, ratios: Ratios) -> dict[str, Any]:
    """Return the values of a host's own columns, in host units.

    A node that never reported its usage (``free_disk_gb`` is null) keeps zeros
    and no uuid: it can never be selected. Nova: scheduler/host_manager.py,
    _update_from_compute_node.
    """
    if row.free_disk_gb is None:
        values = {name: UNREPORTED.get(kind) for name, kind in KINDS.items()}
        names = {'host': row.host, 'nodename': row.hypervisor_hostname}
        return {**values, **names, 'stats': {}}
    stats = _parsed_stats(row.stats)
    if stats is None:
        LOG.warning('Ignoring the stats of %s: not a JSON object', row.host)
        stats = {}
    return {
        'host': row.host,
        'nodename': row.hypervisor_hostname,
        'uuid': row.uuid,
        'total_usable_ram_mb': row.memory_mb,
        'free_ram_mb': row.free_ram_mb or 0,
        'total_usable_disk_gb': row.local_gb,
        'disk_mb_used': row.local_gb_used * 1024,
        'free_disk_mb': _free_disk_gb(row, row.free_disk_gb) * 1024,
        'vcpus_total': row.vcpus,
        'vcpus_used': row.vcpus_used,
        'num_instances': _counter(row, stats, 'num_instances'),
        'num_io_ops': _counter(row, stats, 'io_workload'),
        'failed_builds': _counter(row, stats, 'failed_builds'),
        'cpu_allocation_ratio': row.cpu_allocation_ratio or ratios.cpu,
        'ram_allocation_ratio': row.ram_allocation_ratio or ratios.ram,
        'disk_allocation_ratio': row.disk_allocation_ratio or ratios.disk,
        'hypervisor_type': row.hypervisor_type,
        'hypervisor_version': row.hypervisor_version,
        'hypervisor_hostname': row.hypervisor_hostname,
        'host_ip': _address(row.host_ip),
        'cpu_info': row.cpu_info,
        'supported_instances': row.supported_instances,
        'numa_topology': row.numa_topology or None,
        'pci_stats': row.pci_stats,
        'metrics': row.metrics,
        'stats': stats,
        'updated': aware(row.updated_at),
    }


def _free_disk_gb(row: ComputeNodeRow, free: int) -> int:
    least = row.disk_available_least
    if least is not None and least > free:
        LOG.warning(
            'Host %s has more disk space than database expected (%s GB > %s GB)',
            row.hypervisor_hostname,
            least,
            free,
        )
    return free if least is None else min(least, free)


@functools.lru_cache(maxsize=4096)
def _parsed_stats(text: str | None) -> Mapping[str, str | None] | None:
    """Parse the JSON text once for all hosts that report it; None if no object."""
    try:
        stats = parse_json(text or '{}') or {}
    except ValueError:
        return None
    if not isinstance(stats, dict):
        return None
    return {
        shared(key): None if value is None else shared(str(value))
        for key, value in stats.items()
    }


def _counter(row: ComputeNodeRow, stats: Mapping[str, str | None], name: str) -> int:
    try:
        count = int(stats.get(name) or 0)
        if abs(count) <= LARGEST_COUNT:
            return count
    except ValueError:
        pass
    LOG.warning('Ignoring %s of %s: %s is no number', name, row.host, stats[name])
    return 0


@functools.lru_cache(maxsize=65536)
def _address(text: str | None) -> Any:
    try:
        return ipaddress.ip_address(text) if text else None
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def supported_instances(text: str | None) -> list[list[str]]:
    """Parse the JSON text once; entries are [architecture, hypervisor, vm mode].

    Null and nonsense are empty; an entry that is unknown is left out.
    """
    try:
        entries = parse_json(text or '[]')
    except (TypeError, ValueError):
        entries = None
    if not isinstance(entries, list):
        LOG.warning('Ignoring supported_instances, not a JSON list: %.200s', text)
        return []
    found = []
    for entry in entries:
        try:
            architecture, hypervisor_type, vm_mode = entry
            names = [
                machine.ARCHITECTURE.coerce(None, 'architecture', architecture),
                machine.HYPERVISOR_TYPE.coerce(
                    None, 'hypervisor_type', hypervisor_type
                ),
                machine.VM_MODE.coerce(None, 'vm_mode', vm_mode),
            ]
        except (ValueError, TypeError):
            LOG.warning('Ignoring an entry of supported_instances: %.200r', entry)
        else:
            found.append(names)
    return found


@dataclass(eq=False)
class Encoder:
    """Numbers the distinct values of a column; a number never changes meaning.

    ``values`` is appended to, and replaced when values are renumbered.
    """

    parse: Callable[[Any], Any] = lambda value: value
    values: list[Any] = field(default_factory=list)
    _codes: dict[Hashable, int] = field(default_factory=dict)

    def code(self, value: Hashable) -> int:
        """Return the number of a value; a new one is parsed, and given the next."""
        code = self._codes.get(value)
        if code is None:
            parsed = self.parse(value)
            code = self._codes[value] = len(self.values)
            self.values.append(parsed)
        return code

    def compacted(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Forget the values that no host has; return the hosts' new numbers."""
        used, renumbered = np.unique(codes, return_inverse=True)
        number = {int(old): new for new, old in enumerate(used)}
        self.values = [self.values[old] for old in used]
        self._codes = {
            value: number[old] for value, old in self._codes.items() if old in number
        }
        return renumbered.astype(np.intp)


def _complain(column: str, text: str, problem: str) -> None:
    LOG.warning('Ignoring %s that cannot be read: %s: %.200r', column, problem, text)


class HostColumns:
    """The columns of all hosts, and the place of each host in them.

    ``members`` grows when a place may hold another host than before, or a host may
    belong to another service. ``by_uuid`` gives the place of each node,
    ``duplicate_uuids`` all places of a shared uuid. ``keys`` are the hosts by place;
    ``uuids`` is another object once a uuid changes.
    """

    def __init__(self) -> None:
        self._position: dict[NodeKey, int] = {}
        kinds = {'cell_uuid': str, **KINDS}
        self._arrays = {name: np.empty(0, DTYPES[kind]) for name, kind in kinds.items()}
        self._encoders = {name: Encoder() for name in CATEGORIES}
        self._encoders['supported_instances'] = Encoder(supported_instances)
        for name, read in (('numa_topology', host_topology), ('pci_stats', HostPools)):
            complain = functools.partial(_complain, name)
            parse: Callable[[Any], Any] = functools.partial(read, complain=complain)
            self._encoders[name] = Encoder(parse)
        self.members = 0
        self.keys: list[NodeKey] = []
        self.by_uuid: dict[str, int] = {}
        self.uuids = self.by_uuid.keys()
        self.duplicate_uuids: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._position)

    def apply(
        self, changed: Mapping[NodeKey, dict[str, Any]], gone: Iterable[NodeKey] = ()
    ) -> None:
        """Put in new or changed hosts and take out those that are gone.

        It costs the changed rows, and one copy of each changed column; other columns
        stay the same objects. If a value does not fit into its column, nothing changes.
        """
        going = self._position.keys() & set(gone)
        coming = [key for key in changed if key not in self._position]
        position, arrays = self._without(going)
        if coming:
            position = {key: at for at, key in enumerate([*position, *coming])}
            arrays = {
                name: np.concatenate([array, np.empty(len(coming), array.dtype)])
                for name, array in arrays.items()
            }
        renamed = self._write(changed, position, arrays)
        self._position, self._arrays = position, arrays
        self._compact()
        moved = bool(going or coming)
        if moved:
            self.keys = list(position)
        if moved or 'host' in renamed:
            self.members += 1
        if moved or 'uuid' in renamed:
            self._index()

    def _without(
        self, going: set[NodeKey]
    ) -> tuple[dict[NodeKey, int], dict[str, NDArray[Any]]]:
        """Return the places and the columns, less some hosts; new ones if any go."""
        if not going:
            return self._position, dict(self._arrays)
        stay = [key for key in self._position if key not in going]
        places = np.array([self._position[key] for key in stay], np.intp)
        return (
            {key: place for place, key in enumerate(stay)},
            {name: array[places] for name, array in self._arrays.items()},
        )

    def _write(
        self,
        changed: Mapping[NodeKey, dict[str, Any]],
        position: Mapping[NodeKey, int],
        arrays: dict[str, NDArray[Any]],
    ) -> set[str]:
        """Write the changed hosts into copies of the columns in use. Return which of
        ``host`` and ``uuid`` changed."""
        names = {
            name
            for name in ('host', 'uuid')
            if any(arrays[name][position[k]] != v[name] for k, v in changed.items())
        }
        places = list(map(position.__getitem__, changed))
        for name, array in list(arrays.items()):
            values = (
                [cell_uuid for cell_uuid, _ in changed]
                if name == 'cell_uuid'
                else [host[name] for host in changed.values()]
            )
            if name in self._encoders:
                values = list(map(self._encoders[name].code, values))
            if array is self._arrays[name]:
                if array[places].tolist() == values:
                    continue
                array = arrays[name] = array.copy()
            array[places] = values
        return names

    def _compact(self) -> None:
        limit = len(self) + len(self) // 4 + 64
        for name, encoder in self._encoders.items():
            if len(encoder.values) > limit:
                self._arrays[name] = encoder.compacted(self._arrays[name])

    def _index(self) -> None:
        uuids = self._arrays['uuid'].tolist()
        found = {uuid: place for place, uuid in enumerate(uuids) if uuid}
        self.duplicate_uuids = {}
        if len(found) + uuids.count(None) < len(uuids):
            for place, uuid in enumerate(uuids):
                if uuid and (uuid in self.duplicate_uuids or found[uuid] != place):
                    self.duplicate_uuids.setdefault(uuid, []).append(place)
        self.by_uuid, self.uuids = found, found.keys()

    def places(self, keys: Iterable[NodeKey]) -> list[int]:
        """Return the places of the hosts that there are."""
        return [self._position[key] for key in keys if key in self._position]

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, as scheduler.hosts declares them."""
        return {
            name: Categories(self._encoders[name].values, array)
            if name in CATEGORIES
            else array
            for name, array in self._arrays.items()
        }
