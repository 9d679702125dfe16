# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet in one process: wired from a configuration, and run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.placement import session
from novasched_lab.allocations import Allocations
from novasched_lab.brokers import Brokers
from novasched_lab.compute import zones
from novasched_lab.compute.audit import Audit
from novasched_lab.compute.builds import Builds
from novasched_lab.compute.deletes import Deletes
from novasched_lab.compute.endpoint import ComputeEndpoint
from novasched_lab.compute.fleet import Fleet, Host
from novasched_lab.compute.group import Group
from novasched_lab.compute.inventories import Inventories
from novasched_lab.compute.listening import servers
from novasched_lab.compute.moves import Moves
from novasched_lab.compute.rows import FleetRows
from novasched_lab.compute.rules import Rules
from novasched_lab.compute.station import Parts, Station
from novasched_lab.store.stores import ApiServers, CellServers
from novasched_lab.wire import ComputeClient, ConductorClient, SchedulerNews

LOG = logging.getLogger(__name__)

BINARY = 'nova-compute'
DEFAULT_AUDIT_S = 60.0

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.IntOpt(
            'update_resources_interval',
            default=0,
            help='Seconds between looks at what was left undone on a compute. 0: 60; '
            'below 0: only when it starts.',
        ),
        cfg.IntOpt(
            'scheduler_instance_sync_interval',
            default=120,
            help='Seconds after which a compute tells schedulers all its instances '
            'again. 0: never.',
        ),
    ],
    'compute': [
        cfg.IntOpt(
            'consecutive_build_service_disable_threshold',
            default=10,
            help='Where it is not 0, a compute counts the builds that failed one after '
            'another in its row.',
        ),
    ],
    'workarounds': [
        cfg.BoolOpt(
            'disable_group_policy_check_upcall',
            default=False,
            help='Have computes not look at the policy of server groups once more '
            'after the claim.',
        ),
    ],
    'novasched': [
        cfg.FloatOpt(
            'build_grace',
            default=120.0,
            min=1.0,
            help='Seconds that nothing may happen to an instance that waits for a '
            'host, or to a move, before a compute of ours ends it. A conductor of '
            'ours waits long_rpc_timeout longer.',
        ),
    ],
}


class Site(NamedTuple):
    """Where the hosts of a cell are; ``computes`` speaks to them."""

    servers: CellServers
    rows: FleetRows
    transport: Any
    computes: ComputeClient


@dataclass(frozen=True)
class Given:
    """What a process is made of besides its configuration and its fleet.

    ``site`` gets the name of a cell, or None for that of the configuration; it raises
    errors.SetupError for one that is unknown. ``api_engine`` is None where no API
    database is configured; then there are no zones. ``transport`` is the way to
    conductors and schedulers.
    """

    adapter: Adapter
    transport: Any
    site: Callable[[str | None], Site]
    api_engine: sa.Engine | None = None
    close: Callable[[], None] = lambda: None


class Computes:
    """All hosts of a process; satisfies service.Life but for its signals."""

    def __init__(
        self,
        groups: Sequence[Group],
        stations: Mapping[str, Station],
        prepare: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self.stations = stations
        self.groups = groups
        self._prepare = prepare
        self._close = close

    def start(self) -> None:
        """Start all hosts; raises errors.StoreFailed and MessagingException."""
        for group in self.groups:
            group.start()
        self._prepare()
        LOG.info('%d hosts are up', len(self.stations))

    def reload(self) -> None:
        """Look at all that may be left undone."""
        for group in self.groups:
            group.look()

    def stop(self) -> None:
        """Finish what is under way in all cells at once, and stop."""
        ending = [threading.Thread(target=each.stop) for each in self.groups]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join()
        self._close()


def compose(conf: cfg.ConfigOpts, fleet: Fleet, given: Given) -> Computes:
    """Wire the hosts of a fleet; nothing runs yet. Raises errors.SetupError."""
    inventories = Inventories(given.adapter)
    told = conf.filter_scheduler.track_instance_changes
    parts = Parts(
        allocations=Allocations(given.adapter),
        inventories=inventories,
        conductor=ConductorClient(given.transport),
        news=SchedulerNews(given.transport) if told else None,
        rules=Rules(fleet.rules, fleet.seed),
        checks_policy=not conf.workarounds.disable_group_policy_check_upcall,
        counts_failures=bool(conf.compute.consecutive_build_service_disable_threshold),
    )
    stations: dict[str, Station] = {}
    work = _work(conf, parts, stations)
    groups = []
    for cell, hosts in _by_cell(fleet.hosts).items():
        site = given.site(cell)
        mine = [Station(each, site.servers, site.rows, site.computes) for each in hosts]
        stations |= {each.name: each for each in mine}
        names = [each.name for each in mine]
        listening = servers(site.transport, names, work.endpoint)
        groups.append(
            Group(
                parts,
                mine,
                work.audit,
                listening,
                beat_s=conf.report_interval,
                audit_s=_audit_s(conf.update_resources_interval),
                sync_s=conf.scheduler_instance_sync_interval,
            )
        )

    def make_zones() -> None:
        named = zones.zone_hosts(fleet.hosts)
        if given.api_engine is not None and named:
            for zone, uuid in zones.make(given.api_engine, named).items():
                for host in named[zone]:
                    inventories.add_aggregate(host.uuid, uuid)

    return Computes(groups, stations, make_zones, given.close)


class _Work(NamedTuple):
    audit: Audit
    endpoint: ComputeEndpoint


def _work(conf: cfg.ConfigOpts, parts: Parts, stations: Mapping[str, Station]) -> _Work:
    builds, deletes = Builds(parts), Deletes(parts)
    moves = Moves(parts, stations)
    audit = Audit(parts, builds, moves, deletes, conf.novasched.build_grace)
    endpoint = ComputeEndpoint(parts, stations, builds, moves, deletes, audit)
    return _Work(audit, endpoint)


def from_conf(conf: cfg.ConfigOpts, fleet: Fleet) -> Computes:
    """Wire the hosts of a fleet from a configuration alone."""
    return compose(conf, fleet, given_from_conf(conf))


def given_from_conf(conf: cfg.ConfigOpts) -> Given:
    """Make the real parts that a configuration names; nothing connects yet.

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
        return Site(
            CellServers(engine, cell and f'Cell {cell}'),
            FleetRows(engine, cell and f'Cell {cell}'),
            broker,
            ComputeClient(broker),
        )

    def close() -> None:
        brokers.close()
        adapter.session.session.close()
        for engine in opened:
            engine.dispose()

    return Given(adapter, brokers.own, site, api_engine, close)


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


def _by_cell(hosts: Sequence[Host]) -> dict[str | None, list[Host]]:
    found: dict[str | None, list[Host]] = {}
    for host in hosts:
        found.setdefault(host.cell, []).append(host)
    return found


def _audit_s(interval: int) -> float:
    """Return the seconds between two audits; 0: there is only the first."""
    return 0.0 if interval < 0 else float(interval) or DEFAULT_AUDIT_S
