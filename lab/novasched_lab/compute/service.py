# SPDX-License-Identifier: Apache-2.0
"""All hosts of a fleet in one process: composed, registered, serving and beating."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors
from novasched.cluster.periodic import PeriodicRunner
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.placement import session
from novasched_lab import resource_providers
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Brokers
from novasched_lab.compute.build_manager import BuildManager
from novasched_lab.compute.endpoint import ComputeEndpoint
from novasched_lab.compute.fault_rules import FaultRules
from novasched_lab.compute.fleet import Fleet
from novasched_lab.compute.host import ComputeContext, FakeComputeHost
from novasched_lab.compute.moves import MoveManager
from novasched_lab.compute.rows import HostRows, make_zones
from novasched_lab.compute.rpc_servers import servers
from novasched_lab.host_inventory import SimulatedHost, provider_of
from novasched_lab.rpc_api import ComputeClient, ConductorClient
from novasched_lab.store.api_servers import ApiServers
from novasched_lab.store.cell_servers import CellServers

LOG = logging.getLogger(__name__)

BINARY = 'nova-compute'
STOP_S = 10.0


class Site(NamedTuple):
    """Where the hosts of a cell are; ``computes`` is the client of all of them."""

    servers: CellServers
    rows: HostRows
    transport: Any
    computes: ComputeClient


@dataclass(frozen=True)
class ComputeDependencies:
    """What a process is made of apart from its configuration and its fleet.

    ``site`` gets the name of a cell, or None for that of the configuration; it raises
    errors.SetupError for one that is unknown. ``api_engine`` is None where no API
    database is configured; then there are no zones. ``transport`` leads to conductors.
    """

    adapter: Adapter
    transport: Any
    site: Callable[[str | None], Site]
    api_engine: sa.Engine | None = None
    close: Callable[[], None] = lambda: None


class CellHosts:
    """The hosts of one cell: their rows, heartbeat and RPC servers, not started."""

    def __init__(
        self,
        site: Site,
        hosts: Sequence[FakeComputeHost],
        rpc_servers: Sequence[Any],
        heartbeat_s: float,
    ) -> None:
        self._site = site
        self._hosts = {host.name: host for host in hosts}
        self._servers = rpc_servers
        beat = heartbeat_s, self.beat
        self._heartbeat = PeriodicRunner('heartbeat', [beat], [heartbeat_s])
        self._beats = heartbeat_s > 0

    def register(self) -> None:
        """Claim for the instances that are here, and write the rows of the hosts.

        Raises errors.StoreFailed.
        """
        for instance in self._site.servers.instances_on(list(self._hosts)):
            self._hosts[instance.host or ''].restore(instance)
        usage = {name: host.tracker.usage() for name, host in self._hosts.items()}
        hosts = [host.host for host in self._hosts.values()]
        for name, node_id in self._site.rows.register(hosts, usage).items():
            self._hosts[name].registered(node_id)

    def start(self) -> None:
        """Beat and serve. Raises oslo.messaging's MessagingException."""
        self.beat()
        for server in self._servers:
            server.start()
        if self._beats:
            self._heartbeat.start()

    def beat(self) -> None:
        """Write one heartbeat of all hosts at once."""
        self._site.rows.beat(self._hosts)

    def stop(self) -> None:
        """Take no more messages, finish those that came, then stop the heartbeat."""
        in_parallel([functools.partial(_end, server) for server in self._servers])
        self._heartbeat.stop()
        self._heartbeat.join(STOP_S)


