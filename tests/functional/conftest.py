# SPDX-License-Identifier: Apache-2.0
"""A cloud in this process: SQLite, the real placement, messages in memory.

``cloud(hosts=[Host('h1'), ...])`` makes it and gives a Cloud, which composes
schedulers, asks them, and tells what is claimed.
"""

from __future__ import annotations

import contextlib
import functools
import random
import shutil
import uuid
from collections import Counter
from typing import NamedTuple

import pytest
import requests

from novasched import app
from novasched.cluster.host_picks import NUMBERS, SHAPES
from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.observability.decisions import DecisionMetrics
from novasched.observability.instrumentation import Instrumentation
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.ports import CELL0_UUID
from novasched.rpc.transport import transport_from_conf
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.local.placement import URL, EmbeddedPlacement
from novasched_lab.resource_providers import Inventory, Provider, provide
from novasched_lab.scheduler_client import SchedulerClient
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.databases import databases
from tests.support.placement.placement_user import ByAdapter
from tests.support.suite.own_logs import caplog, threads_of_others

__all__ = ['caplog', 'threads_of_others']

CELLS = ('cell1', 'cell2')
CELL_TIMEOUT_S = 5.0
"""A cell is in a file here: it is never late, however busy the machine is."""
STUFF = {'VCPU': 'vcpus', 'MEMORY_MB': 'memory_mb', 'DISK_GB': 'disk_gb'}


class Host(NamedTuple):
    """A compute host with one node; ``down``: not heard from for long."""

    name: str
    cell: str = 'cell1'
    vcpus: int = 8
    memory_mb: int = 8192
    disk_gb: int = 100
    zone: str | None = None
    disabled: bool = False
    down: bool = False
    version: int = 74
    numa_topology: str | None = None
    pci_stats: str | None = None

    @property
    def uuid(self):
        return named_uuid(f'node {self.name}')


