# SPDX-License-Identifier: Apache-2.0
"""Recorded history as a workload: its first hosts, its requests, ends of its instances.

Hosts, services and providers stay as they were at the first request, but for what
instances take. What else is not modelled is counted, see NOT_MODELLED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import os_traits

from novasched import errors
from novasched.history import reading
from novasched.history.reading import EndedInstance, ProviderChange, RecordedRequest
from novasched.objects.network import NetworkRequestList
from novasched.objects.request_spec import RequestSpec
from novasched.policy_lab.cloud import LabCloud, Placed
from novasched.policy_lab.placing import plain_amounts
from novasched.policy_lab.results import HostGroup
from novasched.policy_lab.simulation import Resident, Workload
from novasched.policy_lab.trace import Batch, Trace, TraceFlavor
from novasched.providers.contents import Contents, build
from novasched.providers.table import ProviderTable
from novasched.scheduler.hosts import HostTable

PORTS = 'requests with ports: what these ask for is left out'
NUMA = 'requests with NUMA topology: NUMA cells of hosts stay as they were'
DEVICES = 'requests for PCI devices: devices of hosts stay as they were'
GROUPS = 'requests of server groups: members are on the hosts where they were'
MOVES = 'moves: the host that is left is the recorded one'
REBUILDS = 'rebuilds and requests without instances: left out'
ENDS = 'ends of instances of unknown flavor: they stay'
PROVIDERS = 'hosts without recorded providers: their rows stand for inventories'
EARLY = 'requests before the first decision: the hosts are not known then'
NOT_MODELLED = (EARLY, PORTS, NUMA, DEVICES, GROUPS, MOVES, REBUILDS, ENDS, PROVIDERS)

Providers = dict[str, Mapping[str, Any]]


def is_history(path: Path) -> bool:
    """Return whether something was recorded there."""
    return path.is_file() or bool(reading.files_of(path))


def workload(path: Path) -> Workload:
    """Read a history. Raises errors.OptionError."""
    try:
        return _Reader(path).workload()
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise errors.OptionError(
            str(path), f'no history: {problem}', 'Give what history_dir has'
        ) from problem


class _Reader:
    """Reads a history once for its first state, and once for what happens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unmodelled: Counter[str] = Counter()
        self._flavors: dict[TraceFlavor, int] = {}
        self._by_id: dict[int, RequestSpec] = {}  # requests by id of the flavor
        self._requests: list[RequestSpec] = []  # by flavor
        self._batches: list[tuple[float, int, list[float | None], RequestSpec]] = []
        self._starts: dict[str, list[tuple[int, int]]] = {}
        self._ended: list[EndedInstance] = []

    def workload(self) -> Workload:
        items = reading.read(self._path)
        requests = (item for item in items if isinstance(item, RecordedRequest))
        first = next((item for item in requests if len(item.state)), None)
        if first is None:
            raise ValueError('it has no hosts')
        hosts, start_s = first.state.hosts(), first.at
        providers: Providers = {}
        providers_s = start_s
        known: dict[str, int | None] = {
            uuid: each.instance_type_id
            for instances in hosts.instances
            for uuid, each in instances.items()
        }
        last_s = start_s
        for item in reading.read(self._path):
            last_s = max(last_s, item.at)
            if isinstance(item, RecordedRequest):
                self._request(item, start_s)
            elif isinstance(item, ProviderChange) and not self._batches:
                providers_s = min(providers_s, item.at)
                providers |= {u: p for u, p in item.providers.items() if p is not None}
            elif isinstance(item, reading.StartedInstance):
                known.setdefault(item.uuid, item.flavor)
            elif isinstance(item, EndedInstance):
                self._end(item)
        cloud = LabCloud(_without_builds(hosts).snapshot, self._table(hosts, providers))
        residents = list(self._residents(cloud, known, start_s, providers_s))
        trace = Trace(
            title=f'{self._path}',
            hosts=_groups(cloud),
            flavors=list(self._flavors),
            until_s=last_s - start_s,
            parts=[1],
            unmodelled=dict(self._unmodelled),
        )
        batches = [
            Batch(at - start_s, flavor, lives, spec)
            for at, flavor, lives, spec in self._batches
        ]
        return Workload(
            trace,
            1,
            sorted(batches, key=lambda batch: batch.at_s),
            cloud,
            is_plain=False,
            requests=self._requests,
            residents=residents,
            profile=first.profile,
        )

    def _request(self, item: RecordedRequest, start_s: float) -> None:
        """Take in a request, as far as it can be asked again."""
        if item.at < start_s:
            self._unmodelled[EARLY] += 1
            return
        spec = RequestSpec.obj_from_primitive(item.spec)
        if spec.is_rebuild or not item.instance_uuids:
            self._unmodelled[REBUILDS] += 1
            return
        flags = {
            PORTS: bool(spec.if_set('requested_networks')),
            NUMA: spec.if_set('numa_topology') is not None,
            DEVICES: bool(spec.pci_requests and spec.pci_requests.requests),
            GROUPS: spec.if_set('instance_group') is not None,
            MOVES: spec.is_move,
        }
        self._unmodelled.update(name for name, is_so in flags.items() if is_so)
        if flags[PORTS]:
            spec = spec.replaced(requested_networks=NetworkRequestList(objects=[]))
        number = len(self._batches)
        for place, uuid in enumerate(item.instance_uuids):
            self._starts.setdefault(uuid, []).append((number, place))
        lives: list[float | None] = [None] * len(item.instance_uuids)
        self._batches.append((item.at, self._flavor(spec), lives, spec))

    def _flavor(self, spec: RequestSpec) -> int:
        disk_gb = spec.root_gb + spec.ephemeral_gb
        name = spec.flavor.if_set('name') or spec.flavor.if_set('flavorid') or '?'
        flavor = TraceFlavor(name, spec.vcpus, spec.memory_mb, disk_gb)
        if 'id' in spec.flavor:
            self._by_id.setdefault(spec.flavor.id, spec)
        if flavor not in self._flavors:
            self._flavors[flavor] = len(self._flavors)
            none = ('instance_group', 'requested_destination', 'ignore_hosts')
            forced = ('force_hosts', 'force_nodes')
            self._requests.append(spec.replaced(**dict.fromkeys((*none, *forced))))
        return self._flavors[flavor]

    def _end(self, item: EndedInstance) -> None:
        """End the oldest stay of an instance; workers tell of one end each."""
        same = (item.uuid, item.host)
        if any((each.uuid, each.host) == same for each in self._ended[-100:]):
            return
        self._ended.append(item)
        starts = self._starts.get(item.uuid)
        if starts:
            number, place = starts.pop(0)
            at_s, _, lives, _ = self._batches[number]
            lives[place] = max(0.0, item.at - at_s)
            self._ended.pop()

    def _residents(
        self,
        cloud: LabCloud,
        known: Mapping[str, int | None],
        start_s: float,
        providers_s: float,
    ) -> Iterator[Resident]:
        """Yield the ends of instances that ran before the history. Those that ended
        before the first state of hosts may still be in that of the providers."""
        names = cloud.snapshot().column('host').tolist()
        rows = {host: row for row, host in enumerate(names)}
        for ended in self._ended:
            if ended.at <= providers_s:
                continue
            spec = self._by_id.get(known.get(ended.uuid) or -1)
            row = rows.get(ended.host)
            if spec is None or row is None:
                self._unmodelled[ENDS] += 1
                continue
            amounts = cloud.amounts_on(row, plain_amounts(spec))
            takes = cloud.takes(spec) if ended.at > start_s else ()
            placed = Placed(row, takes, amounts)
            yield Resident(ended.at - start_s, self._flavor(spec), placed)

    def _table(self, hosts: HostTable, providers: Providers) -> ProviderTable:
        """Return the recorded providers; of hosts without one, what their rows say."""
        missing = [row for row, uuid in enumerate(hosts.uuid) if uuid not in providers]
        if missing:
            self._unmodelled[PROVIDERS] = len(missing)
        for row in missing:
            providers[hosts.uuid[row]] = _provider(hosts, row)
        return build(contents_of(providers))


