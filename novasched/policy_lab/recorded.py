# SPDX-License-Identifier: Apache-2.0
"""Recorded history as a workload: its first hosts, its requests, ends of its instances.

Hosts, services and providers stay as they were at the first request, but for what
instances take. A provider that was recorded later is as it was recorded first. What
else is not modelled is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from novasched import errors
from novasched.history import reading
from novasched.history.reading import (
    EndedInstance,
    Extent,
    ProviderChange,
    RecordedRequest,
)
from novasched.objects.network import NetworkRequestList
from novasched.objects.request_spec import RequestSpec
from novasched.policy_lab.cloud import LabCloud, Placed
from novasched.policy_lab.placing import plain_amounts
from novasched.policy_lab.providers import Providers, of_rows, table_of
from novasched.policy_lab.results import FleetGroup
from novasched.policy_lab.simulation import Resident, Workload
from novasched.policy_lab.trace import ServerBatch, Trace, TraceFlavor
from novasched.providers.table import ProviderTable
from novasched.scheduler.hosts import HostTable

PORTS = 'requests with ports: what these ask for is left out'
DEVICES = 'requests for PCI devices: devices of hosts stay as they were'
GROUPS = 'requests of server groups: members are on the hosts where they were'
MOVES = (
    'moves: the host that is left is the recorded one, SameHostWeigher knows no host'
)
REBUILDS = 'rebuilds and requests without instances: left out'
ENDS = 'ends of instances of unknown flavor: they stay'
STAY = 'servers of a history without ends: computes told of none, so all stay'
PROVIDERS = 'hosts without recorded providers: their rows stand for inventories'
SAME_END_S = 60.0
"""Workers tell of an end within so long of each other."""
EARLY = 'requests before the first decision: the hosts are not known then'


def workload(path: Path, until: Extent | None = None) -> Workload:
    """Read a history, by default as far as it goes now. Raises errors.OptionError."""
    try:
        found = reading.extent(path) if until is None else until
        return _WorkloadReader(path, found).workload()
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise errors.OptionError(
            str(path), f'no history: {problem}', 'Give what history_dir has'
        ) from problem


class _WorkloadReader:
    """Reads a history once for its first state, and once for what happens."""

    def __init__(self, path: Path, until: Extent) -> None:
        self._path = path
        self._until = until
        self._unmodelled: Counter[str] = Counter()
        self._flavors: dict[TraceFlavor, int] = {}
        self._by_id: dict[int, RequestSpec] = {}  # requests by id of the flavor
        self._requests: list[RequestSpec] = []  # by flavor
        self._batches: list[tuple[float, int, list[float | None], RequestSpec]] = []
        self._starts: dict[str, list[tuple[int, int]]] = {}
        self._ended: list[EndedInstance] = []
        self._last_s: dict[tuple[str, str], float] = {}  # ends by uuid and host

    def workload(self) -> Workload:
        items = reading.read(self._path, self._until)
        requests = (item for item in items if isinstance(item, RecordedRequest))
        first = next((item for item in requests if len(item.state)), None)
        if first is None:
            raise ValueError('it has no hosts')
        hosts, start_s = first.state.hosts(), first.at
        providers: dict[str, Mapping[str, Any]] = {}
        late: dict[str, Mapping[str, Any]] = {}
        providers_s = start_s
        known: dict[str, int | None] = {
            uuid: each.instance_type_id
            for instances in hosts.instances
            for uuid, each in instances.items()
        }
        last_s = start_s
        for item in reading.read(self._path, self._until):
            last_s = max(last_s, item.at)
            if isinstance(item, RecordedRequest):
                self._request(item, start_s)
            elif isinstance(item, ProviderChange):
                found = {u: p for u, p in item.providers.items() if p is not None}
                if self._batches:
                    late = found | late
                else:
                    providers_s = min(providers_s, item.at)
                    providers |= found
            elif isinstance(item, reading.StartedInstance):
                known.setdefault(item.uuid, item.flavor)
            elif isinstance(item, EndedInstance):
                self._end(item)
        by_rows = of_rows(hosts)
        late = {u: _as_used(p, by_rows.get(u)) for u, p in late.items()}
        table = self._table(by_rows, {**late, **providers})
        cloud = LabCloud(_at_rest(hosts).snapshot, table)
        residents = list(self._residents(cloud, known, start_s, providers_s))
        if not self._last_s:
            self._unmodelled[STAY] = sum(len(lives) for _, _, lives, _ in self._batches)
        trace = Trace(
            title=f'{self._path}',
            hosts=_groups(cloud),
            flavors=list(self._flavors),
            until_s=last_s - start_s,
            parts=[1],
            unmodelled=dict(self._unmodelled),
        )
        batches = [
            ServerBatch(at - start_s, flavor, lives, spec)
            for at, flavor, lives, spec in self._batches
        ]
        return Workload(
            trace,
            1,
            sorted(batches, key=lambda batch: batch.at_s),
            cloud,
            self._requests,
            is_plain=False,
            residents=residents,
            profile=first.profile,
        )

    def _request(self, item: RecordedRequest, start_s: float) -> None:
        """Take in a request, as far as it can be asked again."""
        if item.at < start_s:
            self._unmodelled[EARLY] += 1
            return
        spec = RequestSpec.obj_from_primitive(dict(item.spec))
        if spec.is_rebuild or not item.instance_uuids:
            self._unmodelled[REBUILDS] += 1
            return
        devices = spec.if_set('pci_requests')
        flags = {
            PORTS: bool(spec.if_set('requested_networks')),
            DEVICES: bool(devices and devices.requests),
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
        """End the oldest stay of an instance; each worker tells of the same end."""
        stay = item.uuid, item.host
        last_s = self._last_s.get(stay, -math.inf)
        self._last_s[stay] = item.at
        if item.at - last_s < SAME_END_S:
            return
        starts = self._starts.get(item.uuid)
        if not starts:
            self._ended.append(item)
            return
        number, place = starts.pop(0)
        at_s, _, lives, _ = self._batches[number]
        lives[place] = max(0.0, item.at - at_s)

    def _residents(
        self,
        cloud: LabCloud,
        known: Mapping[str, int | None],
        start_s: float,
        providers_s: float,
    ) -> Iterator[Resident]:
        """Yield the ends of instances that ran before the history. Those that ended
        before the first state of hosts may still be in the providers."""
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

    def _table(self, by_rows: Providers, providers: Providers) -> ProviderTable:
        """Return the recorded providers; of hosts without one, what their rows say."""
        missing = by_rows.keys() - providers.keys()
        if missing:
            self._unmodelled[PROVIDERS] = len(missing)
        more = {u: p for u, p in by_rows.items() if u in missing}
        return table_of({**providers, **more})


def _as_used(
    provider: Mapping[str, Any], by_row: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return a provider that was recorded late with the usage of the first request.

    Instances of the history had come to it since.
    """
    before = {} if by_row is None else by_row['inventories']
    inventories = {
        name: {**limits, 'used': before[name]['used'] if name in before else 0}
        for name, limits in provider['inventories'].items()
    }
    return {**provider, 'inventories': inventories}


def _at_rest(hosts: HostTable) -> HostTable:
    """Return the hosts as if all builds had ended, and as if no instance moved: the
    host of an instance is another one here."""
    count = len(hosts)
    return hosts.with_columns(
        num_io_ops=np.zeros(count, np.int64), is_source=np.zeros(count, bool)
    )


def _groups(cloud: LabCloud) -> list[FleetGroup]:
    """Return the hosts by what they have."""
    load = cloud.load()
    sizes = Counter(zip(load.vcpus.tolist(), load.ram_mb.tolist(), strict=True))
    return [FleetGroup(n, vcpus, ram_mb) for (vcpus, ram_mb), n in sizes.items()]