def named_uuid(name):
    """The uuid of a thing of the cloud; the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def new_uuids(count=1):
    """Uuids of new instances."""
    return [str(uuid.uuid4()) for _ in range(count)]


class Faults(requests.adapters.BaseAdapter):
    """The way to placement, where a test can put something in between.

    ``on(method, nth, do)`` calls ``do(request, send)`` for the nth request of a
    method from now on; it returns an answer, or raises what a network raises.
    """

    def __init__(self, inner):
        super().__init__()
        self._inner = inner
        self._planned = {}
        self.seen = Counter()

    def on(self, method, nth, do):
        self._planned[method, self.seen[method] + nth] = do

    def send(self, request, **options):
        self.seen[request.method] += 1
        do = self._planned.pop((request.method, self.seen[request.method]), None)
        send = functools.partial(self._inner.send, request, **options)
        return do(request, send) if do else send()

    def close(self):
        self._inner.close()


def put_between(adapter, kind):
    """Put what a ``kind`` makes of the way to placement into it; return that."""
    http = adapter.session.session
    (url,) = [url for url in http.adapters if 'placement' in url]
    between = kind(http.adapters[url])
    http.mount(url, between)
    return between


@pytest.fixture
def adapter(tmp_path):
    """An adapter to a placement of its own, with nothing in it."""
    with EmbeddedPlacement(tmp_path / 'placement.sqlite') as adapter:
        yield adapter


class DecisionsKept(DecisionMetrics):
    """Keeps each decision in a list, too."""

    def __init__(self, recorder, kept):
        super().__init__(recorder)
        self._kept = kept

    def decided(self, recorder, decision, stages_s):
        self._kept.append(decision)
        super().decided(recorder, decision, stages_s)


class Cloud:
    """Databases and providers of some hosts, and schedulers for them.

    ``copies`` are what clouds like this have written, None if it must be written again.
    """

    def __init__(self, directory, adapter, hosts, options, stack, copies, mounted=URL):
        self.hosts = {host.name: host for host in hosts}
        self.names = {host.uuid: host.name for host in hosts}
        self.adapter = adapter
        self.placement = self.user_of_placement()
        self._directory = directory
        self.stack = stack
        self._copies = copies
        self.notifications = []
        self.decisions = []
        self.conf = self._conf(directory, options)
        self.databases = {
            name: self._database(directory, name) for name in ('api', 'cell0', *CELLS)
        }
        self.cell_uuids = {name: named_uuid(name) for name in CELLS}
        with contextlib.ExitStack() as writing:
            self._writing = {
                name: writing.enter_context(made.api.begin())
                for name, made in self.databases.items()
            }
            self._write_api()
            for host in hosts:
                self._write_host(host)
        self._writing = {}
        self._provide([self.provider(host) for host in hosts])
        self.faults = Faults(adapter.session.session.adapters[mounted])
        adapter.session.session.mount(mounted, self.faults)
        self.transport = transport_from_conf(self.conf)
        stack.callback(self.transport.cleanup)
        self.client = SchedulerClient(self.conf, self.transport)

    # -- what there is

    def url(self, name):
        """Where the API database or that of a cell is."""
        return f'sqlite:///{self._directory}/{name}'

    def _conf(self, directory, options):
        conf = make_conf()
        conf.set_override('transport_url', 'fake://')
        conf.set_override('state_path', str(directory))
        conf.set_override('connection', self.url('api'), 'api_database')
        conf.set_override('connection', self.url('cell0'), 'database')
        conf.set_override('cell_timeout', CELL_TIMEOUT_S, 'novasched')
        # Tests look at one attempt of a request; those of outages at what follows.
        conf.set_override('outage_patience', 0, 'novasched')
        for group, values in options.items():
            for name, value in values.items():
                conf.set_override(name, value, None if group == 'DEFAULT' else group)
        return conf

    def _database(self, directory, name):
        engine = engines.cell_engine(self.conf, self.url(name))
        self.stack.callback(engine.dispose)
        made = databases.Databases(engine, engine)
        self._fill(directory / name, 'the tables of nova', made.create_tables)
        return made

    def _fill(self, path, written, write):
        """Call `write`, or copy what it has written for a cloud before."""
        if self._copies is None or path is None:
            write()
        else:
            self._copies.fill(path, written, write)

    def add(self, database, table, **row):
        """Write a row; return its id."""
        if (connection := self._writing.get(database)) is None:
            return self.databases[database].add(table, row)[0]
        return databases.insert(connection, table, row)

    def _write_api(self):
        cells = {'cell0': CELL0_UUID, **self.cell_uuids}
        self._cell_ids = {
            name: self.add(
                'api',
                tables.cell_mappings,
                **databases.cell_mapping(
                    uuid=uuid, name=name, database_connection=self.url(name)
                ),
            )
            for name, uuid in cells.items()
        }
        zones = sorted({host.zone for host in self.hosts.values() if host.zone})
        for number, zone in enumerate(zones, 1):
            row = {'id': number, 'uuid': named_uuid(zone), 'name': zone}
            self.add('api', tables.aggregates, **row)
            metadata = {'key': 'availability_zone', 'value': zone}
            self.add('api', tables.aggregate_metadata, aggregate_id=number, **metadata)
            for host in self.hosts.values():
                if host.zone == zone:
                    row = {'aggregate_id': number, 'host': host.name}
                    self.add('api', tables.aggregate_hosts, **row)

    def _write_host(self, host):
        now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
        mapping = {'cell_id': self._cell_ids[host.cell], 'host': host.name}
        self.add('api', tables.host_mappings, **mapping)
        service = databases.service(
            host=host.name,
            disabled=host.disabled,
            version=host.version,
            created_at=databases.NOON.replace(year=2020) if host.down else now,
            last_seen_up=None if host.down else now,
        )
        self.add(host.cell, tables.services, **service)
        node = databases.node(
            uuid=host.uuid,
            host=host.name,
            hypervisor_hostname=host.name,
            vcpus=host.vcpus,
            vcpus_used=0,
            memory_mb=host.memory_mb,
            memory_mb_used=0,
            free_ram_mb=host.memory_mb,
            local_gb=host.disk_gb,
            local_gb_used=0,
            free_disk_gb=host.disk_gb,
            supported_instances='[["x86_64", "kvm", "hvm"]]',
            numa_topology=host.numa_topology,
            pci_stats=host.pci_stats,
            created_at=now,
            updated_at=now,
        )
        self.add(host.cell, tables.compute_nodes, **node)

    @property
    def placement_path(self):
        """The file of placement's database, None without one."""
        return self._directory / 'placement.sqlite'

    def _provide(self, providers):
        self._fill(
            self.placement_path,
            repr(providers),
            lambda: provide(self.adapter, providers),
        )

    def provider(self, host):
        return Provider(
            host.uuid,
            host.name,
            {name: Inventory(getattr(host, own)) for name, own in STUFF.items()},
            aggregates=frozenset([named_uuid(host.zone)] if host.zone else ()),
        )

    def user_of_placement(self):
        """Return what the test itself reads and writes placement by."""
        return ByAdapter(self.adapter)

    # -- what tests write to placement

    def change(self, host, what, value, version='1.36'):
        """Write what the provider of a host has; see PlacementUser.change."""
        self.placement.change(self.hosts[host].uuid, what, value, version)

    def resize(self, host, resource_class, total, **others):
        """Change how much a host has of a class."""
        self.change(host, f'inventories/{resource_class}', {'total': total, **others})

    def hold(self, consumer, **hosts):
        """Give a consumer amounts on providers, by their names."""
        by_name = {name: provider for provider, name in self.names.items()}
        amounts = {by_name[name]: amounts for name, amounts in hosts.items()}
        self.placement.hold(consumer, amounts)

    # -- schedulers

    def copied(self, store=None):
        """Compose a scheduler that has a copy of placement, which it has read: from a
        store, as a default from the database."""
        if store is None:
            store = self.placement_contents()
        scheduler = self.compose(providers=store)
        scheduler.copy.keep_up()
        self.faults.seen.clear()
        return scheduler

    def placement_contents(self, kind=DatabaseReader):
        """A reader of placement's database."""
        url = f'sqlite:///{self._directory}/placement.sqlite'
        engine = engines.cell_engine(self.conf, url)
        self.stack.callback(engine.dispose)
        return kind(Database(engine))

    def compose(self, compose=app.compose, **given):
        """Compose a scheduler or a shadow; its view is loaded, no server started."""
        api_engine = engines.api_engine(self.conf)
        self.stack.callback(api_engine.dispose)
        parts = {
            'api_engine': api_engine,
            'make_cell_engine': functools.partial(engines.cell_engine, self.conf),
            'placement': self.adapter,
            'transport': self.transport,
            'notifier': self,
            'clock': SYSTEM_CLOCK,
            'rng': random.Random(1),
            'instrumentation': self.instrumentation(),
            **given,
        }
        scheduler = compose(self.conf, app.Dependencies(**parts))
        self.stack.callback(scheduler.view.close)
        self.stack.callback(scheduler.close)
        scheduler.view.load()
        return scheduler

    def instrumentation(self, *args):
        """Instrumentation that keeps each decision here, too."""
        made = Instrumentation(*args)
        made.decision_log = DecisionsKept(made.recorder, self.decisions)
        return made

    def compose_remembering(self):
        """Compose one that counts all that it picks, as no compute reports it."""
        scheduler = self.compose()
        assumed = scheduler.manager.driver.context.assumed
        assumed.counted = (*NUMBERS, *SHAPES)
        return scheduler

    def serve(self, **given):
        """Compose a scheduler that answers the client until the test ends."""
        scheduler = self.compose(**given)
        scheduler.start()
        self.stack.callback(scheduler.stop)
        return scheduler

    def select_destinations(self, context, spec, phase):
        """Keep what the scheduler notifies."""
        self.notifications.append((phase, spec))

    def of_release(self, release):
        """Notify in the same way, whatever the release."""
        return self

    # -- asking

    def ask(self, scheduler, uuids, return_alternates=False, **values):
        """Ask a scheduler directly; return the names of the hosts per instance."""
        found = scheduler.manager.select_destinations(
            RequestContext(overwrite=False),
            self.request(**values),
            uuids,
            True,
            return_alternates,
        )
        return [[selection.service_host for selection in each] for each in found]

    def call(self, uuids, return_alternates=True, **values):
        """Ask over the wire; return the selections per instance."""
        return self.client.select_destinations(
            RequestContext(overwrite=False),
            self.request(**values),
            uuids,
            return_alternates,
        )

    @staticmethod
    def request(**values):
        """A request as a conductor sends it: every field is set."""
        return factories.request(**{'image': {}, 'is_bfv': False, **values})

    def held(self):
        """What is claimed: names of hosts by instance uuid."""
        found = {}
        for host in self.hosts.values():
            url = f'/resource_providers/{host.uuid}/allocations'
            answer = self.adapter.get(url, microversion='1.36').json()
            for consumer in answer['allocations']:
                found.setdefault(consumer, set()).add(host.name)
        return found


