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
from novasched_lab import beside_nova, wire
from novasched_lab.allocations import Allocations
from novasched_lab.brokers import Brokers
from novasched_lab.cells import Cells
from novasched_lab.conductor.endpoint import ObjectEndpoint, TaskEndpoint
from novasched_lab.conductor.groups import GroupSetup, enabled_from_conf
from novasched_lab.conductor.mending import Mending
from novasched_lab.conductor.parts import Parts
from novasched_lab.conductor.quota import Quota
from novasched_lab.conductor.retries import max_attempts_from_conf
from novasched_lab.store.stores import ApiServers

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
class Given:
    """What a conductor is made of besides its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; ``services`` has its
    services row, None: there is none. Who gives all this calls ``close``.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    brokers: Brokers
    services: ServiceStore | None = None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Conductor:
    """A composed conductor; tasks under way get ``drain_s`` to end when it stops."""

    parts: Parts
    server: Any
    mending: Mending
    heartbeat: Heartbeat | None
    drain_s: float
    close: Callable[[], None]

    def start(self) -> None:
        """Serve. Raises errors.ServiceTooOld and errors.StoreFailed."""
        if self.heartbeat is not None:
            self.heartbeat.start()
        self.server.start()
        self.mending.start()

    def reload(self) -> None:
        """Close the databases of the cells; they are opened as they are mapped."""
        self.parts.cells.close()

    def stop(self) -> None:
        """Take no more tasks, end those under way, then let go of the rest."""
        self.server.stop()
        drained = threading.Thread(target=self.server.wait, daemon=True)
        drained.start()
        drained.join(self.drain_s)
        if drained.is_alive():
            LOG.warning('Tasks are still under way after %d s', self.drain_s)
        self.mending.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.parts.cells.close()
        self.close()


def given_from_conf(conf: cfg.ConfigOpts) -> Given:
    """Make the real parts that a configuration names; nothing connects yet."""
    api_engine, main_engine = engines.api_engine(conf), engines.main_engine(conf)
    placement, brokers = session.from_conf(conf), Brokers(conf)

    def close() -> None:
        brokers.close()
        placement.session.session.close()
        main_engine.dispose()
        api_engine.dispose()

    return Given(
        api_engine=api_engine,
        make_cell_engine=functools.partial(engines.cell_engine, conf),
        placement=placement,
        brokers=brokers,
        services=SqlServiceStore(main_engine, new_uuid=beside_nova.new_uuid),
        close=close,
    )


def compose(conf: cfg.ConfigOpts, given: Given) -> Conductor:
    """Wire a conductor from a configuration and given parts; nothing runs yet."""
    host, own = host_of(conf), given.brokers.own
    defaults = UrlDefaults(conf.database.connection, own.conf.transport_url)
    api = ApiServers(given.api_engine, defaults)
    cells = Cells(api, given.make_cell_engine, given.brokers.transport)
    parts = Parts(
        api=api,
        cells=cells,
        schedulers=SchedulerClient(conf, own),
        placement=PlacementClient(given.placement),
        allocations=Allocations(given.placement),
        groups=GroupSetup(api, cells, enabled_from_conf(conf)),
        quota=Quota.from_conf(conf, api),
        host=host,
        max_attempts=max_attempts_from_conf(conf),
        resizes_on_same_host=conf.allow_resize_to_same_host,
    )
    heartbeat = None
    if given.services is not None:
        heartbeat = Heartbeat(
            given.services,
            host,
            conf.report_interval,
            binary=BINARY,
            topic=wire.CONDUCTOR,
        )
    endpoints = [TaskEndpoint(parts), ObjectEndpoint()]
    return Conductor(
        parts=parts,
        server=wire.server(own, wire.CONDUCTOR, host, endpoints),
        mending=Mending(parts, conf.long_rpc_timeout + conf.novasched.build_grace),
        heartbeat=heartbeat,
        drain_s=drain_s_of(conf),
        close=given.close,
    )


def from_conf(conf: cfg.ConfigOpts) -> Conductor:
    """Compose a conductor from its configuration alone."""
    return compose(conf, given_from_conf(conf))