def _without_builds(hosts: HostTable) -> HostTable:
    """Return the hosts as if all builds had ended: nothing is known of these."""
    return hosts.with_columns(num_io_ops=np.zeros(len(hosts), np.int64))


def _provider(hosts: HostTable, row: int) -> Mapping[str, Any]:
    """Return the inventories of a host by its row."""
    total_mb, disk_gb = hosts.total_usable_ram_mb[row], hosts.total_usable_disk_gb[row]
    found = {
        'VCPU': (
            hosts.vcpus_total[row] * hosts.cpu_allocation_ratio[row],
            hosts.vcpus_used[row],
        ),
        'MEMORY_MB': (
            total_mb * hosts.ram_allocation_ratio[row],
            total_mb - hosts.free_ram_mb[row],
        ),
        'DISK_GB': (
            disk_gb * hosts.disk_allocation_ratio[row],
            disk_gb - hosts.free_disk_mb[row] // 1024,
        ),
    }
    return {
        'parent': None,
        'inventories': {
            name: {
                'capacity': int(np.nan_to_num(capacity)),
                'min_unit': 1,
                'max_unit': int(np.nan_to_num(capacity)),
                'step_size': 1,
                'used': int(used),
            }
            for name, (capacity, used) in found.items()
            if capacity > 0
        },
        'traits': [os_traits.OWNER_NOVA],
        'aggregates': [],
    }


