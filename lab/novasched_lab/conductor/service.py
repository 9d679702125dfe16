# SPDX-License-Identifier: Apache-2.0
"""The life of a conductor: made from its configuration, started and stopped."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched.cluster.heartbeat import Heartbeat
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlServiceStore
from novasched.placement import session
from novasched.placement.client import PlacementClient
from novasched.ports import ServiceStore
from novasched.rpc.client import SchedulerClient
from novasched.service import drain_s_of, host_of
from novasched_lab import beside_nova, rpc_api
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Brokers, CellLinks
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.endpoint import TaskEndpoint
from novasched_lab.store.api_servers import ApiServers

LOG = logging.getLogger(__name__)

BINARY = 'nova-conductor'
OPTS: dict[str, list[cfg.Opt]] = {
    'conductor': [
        cfg.IntOpt(
            'workers',
            min=0,
            help='Worker processes of the conductor. Unset or 0: as many as the '
            'machine has CPUs.',
        )
    ],
    'DEFAULT': [
        cfg.BoolOpt(
            'allow_resize_to_same_host',
            default=False,
            help='Whether a resize may end on the host where it began.',
        )
    ],
}


@dataclass(frozen=True)
class ConductorDependencies:
    """What a conductor is made of apart from its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; ``services`` has its
    services row, None: there is none. The conductor calls ``close`` when it stops.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    brokers: Brokers
    services: ServiceStore | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class ConductorService:
    """A composed conductor; tasks under way get ``drain_s`` to end when it stops."""

    context: ConductorContext
    server: Any
    heartbeat: Heartbeat | None
    drain_s: float
    close: Callable[[], None]

    def start(self) -> None:
        """Serve. Raises errors.ServiceTooOld and errors.StoreFailed."""
        if self.heartbeat is not None:
            self.heartbeat.start()
        self.server.start()

    def stop(self) -> None:
        """Take no more tasks, end those under way, then close all connections."""
        self.server.stop()
        drained = threading.Thread(target=self.server.wait, daemon=True)
        drained.start()
        drained.join(self.drain_s)
        if drained.is_alive():
            LOG.warning('Tasks are still under way after %d s', self.drain_s)
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.context.cells.close()
        self.close()


def compose(
    conf: cfg.ConfigOpts, dependencies: ConductorDependencies
) -> ConductorService:
    """Wire a conductor; nothing runs yet."""
    host, own = host_of(conf), dependencies.brokers.own
    defaults = UrlDefaults(conf.database.connection, own.conf.transport_url)
    api = ApiServers(dependencies.api_engine, defaults)
    context = ConductorContext(
        api=api,
        cells=CellLinks(
            api, dependencies.make_cell_engine, dependencies.brokers.transport
        ),
        schedulers=SchedulerClient(conf, own),
        placement=PlacementClient(dependencies.placement),
        allocations=Allocations(dependencies.placement),
        host=host,
        max_attempts=conf.scheduler.max_attempts,
        resizes_on_same_host=conf.allow_resize_to_same_host,
    )
    heartbeat = None
    if dependencies.services is not None:
        heartbeat = Heartbeat(
            dependencies.services,
            host,
            conf.report_interval,
            binary=BINARY,
            topic=rpc_api.CONDUCTOR,
        )
    return ConductorService(
        context=context,
        server=rpc_api.server(own, rpc_api.CONDUCTOR, host, [TaskEndpoint(context)]),
        heartbeat=heartbeat,
        drain_s=drain_s_of(conf),
        close=dependencies.close,
    )


def from_conf(conf: cfg.ConfigOpts) -> ConductorService:
    """Compose a conductor from its configuration alone; nothing connects yet."""
    api_engine, main_engine = engines.api_engine(conf), engines.main_engine(conf)
    placement, brokers = session.from_conf(conf), Brokers(conf)

    def close() -> None:
        brokers.close()
        placement.session.session.close()
        main_engine.dispose()
        api_engine.dispose()

    dependencies = ConductorDependencies(
        api_engine=api_engine,
        make_cell_engine=functools.partial(engines.cell_engine, conf),
        placement=placement,
        brokers=brokers,
        services=SqlServiceStore(main_engine, new_uuid=beside_nova.new_uuid),
        close=close,
    )
    return compose(conf, dependencies)
