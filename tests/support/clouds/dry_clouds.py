# SPDX-License-Identifier: Apache-2.0
"""Clouds in memory that dry runs read: hosts, what placement says of them, options."""

import contextlib
import functools
import json
import random
from dataclasses import dataclass, field, replace
from uuid import UUID

import sqlalchemy as sa

from novasched import app
from novasched.external.silent import SilentNotifier
from novasched.inspection.questions.capacity import Capacity
from novasched.inspection.session import dry_run
from novasched.inspection.session.copy_on_demand import CopiedPlacement
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.requests import RequestMaker
from novasched.placement_copy import PlacementCopy
from tests.support.clouds import recorded_worlds
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.databases import fake_databases
from tests.support.databases.fake_databases import (
    FakeApiStore,
    FakeCellStore,
    FakeCellStores,
)

CELLS = ('c1', 'c2')
ALIAS = '{"name": "nic", "vendor_id": "8086", "product_id": "1520"}'
DISABLED = 'COMPUTE_STATUS_DISABLED'
NAMES = ('CUSTOM_GOLD', DISABLED, 'OWNER_NOVA')
CLASSES = ('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB', 'CUSTOM_PCI_8086_1520')
LONG_AGO = fake_databases.NOON.replace(year=2020)


def inventory(total, reserved=0, ratio=1.0):
    return [total, reserved, 1, 2**31 - 1, 1, ratio]


@dataclass(frozen=True)
class Child:
    """A provider under that of a node: ``uuid`` is known to its pool of devices."""

    uuid: str
    inventories: dict
    used: dict = field(default_factory=dict)
    traits: tuple = ('OWNER_NOVA',)


@dataclass(frozen=True)
class Node:
    """A compute node: all that its row and its provider have."""

    host: str = 'h1'
    cell: str = 'c1'
    row: dict = field(default_factory=dict)
    inventories: dict = field(default_factory=dict)
    used: dict = field(default_factory=dict)
    traits: tuple = ()
    aggregates: tuple = ()
    children: tuple = ()
    disabled: bool = False
    is_down: bool = False


def node(host='h1', vcpus=8, memory_mb=8192, disk_gb=100, **given):
    """A node with nothing on it, unless its row and what is used of it are given."""
    stocks = {'VCPU': vcpus, 'MEMORY_MB': memory_mb, 'DISK_GB': disk_gb}
    stocks = {name: inventory(total) for name, total in stocks.items() if total}
    row = {
        'vcpus': vcpus,
        'vcpus_used': 0,
        'memory_mb': memory_mb,
        'memory_mb_used': 0,
        'free_ram_mb': memory_mb,
        'local_gb': disk_gb,
        'local_gb_used': 0,
        'free_disk_gb': disk_gb,
        'cpu_allocation_ratio': 1.0,
        'ram_allocation_ratio': 1.0,
        'supported_instances': '[["x86_64", "kvm", "hvm"]]',
    }
    made = {'inventories': stocks, **given}
    return Node(host, **{**made, 'row': row | dict(given.get('row', {}))})


def stats(io_ops):
    return json.dumps({'io_workload': str(io_ops)})


@functools.cache
def conf_of(options):
    """Return the configuration of options by group, as JSON."""
    return make_conf(database={'connection': 'sqlite://'}, **json.loads(options))


class GroupStore(FakeApiStore):
    """The API database, with server groups."""

    def __init__(self, cells, aggregates, groups):
        super().__init__(cells, aggregates)
        self._groups = groups

    def group_members(self, uuid):
        return list(self._groups[uuid].members) if uuid in self._groups else []