class ComputeService:
    """All hosts of a process; satisfies program.LabService."""

    def __init__(
        self,
        cells: Sequence[CellHosts],
        hosts: Mapping[str, FakeComputeHost],
        provide: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self.hosts = hosts
        self._cells = cells
        self._provide = provide
        self._close = close

    def start(self) -> None:
        """Register all hosts, in placement too, and serve.

        Raises errors.StoreFailed, errors.SetupError and MessagingException.
        """
        for cell in self._cells:
            cell.register()
        self._provide()
        for cell in self._cells:
            cell.start()
        LOG.info('%d hosts are up', len(self.hosts))

    def stop(self) -> None:
        """Finish what is under way in all cells at once, and stop."""
        in_parallel([cell.stop for cell in self._cells])
        self._close()


def in_parallel(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks in a thread each; wait until all have ended."""
    threads = [threading.Thread(target=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _end(server: Any) -> None:
    server.stop()
    waiting = threading.Thread(target=server.wait, daemon=True)
    waiting.start()
    waiting.join(STOP_S)


def compose(
    conf: cfg.ConfigOpts, fleet: Fleet, dependencies: ComputeDependencies
) -> ComputeService:
    """Wire the hosts of a fleet; nothing runs yet. Raises errors.SetupError."""
    context = ComputeContext(
        allocations=Allocations(dependencies.adapter),
        conductor=ConductorClient(dependencies.transport),
        rules=FaultRules(fleet.rules, fleet.seed),
    )
    hosts: dict[str, FakeComputeHost] = {}
    endpoint = ComputeEndpoint(
        hosts, BuildManager(context), MoveManager(context, hosts)
    )
    by_cell: dict[str | None, list[SimulatedHost]] = {}
    for each in fleet.hosts:
        by_cell.setdefault(each.cell, []).append(each)
    cells = []
    for name, simulated in by_cell.items():
        site = dependencies.site(name)
        mine = [
            FakeComputeHost(each, site.servers, site.rows, site.computes)
            for each in simulated
        ]
        hosts |= {host.name: host for host in mine}
        rpc_servers = servers(site.transport, [host.name for host in mine], endpoint)
        cells.append(CellHosts(site, mine, rpc_servers, conf.report_interval))

    def provide() -> None:
        zones = {}
        if dependencies.api_engine is not None:
            zones = make_zones(dependencies.api_engine, fleet.hosts)
        providers = [
            provider_of(
                host,
                aggregates=frozenset({zones[host.zone]} if host.zone in zones else ()),
            )
            for host in fleet.hosts
        ]
        resource_providers.register(dependencies.adapter, providers)

    return ComputeService(cells, hosts, provide, dependencies.close)


def from_conf(conf: cfg.ConfigOpts, fleet: Fleet) -> ComputeService:
    """Wire the hosts of a fleet from a configuration alone; nothing connects yet.

    Raises errors.OptionError.
    """
    adapter, brokers = session.from_conf(conf), Brokers(conf)
    api_engine = engines.api_engine(conf) if conf.api_database.connection else None
    opened: list[sa.Engine] = [] if api_engine is None else [api_engine]

    def site(cell: str | None) -> Site:
        if cell is None:
            engine, broker = engines.main_engine(conf), brokers.own
        else:
            engine, broker = _of_cell(conf, api_engine, brokers, cell)
        opened.append(engine)
        name = cell and f'Cell {cell}'
        return Site(
            CellServers(engine, name),
            HostRows(engine, name),
            broker,
            ComputeClient(broker),
        )

    def close() -> None:
        brokers.close()
        adapter.session.session.close()
        for engine in opened:
            engine.dispose()

    dependencies = ComputeDependencies(adapter, brokers.own, site, api_engine, close)
    return compose(conf, fleet, dependencies)


def _of_cell(
    conf: cfg.ConfigOpts, api_engine: sa.Engine | None, brokers: Brokers, name: str
) -> tuple[sa.Engine, Any]:
    """Return the database and the broker of a cell, as it is mapped."""
    defaults = UrlDefaults(conf.database.connection, conf.transport_url)
    found = ApiServers(api_engine, defaults).cells() if api_engine is not None else []
    for cell in found:
        if cell.name == name and cell.database_connection:
            engine = engines.cell_engine(conf, cell.database_connection)
            return engine, brokers.transport(cell.transport_url)
    raise errors.OptionError(
        '--fleet',
        f'there is no cell {name} with a database',
        'Make it with novasched-manage cell_v2 create_cell, and set [api_database] '
        'connection',
    )
