# SPDX-License-Identifier: Apache-2.0
"""All hosts of a fleet in one process: composed, registered, serving and beating."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.placement import session
from novasched.process.service import drained
from novasched.runtime.periodic import PeriodicRunner
from novasched_lab import resource_providers
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Brokers
from novasched_lab.compute.endpoint import ComputeEndpoint, servers
from novasched_lab.compute.fleet import FaultRules, Fleet
from novasched_lab.compute.host import ComputeContext, FakeComputeHost
from novasched_lab.compute.rows import HostRows, make_aggregates, zones_of
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.db.cell_servers import CellServers
from novasched_lab.host_inventory import SimulatedHost, provider_of
from novasched_lab.rpc_api import ComputeClient, ConductorClient

LOG = logging.getLogger(__name__)

BINARY = 'nova-compute'
STOP_S = 10.0

Site = tuple[sa.Engine, Any]
"""The database of a cell, and the transport of its broker."""


class CellHosts:
    """The hosts of one cell: their rows, heartbeat and RPC servers, not started."""

    def __init__(
        self,
        hosts: Mapping[str, FakeComputeHost],
        rows: HostRows,
        rpc_servers: Sequence[Any],
        heartbeat_s: float,
    ) -> None:
        self._hosts = hosts
        self._rows = rows
        self._servers = rpc_servers
        beat = heartbeat_s, self.beat
        self._heartbeat = PeriodicRunner('heartbeat', [beat], [heartbeat_s])
        self._beats = heartbeat_s > 0

    def register(self) -> None:
        """Claim for the instances that are here, and write the rows of the hosts.

        Raises errors.StoreFailed.
        """
        first = next(iter(self._hosts.values()))
        for instance in first.servers.instances_on(list(self._hosts)):
            self._hosts[instance.host or ''].restore(instance)
        usage = {name: host.tracker.usage() for name, host in self._hosts.items()}
        hosts = [host.host for host in self._hosts.values()]
        for name, node_id in self._rows.register(hosts, usage).items():
            self._hosts[name].registered(node_id)

    def start(self) -> None:
        """Beat and serve. Raises oslo.messaging's MessagingException."""
        self.beat()
        for server in self._servers:
            server.start()
        if self._beats:
            self._heartbeat.start()

    def beat(self) -> None:
        self._rows.beat(self._hosts)

    def stop(self) -> None:
        """Take no more messages, finish those that came, then stop the heartbeat."""
        stops = [functools.partial(drained, each, STOP_S) for each in self._servers]
        in_parallel(stops)
        self._heartbeat.stop()
        self._heartbeat.join(STOP_S)


class ComputeService:
    """All hosts of a process."""

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


def in_parallel(tasks: Sequence[Callable[[], object]]) -> None:
    """Run tasks in a thread each; wait until all have ended."""
    threads = [threading.Thread(target=task, daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def compose(
    conf: cfg.ConfigOpts,
    fleet: Fleet,
    adapter: Adapter,
    transport: Any,
    site: Callable[[str | None], Site],
    api_engine: sa.Engine | None = None,
    close: Callable[[], None] = lambda: None,
) -> ComputeService:
    """Wire the hosts of a fleet; nothing runs yet. Raises errors.SetupError.

    ``transport`` leads to conductors. ``site`` gets the name of a cell, or None for the
    configured cell; it raises errors.SetupError for an unknown one. ``api_engine`` is
    None if no API database is configured; then there are no zones.
    """
    context = ComputeContext(
        allocations=Allocations(adapter),
        conductor=ConductorClient(transport),
        rules=FaultRules(fleet.rules, fleet.seed),
    )
    hosts: dict[str, FakeComputeHost] = {}
    endpoint = ComputeEndpoint(hosts)
    by_cell: dict[str | None, list[SimulatedHost]] = {}
    for each in fleet.hosts:
        by_cell.setdefault(each.cell, []).append(each)
    cells = []
    for cell, simulated in by_cell.items():
        engine, broker = site(cell)
        name = cell and f'Cell {cell}'
        database, rows = CellServers(engine, name), HostRows(engine, name)
        computes = ComputeClient(broker)
        mine = {
            each.name: FakeComputeHost(each, database, rows, computes, context)
            for each in simulated
        }
        hosts |= mine
        rpc_servers = servers(broker, list(mine), endpoint)
        cells.append(CellHosts(mine, rows, rpc_servers, conf.report_interval))
    provide = functools.partial(_provide, adapter, api_engine, fleet.hosts)
    return ComputeService(cells, hosts, provide, close)


def _provide(
    adapter: Adapter, api_engine: sa.Engine | None, hosts: Sequence[SimulatedHost]
) -> None:
    zones = {}
    if api_engine is not None:
        zones = make_aggregates(api_engine, zones_of(hosts))
    providers = []
    for host in hosts:
        zone = frozenset({zones[host.zone]} if host.zone in zones else ())
        providers.append(provider_of(host, aggregates=zone))
    resource_providers.register(adapter, providers)


def from_conf(conf: cfg.ConfigOpts, fleet: Fleet) -> ComputeService:
    """Wire the hosts of a fleet from a configuration alone; nothing connects yet.

    Raises errors.OptionError.
    """
    adapter, brokers = session.from_conf(conf), Brokers(conf)
    api_engine = engines.api_engine(conf) if conf.api_database.connection else None
    opened: list[sa.Engine] = [] if api_engine is None else [api_engine]

    def site(cell: str | None) -> Site:
        if cell is None:
            found = engines.main_engine(conf), brokers.own
        else:
            found = _site_of(conf, api_engine, brokers, cell)
        opened.append(found[0])
        return found

    def close() -> None:
        brokers.close()
        adapter.session.session.close()
        for engine in opened:
            engine.dispose()

    return compose(conf, fleet, adapter, brokers.own, site, api_engine, close)


def _site_of(
    conf: cfg.ConfigOpts, api_engine: sa.Engine | None, brokers: Brokers, name: str
) -> Site:
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