@pytest.fixture(scope='session')
def _fresh_placement(tmp_path_factory):
    """A database file of placement with its tables and its standard names."""
    path = tmp_path_factory.mktemp('placement') / 'fresh.sqlite'
    with EmbeddedPlacement(path) as adapter:
        adapter.get('/allocation_candidates?resources=VCPU:1', microversion='1.36')
    return path


@pytest.fixture(scope='session')
def _copies(tmp_path_factory):
    """What clouds had written when they were made; the next one like it is copied."""
    return databases.Copies(tmp_path_factory.mktemp('copies'))


@pytest.fixture
def cloud(tmp_path, _fresh_placement, _copies):
    """Make a cloud: `cloud(hosts, **{group: {option: value}})`."""
    with clouds_in(tmp_path, _fresh_placement, _copies) as make:
        yield make


@pytest.fixture(scope='module')
def module_cloud(tmp_path_factory, _fresh_placement, _copies):
    """Make a cloud that lives as long as the module, as `cloud` makes one."""
    directory = tmp_path_factory.mktemp('cloud')
    with clouds_in(directory, _fresh_placement, _copies) as make:
        yield make


@contextlib.contextmanager
def clouds_in(directory, fresh_placement, first_copies):
    """Yield what makes clouds in a directory."""
    with contextlib.ExitStack() as stack:
        path = directory / 'placement.sqlite'
        shutil.copy(fresh_placement, path)
        adapter = stack.enter_context(EmbeddedPlacement(path))
        made = []

        def make(hosts, **options):
            # What is made of copies must be the first to write to its files.
            copies = None if made else first_copies
            made.append(Cloud(directory, adapter, hosts, options, stack, copies))
            return made[-1]

        yield make