def contents_of(providers: Providers) -> Contents:
    """Return recorded providers as rows of placement's tables."""
    ids = {uuid: number for number, uuid in enumerate(providers, 1)}

    def root_of(uuid: str) -> str:
        while (parent := providers[uuid]['parent']) in ids:
            uuid = parent
        return uuid

    def numbered(field: str, *more: str) -> dict[str, int]:
        names = dict.fromkeys(more)
        for each in providers.values():
            names.update(dict.fromkeys(each[field]))
        return {name: number for number, name in enumerate(names, 1)}

    def rows(field: str, numbers: Mapping[str, int]) -> list[tuple[int, int]]:
        return [
            (ids[uuid], numbers[name])
            for uuid, each in providers.items()
            for name in each[field]
        ]

    classes = numbered('inventories')
    traits = numbered('traits', os_traits.COMPUTE_STATUS_DISABLED, os_traits.OWNER_NOVA)
    aggregates = numbered('aggregates')
    inventories = [
        (ids[uuid], classes[name], limits)
        for uuid, each in providers.items()
        for name, limits in each['inventories'].items()
    ]
    return Contents(
        providers=_table_of(
            [
                (ids[uuid], 0, ids[root_of(uuid)], ids.get(each['parent'], 0))
                for uuid, each in providers.items()
            ],
            4,
        ),
        inventories=np.array(
            [
                (
                    provider,
                    number,
                    limits['capacity'],
                    0,
                    limits['min_unit'],
                    limits['max_unit'],
                    limits['step_size'],
                    1.0,
                    1.0,
                )
                for provider, number, limits in inventories
            ],
            np.float64,
        ).reshape(-1, 9),
        usage=_table_of([(p, n, limits['used']) for p, n, limits in inventories], 3),
        traits=_table_of(rows('traits', traits), 2),
        aggregates=_table_of(rows('aggregates', aggregates), 2),
        uuids={number: uuid for uuid, number in ids.items()},
        class_names={number: name for name, number in classes.items()},
        trait_names={number: name for name, number in traits.items()},
        aggregate_uuids={number: uuid for uuid, number in aggregates.items()},
    )


def _table_of(rows: list[tuple[int, ...]] | list[tuple[int, int]], width: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, width)


def _groups(cloud: LabCloud) -> list[HostGroup]:
    """Return the hosts by what they have."""
    load = cloud.load()
    sizes = Counter(zip(load.vcpus.tolist(), load.ram_mb.tolist(), strict=True))
    return [HostGroup(n, vcpus, ram_mb) for (vcpus, ram_mb), n in sizes.items()]
