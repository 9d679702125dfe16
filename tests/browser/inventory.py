# SPDX-License-Identifier: Apache-2.0
"""Hosts of clouds of any size, and the servers that they have: values only.

A host has two NUMA nodes. One in four has CPUs to be pinned and pages of 1 GiB, one in
eight has devices; some are disabled or down. How full they are differs.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from novasched.inspection.session.catalogue import flavor_of
from novasched.objects.flavor import Flavor
from novasched.scheduler.fit.topology import HostCell, Pages
from novasched_lab.host_inventory import Devices, SimulatedHost, numa_cells_of

GIB_KB = 1048576
VCPUS, MEMORY_MB, DISK_GB, RATIO = 32, 131072, 2000, 4.0
DEDICATED = frozenset([*range(4, 16), *range(20, 32)])
"""CPUs to be pinned: of 16 on each node, all but the first four."""
PAGES = 24
"""Pages of 1 GiB on each node of a host that has any."""
GPU = Devices('10de', '20b5', count=2, numa_node=1)
DISABLED, DOWN = 'disabled', 'down'
FLAVORS = (
    'name=m1.small,vcpus=1,ram=2048,disk=20',
    'name=m1.large,vcpus=4,ram=8192,disk=80',
    'name=m1.xlarge,vcpus=8,ram=16384,disk=160',
    'name=r1.2xlarge,vcpus=8,ram=32768,disk=160',
    'name=m1.pinned.8,vcpus=8,ram=16384,disk=80,'
    'hw:cpu_policy=dedicated,hw:mem_page_size=1048576',
    'name=g1.large,vcpus=4,ram=16384,disk=80,pci_passthrough:alias=gpu:1',
)
SMALL, LARGE, XLARGE, MEMORY, PINNED, GRAPHICS = range(len(FLAVORS))


@dataclass(frozen=True)
class Shape:
    """How many there are of what; every name that an operator or a user gives ends with
    ``mark``."""

    hosts: int = 16
    cells: int = 2
    zones: int = 2
    racks: int = 4
    decisions: int = 120
    mark: str = ''


SHAPES = {
    16: Shape(),
    1000: Shape(1000, cells=3, zones=3, racks=25, decisions=150),
    10000: Shape(10000, cells=5, zones=4, racks=100, decisions=60),
}


class Pinning(NamedTuple):
    """CPUs of one NUMA node that a server has for itself."""

    node: int
    cpus: Sequence[int]


class PlacedServer(NamedTuple):
    uuid: str
    name: str
    flavor: int
    age_s: int
    pinning: Pinning | None


class FilledHost(NamedTuple):
    """A host with its servers; ``cells`` are its NUMA nodes with what is used."""

    host: SimulatedHost
    rack: str
    state: str
    servers: Sequence[PlacedServer]
    cells: tuple[HostCell, ...]


def flavors(mark: str = '') -> list[Flavor]:
    """Return the flavors of a cloud; their ids count from 1."""
    made = []
    for number, text in enumerate(FLAVORS, 1):
        flavor = flavor_of(text)
        name = f'{flavor.name}{mark}'
        made.append(flavor.replaced(id=number, name=name, flavorid=f'f{number}'))
    return made


@dataclass
class _Filling:
    """A host that is given servers, as long as there is room."""

    host: SimulatedHost
    rng: random.Random
    free_mb: int = field(init=False)
    free_vcpus: int = field(init=False)
    cells: list[HostCell] = field(init=False)
    servers: list[PlacedServer] = field(default_factory=list)

    def __post_init__(self) -> None:
        large_mb = sum(size * many for size, many in self.host.pages.items()) // 1024
        shared_mb = self.host.memory_mb - 2 * large_mb
        self.free_mb = int(shared_mb * self.rng.uniform(0.05, 0.8))
        self.free_vcpus = int((VCPUS - len(self.host.dedicated_cpus)) * RATIO)
        self.cells = list(numa_cells_of(self.host))

    def take(self, wanted: Sequence[Flavor], choice: int, mark: str) -> bool:
        """Add a server of a flavor; False: it has no room."""
        flavor, pinning = wanted[choice], None
        if choice == PINNED:
            pinning = self._pin(flavor.vcpus, flavor.memory_mb // 1024)
            if pinning is None:
                return True  # another flavor may fit
        elif flavor.memory_mb > self.free_mb or flavor.vcpus > self.free_vcpus:
            return False
        else:
            self._share(flavor)
        made = uuid.UUID(int=self.rng.getrandbits(128), version=4)
        role = self.rng.choice(['web', 'db', 'queue', 'build', 'app'])
        name = f'{role}-{self.rng.randrange(1000):03}{mark}'
        age_s = self.rng.randrange(600, 40 * 86400)
        self.servers.append(PlacedServer(str(made), name, choice, age_s, pinning))
        return True

    def _pin(self, cpus: int, pages: int) -> Pinning | None:
        for place, cell in enumerate(self.cells):
            free = sorted((cell.pcpuset or frozenset()) - cell.pinned_cpus)[:cpus]
            large = cell.mempages[-1]
            if len(free) == cpus and large.size_kb == GIB_KB and large.free >= pages:
                self.cells[place] = dataclasses.replace(
                    cell,
                    pinned_cpus=cell.pinned_cpus | frozenset(free),
                    memory_usage=cell.memory_usage + pages * 1024,
                    mempages=(
                        *cell.mempages[:-1],
                        Pages(GIB_KB, large.total, large.used + pages),
                    ),
                )
                return Pinning(cell.id, free)
        return None

    def _share(self, flavor: Flavor) -> None:
        self.free_mb -= flavor.memory_mb
        self.free_vcpus -= flavor.vcpus
        place = min(range(2), key=lambda number: self.cells[number].cpu_usage)
        cell = self.cells[place]
        self.cells[place] = dataclasses.replace(
            cell, cpu_usage=cell.cpu_usage + flavor.vcpus
        )


def hosts(shape: Shape, seed: int = 1) -> Iterator[FilledHost]:
    """Yield the hosts of a cloud; the same for the same shape."""
    rng, wanted = random.Random(seed), flavors(shape.mark)
    digits = max(3, len(str(shape.hosts)))
    for number in range(shape.hosts):
        rack = number * shape.racks // shape.hosts
        host = SimulatedHost(
            f'cmp-{number + 1:0{digits}}{shape.mark}',
            cell=f'cell{rack % shape.cells + 1}{shape.mark}',
            zone=f'az{rack % shape.zones + 1}{shape.mark}',
            vcpus=VCPUS,
            memory_mb=MEMORY_MB,
            disk_gb=DISK_GB,
            cpu_allocation_ratio=RATIO,
            numa_nodes=2,
            dedicated_cpus=DEDICATED if number % 4 == 1 else frozenset(),
            pages={GIB_KB: PAGES} if number % 4 == 1 else {},
            traits=frozenset(['HW_CPU_X86_AVX512F'] if number % 3 else []),
            devices=(GPU,) if number % 8 == 2 else (),
        )
        filling = _Filling(host, rng)
        choices = [SMALL, LARGE, LARGE, XLARGE, MEMORY]
        choices += [PINNED] * 3 if host.dedicated_cpus else []
        while filling.take(wanted, rng.choice(choices), shape.mark):
            pass
        state = {5: DISABLED, 11: DOWN}.get(number % 16 if shape.hosts < 99 else -1, '')
        if shape.hosts >= 99:
            state = rng.choices(['', DISABLED, DOWN], [96, 3, 1])[0]
        yield FilledHost(
            host,
            f'rack-{rack + 1:02}{shape.mark}',
            state,
            filling.servers,
            tuple(filling.cells),
        )
