# SPDX-License-Identifier: Apache-2.0
"""Databases in memory, in the place of the ports; rows by default."""

import contextlib
import datetime
import zlib
from uuid import NAMESPACE_DNS, UUID, uuid5

from novasched import errors
from novasched.ports import (
    CELL0_UUID,
    AggregatesMark,
    Cell,
    CellNews,
    ComputeNodeRow,
    ImageRow,
    InstanceRow,
    NodeNews,
    ServiceNews,
    ServiceRow,
)
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds.fakes import NOON, SECOND, FakeClock

CELL0 = Cell(CELL0_UUID, 'cell0', 'none:///', 'sqlite://zero', False)


class FakeCellStore:
    """The database of one cell.

    ``on_call`` gets the name of each call before it is answered, and
    ``on_answer`` after its rows were read; both may block or raise. More ids than
    ``longest_list`` are not listed as new.
    """

    def __init__(self):
        self.nodes = {}
        self.services = {}
        self.deleted_services = []
        self.instances = []
        self.images = []
        self.sources = {}
        self.calls = []
        self.since = []
        self.told = []
        self.longest_list = 100
        self.on_call = lambda name: None
        self.on_answer = lambda name: None
        self.clock = FakeClock()
        self.ahead = datetime.timedelta()

    def fail(self, problem='refused'):
        def refuse(name):
            raise errors.StoreFailed('a cell', problem)

        self.on_call = refuse

    def mend(self):
        self.on_call = self.on_answer = lambda name: None

    def put(self, row):
        self.nodes[row.id] = row

    def add_host(self, id_, **fields):
        row = node(id_, **fields)
        self.put(row)
        if row.host is not None:
            self.services[row.host] = service(row.host)
        return row

    def change(self, id_, at, **fields):
        self.put(self.nodes[id_]._replace(updated_at=at, **fields))

    @contextlib.contextmanager
    def together(self):
        yield self

    def delete_service(self, host, at):
        self.deleted_services.append((self.services.pop(host).id, at))

    def soft_delete(self, id_, at):
        self.put(self.nodes[id_]._replace(deleted=id_, deleted_at=at))

    def _answer(self, name, rows):
        self.calls.append(name)
        self.on_call(name)
        found = rows()
        self.on_answer(name)
        return found

    def compute_nodes(self):
        return self._answer('compute_nodes', self._nodes)

    def _nodes(self):
        live = [row for row in self.nodes.values() if row.deleted == 0]
        return sorted(map(marked, live), key=lambda row: row.id)

    def news(self, since, wide, known_id, oldest, newest):
        self.since.append(since)

        def told(row):
            seen = row.last_seen_up or row.created_at
            in_time = is_time(seen) and oldest <= seen <= newest
            told_from = wide if row.id > known_id else since
            new = is_time(row.created_at) and row.created_at >= told_from
            return row.disabled or row.forced_down or not in_time or new

        def news():
            self.told = [row for row in self.services.values() if told(row)]
            gone = [id_ for id_, at in self.deleted_services if at >= wide]
            return CellNews(self._node_news(since), ServiceNews(self.told, gone))

        return self._answer('news', news)

    def _node_news(self, since):
        live = self._nodes()
        stamps = {
            row.id: (row.created_at, row.updated_at, row.deleted_at)
            for row in self.nodes.values()
        }
        ids = [id_ for id_, found in stamps.items() if is_since(since, *found)]
        checksums = {row.id: row.checksum for row in live}
        listed = {id_: checksums.get(id_, 0) for id_ in ids}
        total = sum(row.mark for row in live)
        is_whole = len(ids) <= self.longest_list
        return NodeNews(len(live), total, listed if is_whole else None)

    def compute_node_checksums(self, since):
        return self._answer(
            'compute_node_checksums',
            lambda: {
                row.id: row.checksum
                for row in self._nodes()
                if is_since(since, row.created_at, row.updated_at)
            },
        )

    def compute_node_marks(self):
        return self._answer(
            'compute_node_marks', lambda: {row.id: row.mark for row in self._nodes()}
        )

    def compute_nodes_of(self, ids):
        return self._answer(
            'compute_nodes_of',
            lambda: [marked(self.nodes[id_]) for id_ in ids if id_ in self.nodes],
        )

    def compute_checksums_now(self, ids):
        return self._answer(
            'compute_checksums_now',
            lambda: {
                row.id: (row.checksum, self.services.get(row.host))
                for row in self._nodes()
                if row.id in ids
            },
        )

    def compute_services(self):
        return self._answer('compute_services', lambda: list(self.services.values()))

    def compute_services_of(self, hosts):
        return self._answer(
            'compute_services_of',
            lambda: [row for row in self.services.values() if row.host in hosts],
        )

    def minimum_compute_version(self):
        return self._answer(
            'minimum_compute_version',
            lambda: min((row.version for row in self.services.values()), default=0),
        )

    def utcnow(self):
        return self._answer('utcnow', lambda: self.clock.utcnow() + self.ahead)

    def computes_seen_after(self, moment):
        return self._answer(
            'computes_seen_after',
            lambda: [
                row
                for row in self.services.values()
                if is_time(row.last_seen_up) and row.last_seen_up > moment
            ],
        )

    def instances_on(self, hosts):
        return self._answer('instances_on', lambda: list(self.instances))

    def images_on(self, hosts):
        return self._answer('images_on', lambda: list(self.images))

    def source_hosts(self, uuid):
        return self._answer('source_hosts', lambda: self.sources.get(uuid, []))


