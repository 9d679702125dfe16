# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the room for all flavors that an instance would take there."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.columns import PerValue, Rows
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostTopology
from novasched.scheduler.fit.requirements import guest_of
from novasched.scheduler.fit.topology import Guest
from novasched.scheduler.flavor_sizes import FlavorSize, FlavorSizes, parse_sizes
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.weighers import Weigher, multiplier_opt

MOST_SIZES = 16
"""Sizes of requests whose costs are kept: 5 MB each for 32 flavors on 10,000 hosts."""
MOST_ROOM = 1e15
"""What infinite room counts as: slots of it still have a sum."""
MOST_NODES = 8
"""NUMA nodes of a host that are counted."""
AMOUNTS = 5
"""Amounts of a node: CPUs and their usage, MiB and their usage, CPUs free to pin."""
Needs = tuple[tuple[int, int], ...]
"""CPUs and MiB of the nodes of a guest, or of the whole."""

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            'keep_room_weight_multiplier',
            0.0,
            'Weight of the room for all flavors that the instance leaves. Positive '
            'prefers the host where the instance takes the least room from the '
            'flavors of keep_room_flavors.',
        ),
        cfg.ListOpt(
            'keep_room_flavors',
            default=[],
            help='Flavors to keep room for, 32 at most, as ``vcpus:ram_mb`` or '
            '``vcpus:ram_mb=share``; the share is the weight of the flavor, 1 by '
            'default. List every flavor that is in use: others lose room. Empty: all '
            'public flavors of the API database, the 32 largest sizes at most.',
        ),
    ]
}


