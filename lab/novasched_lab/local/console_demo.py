# SPDX-License-Identifier: Apache-2.0
"""A cloud for the console: the walk-through's, after a busy hour."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa
from oslo_config import cfg

from novasched import app
from novasched.app import decisions
from novasched.console import cloud
from novasched.db import engines, tables
from novasched.db.cells import UrlDefaults
from novasched.db.transactions import Database
from novasched.external.silent import SilentNotifier
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.objects.flavor import Flavor
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.ports import Placement
from novasched.providers.diagnosis import STATUS_DISABLED
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.periodic import PeriodicRunner
from novasched_lab.compute.rows import HostRows, make_aggregates
from novasched_lab.db import server_tables
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.db.cell_servers import CellServers, now
from novasched_lab.local import busy_hour, cluster
from novasched_lab.local.busy_hosts import NIC, BusyHost, providers_of
from novasched_lab.local.busy_hour import BusyHour, PlacedServer, SetClock, beating
from novasched_lab.local.databases import (
    DatabaseUrls,
    database_urls,
    made_databases,
    temporary_directory,
)
from novasched_lab.local.placement import EmbeddedPlacement
from novasched_lab.local.rival import RivalPlacement
from novasched_lab.local.walkthrough import NO_TRANSPORT, configured
from novasched_lab.local.wishes import FLAVORS, HOUR_S, wishes
from novasched_lab.resource_providers import GENERATION, VERSION, provide

REQUESTS = 240
SEED = 16
HOST = 'controller-1'
REASON = 'firmware update, back on Monday'
TRAIT = 'CUSTOM_GPU'
SERVERS_APART = datetime.timedelta(days=3, hours=7, minutes=13)
FILTERS = [
    'ComputeFilter',
    'AvailabilityZoneFilter',
    'AggregateInstanceExtraSpecsFilter',
    'ServerGroupAntiAffinityFilter',
    'NUMATopologyFilter',
    'PciPassthroughFilter',
]
WEIGHERS = [
    f'nova.scheduler.weights.{name}'
    for name in (
        'ram.RAMWeigher',
        'cpu.CPUWeigher',
        'io_ops.IoOpsWeigher',
        'pci.PCIWeigher',
        'num_instances.NumInstancesWeigher',
    )
]
ALIAS = {
    'name': 'nic',
    'vendor_id': NIC.vendor_id,
    'product_id': NIC.product_id,
    'device_type': NIC.dev_type,
}


@contextlib.contextmanager
def opened(
    requests: int = REQUESTS,
    seed: int = SEED,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[cloud.Cloud]:
    """Return a reader of a cloud that has just decided on so many requests; whatever
    was made is gone in the end. Raises errors.SetupError and errors.StoreFailed."""
    with contextlib.ExitStack() as stack:
        progress('making a cloud')
        directory = temporary_directory(stack)
        demo = DemoCloud(directory, stack)
        progress(f'deciding on {requests} requests')
        with _quiet():
            demo.live(requests, random.Random(seed))
        runner = PeriodicRunner('beat', [(busy_hour.BEAT_S, demo.beat)], [0.0])
        demo.beat()
        runner.start()
        stack.callback(runner.join, 1.0)
        stack.callback(runner.stop)
        yield stack.enter_context(cloud.opened(demo.conf, demo.sources()))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: what goes wrong in the hour is meant to, and is in the records."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class DemoCloud:
    """The cloud: its databases and placement, and what happens in it."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        walkthrough = cluster.read()
        self._stack = stack
        self._path = directory / 'placement.sqlite'
        self._urls = database_urls(None, directory)
        self.conf = _configured(self._urls, str(directory))
        self._clock = SetClock(SYSTEM_CLOCK.time() - HOUR_S)
        databases = made_databases(
            self.conf, self._urls, NO_TRANSPORT, walkthrough.cell_uuid
        )
        stack.enter_context(databases)
        self._cell_uuid = walkthrough.cell_uuid
        self._make_engine = functools.partial(engines.cell_engine, self.conf)
        self._api, self._cell = (
            self._engine(url) for url in (self._urls.api, self._urls.cell1)
        )
        self._hosts = {each.host.name: BusyHost(each) for each in walkthrough.hosts}
        self._adapter = stack.enter_context(EmbeddedPlacement(self._path))
        self._node_ids = self._fill(walkthrough)
        self._flavors = _make_flavors(self._api)

    def _engine(self, url: str) -> sa.Engine:
        engine = self._make_engine(url)
        self._stack.callback(engine.dispose)
        return engine

    def _rows(self) -> HostRows:
        return HostRows(self._cell, utcnow=self._clock.utcnow)

    def _fill(self, walkthrough: cluster.Cluster) -> dict[str, int]:
        """Write the hosts; return the ids of their nodes."""
        hosts, rows = list(self._hosts.values()), self._rows()
        usage = {name: each.usage() for name, each in self._hosts.items()}
        ids = rows.register([each.host for each in hosts], usage)
        rows.beat(self._hosts)
        defaults = UrlDefaults(self._urls.cell0, NO_TRANSPORT)
        ApiServers(self._api, defaults).map_new_hosts(self._make_engine)
        uuids = make_aggregates(self._api, walkthrough.aggregates())
        provide(self._adapter, providers_of(hosts, uuids))
        claims = {
            uuid: {
                'allocations': {each.host.uuid: {'resources': amounts}},
                'project_id': cluster.OWNER,
                'user_id': cluster.OWNER,
                'consumer_generation': None,
            }
            for each in hosts
            for uuid, amounts in each.held_before().items()
        }
        self._adapter.post('/allocations', json=claims, microversion=VERSION)
        self._adapter.put(f'/traits/{TRAIT}', microversion=VERSION)
        return ids

    def sources(self) -> app.Sources:
        """Return the sources of the console."""
        return app.Sources(
            api_engine=self._api,
            make_cell_engine=self._make_engine,
            placement=self._adapter,
            notifier=SilentNotifier(),
            clock=SYSTEM_CLOCK,
            rng=random.Random(),
        )

    def beat(self) -> None:
        """Send the heartbeats of the hosts that are well, now."""
        HostRows(self._cell).beat(beating(self._hosts, HOUR_S))

    def live(self, requests: int, rng: random.Random) -> None:
        """Let the last hour pass, with so many requests."""
        contents = DatabaseReader(Database(self._engine(f'sqlite:///{self._path}')))
        given = app.Dependencies(
            api_engine=self._api,
            make_cell_engine=self._make_engine,
            placement=self._adapter,
            transport=None,
            notifier=SilentNotifier(),
            clock=self._clock,
            rng=rng,
            providers=contents,
        )
        rivals: list[RivalPlacement] = []

        def with_rival(inner: Placement) -> Placement:
            rivals.append(RivalPlacement(inner, self._adapter))
            return rivals[0]

        decisions.prepare(self.conf)
        store = decisions.open_store(self.conf, given.instrumentation.decision_log)
        reader = app.compose_reader(
            self.conf,
            given,
            transport_url=NO_TRANSPORT,
            wrappers=app.Wrappers(placement=with_rival),
            make_log=decisions.LogMaker(self.conf, given, store),
        )
        try:
            reader.view.load()
            if reader.copy is not None:
                reader.copy.keep_up()
            hour = BusyHour(
                hosts=self._hosts,
                node_ids=self._node_ids,
                rows=self._rows(),
                adapter=self._adapter,
                clock=self._clock,
                reader=reader,
                rival=rivals[0],
                flavors=self._flavors,
                aliases=PciAliases.from_conf(self.conf),
                disable=self._disable,
            )
            hour.pass_by(wishes(requests, rng))
        finally:
            reader.decision_log.close()
            store.store.close()
            reader.view.close()
        self._keep(hour.alive)

    def _disable(self, host: str) -> None:
        """Disable a host, in its cell and in placement."""
        services = tables.services
        change = sa.update(services).where(services.c.host == host)
        change = change.values(
            disabled=True, disabled_reason=REASON, updated_at=self._clock.utcnow()
        )
        Database(self._cell).retrying(lambda connection: connection.execute(change))
        url = f'/resource_providers/{self._hosts[host].host.uuid}/traits'
        found = self._adapter.get(url, microversion=VERSION).json()
        body = {
            'traits': [*found['traits'], STATUS_DISABLED],
            GENERATION: found[GENERATION],
        }
        self._adapter.put(url, json=body, microversion=VERSION)

    def _keep(self, placed: Sequence[PlacedServer]) -> None:
        """Write the servers that there are."""
        api, cell = ApiServers(self._api), CellServers(self._cell)
        api.ask_for((each.instance, each.request) for each in placed)
        for each in placed:
            uuid = each.instance.uuid
            cell.create(each.instance)
            api.map_to_cell(uuid, self._cell_uuid)
            api.delete_build(uuid)
        for host in self._hosts.values():
            for age, instance in enumerate(reversed(host.servers_before), 1):
                since = now() - age * SERVERS_APART
                cell.create(instance.replaced(launched_at=since))