class FakeCellStores:
    """Gives each cell its store, by uuid, as it was opened first."""

    def __init__(self, **stores):
        self.stores = stores
        self.opened = []
        self.forgotten = []

    def open(self, cell):
        self.opened.append(cell)
        return self.stores[cell.uuid]

    def forget(self, uuids=None):
        self.forgotten.append(None if uuids is None else set(uuids))


class FakeApiStore:
    """The API database. ``on_aggregates`` is called when they have been read."""

    def __init__(self, cells=(), aggregates=()):
        self.found_cells = list(cells)
        self.found_aggregates = list(aggregates)
        self.mapped = {}
        self.on_aggregates = lambda: None
        self.mark = AggregatesMark((), None)
        self.aggregates_read = 0
        self.flavors = ()
        self.flavors_read = 0

    def cells(self):
        return list(self.found_cells)

    def host_cell(self, host):
        return self.mapped.get(host)

    def aggregates(self):
        self.aggregates_read += 1
        found = list(self.found_aggregates)
        self.on_aggregates()
        return found

    def public_flavors(self):
        self.flavors_read += 1
        return self.flavors

    def aggregates_mark(self):
        if isinstance(self.mark, Exception):
            raise self.mark
        return self.mark


def cell(uuid, **fields):
    """An enabled cell."""
    return Cell(uuid, uuid, 'rabbit://', f'sqlite://{uuid}', False)._replace(**fields)


def node(id_=1, **fields):
    """A row of compute_nodes: a host with all numbers set and no JSON."""
    row = ComputeNodeRow(
        id=id_,
        uuid=str(UUID(int=id_)),
        host=f'h{id_}',
        hypervisor_hostname=f'n{id_}',
        service_id=None,
        vcpus=8,
        vcpus_used=1,
        memory_mb=4096,
        memory_mb_used=512,
        local_gb=100,
        local_gb_used=10,
        free_ram_mb=3584,
        free_disk_gb=90,
        disk_available_least=None,
        running_vms=0,
        hypervisor_type='QEMU',
        hypervisor_version=8002002,
        host_ip='192.0.2.1',
        cpu_allocation_ratio=2.0,
        ram_allocation_ratio=1.5,
        disk_allocation_ratio=1.0,
        stats='{}',
        metrics=None,
        pci_stats=None,
        numa_topology=None,
        cpu_info='{}',
        supported_instances='[]',
        deleted=0,
        created_at=NOON - 3600 * SECOND,
        updated_at=NOON - 60 * SECOND,
        deleted_at=None,
    )
    return row._replace(**fields)


def marked(row):
    """A row with its mark: another time of its last change, or amount, is another; and
    with its checksum: any change is another."""
    stamp = row.updated_at or row.created_at
    written = (row.id, str(stamp), row.vcpus_used, row.memory_mb_used)
    whole = repr(row._replace(mark=0, checksum=0))
    return row._replace(
        mark=zlib.crc32(repr(written).encode()), checksum=zlib.crc32(whole.encode())
    )


def is_since(since, *stamps):
    """Say whether one of the stamps is not before the second of a moment."""
    moment = since.replace(microsecond=0)
    return any(stamp >= moment for stamp in filter(is_time, stamps))


def is_time(value):
    """Say whether a value is a time; a date of zeros is before all of them."""
    return isinstance(value, datetime.datetime)


def service(host='h1', **fields):
    """A row of services: a compute that is up for a long time."""
    row = ServiceRow(
        id=zlib.crc32(host.encode()),
        uuid=str(uuid5(NAMESPACE_DNS, host)),
        host=host,
        binary='nova-compute',
        topic='compute',
        report_count=5,
        disabled=False,
        disabled_reason=None,
        forced_down=False,
        last_seen_up=NOON,
        version=74,
        created_at=NOON - 3600 * SECOND,
        updated_at=NOON,
    )
    return row._replace(**fields)


def instance(uuid, host='h1'):
    return InstanceRow(uuid, host)


def image(uuid, host='h1', **properties):
    """The image of an instance: what it keeps of its properties."""
    return ImageRow(uuid, host, properties)


def aggregate(id_, *hosts, **metadata):
    """An aggregate of hosts."""
    return Aggregate(id_, f'uuid-{id_}', f'agg{id_}', frozenset(hosts), metadata)