class KeepRoomWeigher(Weigher):
    """Prefer the host where the instance takes the least room from the flavors.

    A slot is room for one instance of a flavor, by CPUs and RAM after over-commit. The
    weight sums up the shares of all slots that the instance takes. An instance with
    NUMA nodes is weighed by the slots within each node.
    """

    option = 'keep_room_weight_multiplier'
    multiplier = 0.0
    is_optional = True
    columns = (
        'vcpus_total',
        'cpu_allocation_ratio',
        'vcpus_used',
        'total_usable_ram_mb',
        'ram_allocation_ratio',
        'free_ram_mb',
        'numa_topology',
    )
    compares = True

    def __init__(
        self,
        multiplier: float | None = None,
        flavors: Iterable[FlavorSize] = (),
        fitting: Fitting | None = None,
    ) -> None:
        super().__init__(multiplier)
        self.flavors: FlavorSizes = tuple(flavors)
        self._fitting = fitting or Fitting()
        self._nodes = PerValue[HostTopology | None](
            _amounts, np.float64, (AMOUNTS, MOST_NODES)
        )
        self._costs = functools.lru_cache(MOST_SIZES)(RoomCosts)

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Read the options. Raises errors.OptionError."""
        group = conf.filter_scheduler
        try:
            flavors = parse_sizes(group.keep_room_flavors)
        except ValueError as problem:
            raise errors.OptionError(
                '[filter_scheduler] keep_room_flavors',
                str(problem),
                'List flavors as vcpus:ram_mb or vcpus:ram_mb=share',
            ) from problem
        fitting = Fitting.from_conf(conf)
        return cls(group.keep_room_weight_multiplier, flavors, fitting)

    def needs_public_flavors(self, aggregates: Iterable[Aggregate]) -> bool:
        """Return whether decisions may need the public flavors of the API database."""
        if self.flavors:
            return False
        return bool(self.multiplier) or any(
            self.option in each.metadata for each in aggregates
        )

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        flavors = self.flavors or _public_flavors(hosts)
        if not flavors or not len(hosts):
            return np.zeros(len(hosts))
        topology = request.if_set('numa_topology')
        room = Room.of_hosts(hosts)
        if not topology:
            costs = self._costs(flavors, ((request.vcpus, request.memory_mb),), None)
            return -costs.of(hosts.rows, room)
        guest = guest_of(topology, self._fitting)
        nodes = self._nodes.of(hosts.numa_topology)
        room = _room_of_nodes(nodes, hosts, room, guest)
        return -self._costs(flavors, _needs(guest), self._fitting.pack).of(
            hosts.rows, room
        )


class RoomCosts:
    """Costs of a request for flavors, by row of the snapshot.

    Kept from request to request, and counted again for rows whose room has changed.
    """

    def __init__(self, flavors: FlavorSizes, needs: Needs, pack: bool | None) -> None:
        self._vcpus, self._memory_mb, self._shares = (
            np.array(each, np.float64)[:, np.newaxis]
            for each in zip(*flavors, strict=True)
        )
        self._needs = needs
        self._pack = pack  # see Room.less(); None: whole hosts
        self._lock = threading.Lock()
        self._seen = self._slots = self._lost = np.zeros((0, 0))

    def of(self, rows: Rows, room: Room) -> Floats:
        """Return the sum of the lost slots by share and scarcity, for hosts in rows."""
        now = np.concatenate(room)
        with self._lock:
            amounts, count = self._seen.shape
            if amounts != len(now) or count <= rows.max():
                self._seen = np.full((len(now), rows.max() + 1), np.nan)
                self._slots = np.zeros((len(self._vcpus), rows.max() + 1))
                self._lost = np.zeros_like(self._slots)
            changed = np.flatnonzero((self._seen[:, rows] != now).any(axis=0))
            if len(changed):
                self._count(rows[changed], now[:, changed])
            is_asked = np.zeros(self._slots.shape[1])
            is_asked[rows] = 1.0
            scarcity = 1 + self._slots @ is_asked
            lost: Floats = (self._lost / scarcity[:, np.newaxis]).sum(axis=0)
        return lost[rows]

    def _count(self, rows: Rows, now: Floats) -> None:
        """Count the slots of hosts in rows, which have other room now."""
        before = Room(*np.vsplit(now, 2))
        slots = self._slots_of(before)
        lost = slots - self._slots_of(before.less(self._needs, self._pack))
        self._seen[:, rows] = now
        self._slots[:, rows] = slots
        self._lost[:, rows] = self._shares * lost

    def _slots_of(self, room: Room) -> Floats:
        """Return how many instances of each flavor each host has room for."""
        slots = np.zeros((len(self._vcpus), room.cpus.shape[1]))
        for cpus, ram_mb in zip(*room, strict=True):
            by_cpus, by_ram = cpus // self._vcpus, ram_mb // self._memory_mb
            slots += np.maximum(np.minimum(by_cpus, by_ram), 0)
        return slots


class Room(NamedTuple):
    """Free CPUs and MiB; shape (places, hosts): one place, or one for each node."""

    cpus: Floats
    ram_mb: Floats

    @classmethod
    def of_hosts(cls, hosts: HostTable) -> Room:
        """Return the room of whole hosts; none if a ratio is unknown."""
        cpus = hosts.vcpus_total * hosts.cpu_allocation_ratio - hosts.vcpus_used
        more_ram = hosts.total_usable_ram_mb * (hosts.ram_allocation_ratio - 1)
        ram_mb = hosts.free_ram_mb + more_ram
        return cls(_known(cpus)[np.newaxis], _known(ram_mb)[np.newaxis])

    def less(self, needs: Needs, pack: bool | None) -> Room:
        """Return the room left after each need took a place of its own on every host.

        With ``pack`` this is the fullest place that has room, else the emptiest. If
        it is None, hosts have one place, which may lack room.
        """
        if pack is None:
            ((vcpus, memory_mb),) = needs
            return Room(self.cpus - vcpus, self.ram_mb - memory_mb)
        cpus, ram_mb = self.cpus.copy(), self.ram_mb.copy()
        is_taken, hosts = np.zeros(cpus.shape, bool), np.arange(cpus.shape[1])
        for vcpus, memory_mb in needs:
            fits = ~is_taken & (cpus >= vcpus) & (ram_mb >= memory_mb)
            if pack:
                places = np.where(fits, cpus, np.inf).argmin(axis=0)
            else:
                places = np.where(fits, cpus, -np.inf).argmax(axis=0)
            cpus[places, hosts] -= vcpus
            ram_mb[places, hosts] -= memory_mb
            is_taken[places, hosts] = True
        return Room(cpus, ram_mb)


def _amounts(topology: HostTopology | None) -> Floats:
    """Return the amounts of the nodes of a host; shape (AMOUNTS, MOST_NODES)."""
    found = np.zeros((AMOUNTS, MOST_NODES))
    cells = topology.cells[:MOST_NODES] if topology else ()
    for node, cell in enumerate(cells):
        found[:, node] = (
            len(cell.cpuset),
            cell.cpu_usage,
            cell.memory,
            cell.memory_usage,
            len(cell.free_cpus),
        )
    return found


def _room_of_nodes(nodes: Floats, hosts: HostTable, whole: Room, guest: Guest) -> Room:
    """Return the room of each node; of hosts without nodes, the room of the host.

    ``nodes`` has shape (hosts, amounts, nodes). Dedicated CPUs and the memory beside
    them are not over-committed.
    """
    has_memory = nodes[:, 2] > 0
    used = np.flatnonzero(has_memory.any(axis=0))
    count = int(used[-1]) + 1 if len(used) else 1
    cpus, cpu_usage, ram_mb, ram_usage, dedicated = nodes[:, :, :count].transpose(
        1, 2, 0
    )
    if any(cell.pins for cell in guest.cells):
        cpus, ram_mb = dedicated, ram_mb - ram_usage
    else:
        cpus = cpus * _known(hosts.cpu_allocation_ratio) - cpu_usage
        ram_mb = ram_mb * _known(hosts.ram_allocation_ratio) - ram_usage
    has_nodes = has_memory.any(axis=1)
    is_first = np.arange(count)[:, np.newaxis] == 0
    spare = Room(whole.cpus * is_first, whole.ram_mb * is_first)
    return Room(
        np.where(has_nodes, cpus, spare.cpus), np.where(has_nodes, ram_mb, spare.ram_mb)
    )


def _known(amounts: Floats) -> Floats:
    """Return finite amounts, with 0 where one is unknown."""
    return np.nan_to_num(amounts).clip(-MOST_ROOM, MOST_ROOM)


def _needs(guest: Guest) -> Needs:
    """Return CPUs and MiB of the nodes of a guest, the largest first."""
    needs = [
        (len(cell.pcpuset) if cell.pins else len(cell.cpuset), cell.memory)
        for cell in guest.cells
    ]
    return tuple(sorted(needs, reverse=True))


def _public_flavors(hosts: HostTable) -> FlavorSizes:
    if not len(hosts):
        return ()
    flavors: FlavorSizes = hosts.snapshot.column('public_flavors').item(hosts.rows[0])
    return flavors