def _configured(urls: DatabaseUrls, directory: str) -> cfg.ConfigOpts:
    conf = configured(urls, 'fake:///', directory)
    for name, value, group in (
        ('host', HOST, None),
        ('enabled_filters', FILTERS, 'filter_scheduler'),
        ('weight_classes', WEIGHERS, 'filter_scheduler'),
        ('alias', [json.dumps(ALIAS)], 'pci'),
        ('sqlite_synchronous', False, 'database'),
        ('sqlite_synchronous', False, 'api_database'),
    ):
        conf.set_override(name, value, group)
    return conf


def _make_flavors(api: sa.Engine) -> Mapping[str, Flavor]:
    """Write the flavors; return them by name."""
    made = {}
    with api.begin() as connection:
        for number, (name, sizes) in enumerate(FLAVORS.items(), 1):
            vcpus, memory_mb, root_gb, extra = sizes
            row = {'id': number, 'flavorid': str(number), 'name': name}
            row |= {'vcpus': vcpus, 'memory_mb': memory_mb, 'root_gb': root_gb}
            row |= {'ephemeral_gb': 0, 'swap': 0}
            flags = {'disabled': False, 'is_public': True, 'rxtx_factor': 1.0}
            connection.execute(sa.insert(server_tables.flavors).values(**row, **flags))
            specs = [{'flavor_id': number, 'key': k, 'value': extra[k]} for k in extra]
            if specs:
                connection.execute(sa.insert(server_tables.flavor_extra_specs), specs)
            made[name] = Flavor(**row, extra_specs=dict(extra))
    return made