@dataclass(frozen=True)
class DryCloud:
    """Nodes, aggregates (see ``aggregate()``) and options by group; ``groups`` are
    server groups by uuid, ``servers`` the hosts of instances by uuid."""

    nodes: tuple
    aggregates: tuple = ()
    options: dict = field(default_factory=dict)
    groups: dict = field(default_factory=dict)
    servers: dict = field(default_factory=dict)

    @property
    def hosts(self):
        """The names of all hosts, each once."""
        return list(dict.fromkeys(each.host for each in self.nodes))

    @property
    def filters(self):
        return self.options['filter_scheduler']['enabled_filters']

    def all_disabled_but(self, host):
        """Return the cloud in which all other hosts are disabled."""
        nodes = [
            each if each.host == host else replace(each, disabled=True)
            for each in self.nodes
        ]
        return replace(self, nodes=tuple(nodes))

    def uuid(self, place):
        return str(UUID(int=place + 1))

    def contents(self):
        """Return what placement says: the tree of each node, one after the other."""
        providers, consumers = [], []
        for place, each in enumerate(self.nodes):
            root, traits = len(providers), {*each.traits, 'OWNER_NOVA'}
            if each.disabled:
                traits.add(DISABLED)
            made = {'uuid': self.uuid(place), 'parent': None}
            member_of = [
                aggregate.uuid
                for aggregate in self.aggregates
                if each.host in aggregate.hosts
            ]
            made |= {'inventories': each.inventories, 'traits': sorted(traits)}
            providers.append(made | {'aggregates': member_of})
            consumers.append({root: each.used})
            for child in each.children:
                consumers.append({len(providers): child.used})
                made = {'uuid': child.uuid, 'parent': root, 'aggregates': []}
                made |= {'inventories': child.inventories}
                providers.append(made | {'traits': list(child.traits)})
        world = {'providers': providers, 'consumers': consumers}
        return recorded_worlds.contents(world, NAMES, CLASSES)

    def stores(self):
        """Return the databases of the cells, by uuid."""
        stores = {cell: FakeCellStore() for cell in CELLS}
        for place, each in enumerate(self.nodes):
            names = {'host': each.host, 'hypervisor_hostname': f'{each.host}-{place}'}
            stores[each.cell].put(
                fake_databases.node(
                    place + 1, **names, uuid=self.uuid(place), **each.row
                )
            )
            state = {'disabled': each.disabled}
            if each.is_down:
                state['last_seen_up'] = LONG_AGO
            service = fake_databases.service(each.host, **state)
            stores[each.cell].services[each.host] = service
        cell_of = {each.host: each.cell for each in self.nodes}
        for uuid, host in self.servers.items():
            store = stores[cell_of[host]]
            store.instances.append(fake_databases.instance(uuid, host))
        return FakeCellStores(**stores)

    def api(self):
        cells = [fake_databases.cell(uuid) for uuid in CELLS]
        return GroupStore(cells, self.aggregates, self.groups)

    @contextlib.contextmanager
    def opened(self, seed=1):
        """Read the cloud as commands do."""
        conf, engine = conf_of(json.dumps(self.options)), sa.create_engine('sqlite://')
        copy = PlacementCopy.of(self.contents(), 0.0)
        sources = app.Sources(
            api_engine=engine,
            make_cell_engine=lambda url: engine,
            placement=None,
            notifier=SilentNotifier(),
            clock=FakeClock(),
            rng=random.Random(seed),
        )
        wrappers = app.Wrappers(
            api=lambda inner: self.api(),
            cells=lambda inner: self.stores(),
            placement=lambda inner: CopiedPlacement(
                inner, lambda aggregates: copy, as_it_is=True
            ),
        )
        with dry_run.opened(conf, sources, seed=seed, wrappers=wrappers) as run:
            maker = RequestMaker(self, self, PciAliases.from_conf(conf))
            yield Opened(run, maker, Capacity(run.reader, lambda aggregates: copy))

    # -- as RequestMaker asks for them

    def server_group(self, name, project_id):
        return self.groups.get(name)

    def hosts_of(self, uuids, cell=None):
        return {self.servers[uuid] for uuid in uuids if uuid in self.servers}


@dataclass(frozen=True)
class Opened:
    """A cloud that is read, what makes requests to it and what counts its capacity."""

    run: dry_run.DryRun
    maker: RequestMaker
    capacity: Capacity
