# SPDX-License-Identifier: Apache-2.0
"""The composition root: a configuration in, wired objects out.

It alone names every adapter. Nothing here is global: two schedulers can be
composed in one process.
"""

from __future__ import annotations

import datetime
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import plugins, service
from novasched.cluster.cells import Cells
from novasched.cluster.rows import Ratios
from novasched.cluster.services import down_time
from novasched.cluster.upkeep import Upkeep
from novasched.cluster.view import ClusterView
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlApiStore, SqlCellStores, SqlServiceStore
from novasched.drivers import Parts
from novasched.manager import Asking, SchedulerManager
from novasched.placement import session
from novasched.placement.client import PlacementClient
from novasched.ports import Clock, Notifier, ServiceStore
from novasched.resources import prefilters
from novasched.resources.request import limit_from_conf
from novasched.rpc import server
from novasched.rpc.conductor import ConductorBackport
from novasched.rpc.notifications import Notifications
from novasched.rpc.transport import transport_from_conf
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.trace import Decision


class SystemClock:
    """The clocks of this machine."""

    def utcnow(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Given:
    """What a scheduler is made of besides its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; ``placement`` is an
    adapter whose error statuses do not raise; ``transport`` is oslo.messaging's.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    transport: Any
    notifier: Notifier
    clock: Clock
    rng: random.Random
    services: ServiceStore | None = None
    on_decision: Callable[[Decision], None] = lambda decision: None


@dataclass(frozen=True)
class Scheduler:
    """A composed scheduler. ``start`` loads the view and serves; ``stop`` ends it."""

    manager: SchedulerManager
    view: ClusterView
    server: Any
    upkeep: Upkeep
    heartbeat: service.Heartbeat | None
    drain_s: float

    def start(self) -> None:
        self.view.load()
        if self.heartbeat is not None:
            self.heartbeat.start()
        self.server.start()
        self.upkeep.start()

    def stop(self) -> None:
        """Stop taking requests, finish those under way, then let go of the rest."""
        self.server.stop()
        drained = threading.Thread(target=self.server.wait, daemon=True)
        drained.start()
        drained.join(self.drain_s)
        self.upkeep.stop()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.view.close()


def given_from_conf(conf: cfg.ConfigOpts) -> Given:
    """Make the real parts that a configuration names; nothing connects yet."""
    timeout_s = conf.novasched.cell_timeout
    return Given(
        api_engine=engines.api_engine(conf),
        make_cell_engine=lambda url: engines.cell_engine(
            conf, url, timeout_s=timeout_s
        ),
        placement=session.from_conf(conf),
        transport=transport_from_conf(conf),
        notifier=Notifications.from_conf(conf, host_of(conf)),
        clock=SystemClock(),
        rng=random.SystemRandom(),
        services=SqlServiceStore(engines.main_engine(conf)),
    )


def host_of(conf: cfg.ConfigOpts) -> str:
    """Return the name of this host, as services know it."""
    return conf.host or socket.gethostname()


def view_from_conf(conf: cfg.ConfigOpts, given: Given) -> ClusterView:
    """Make the cluster view; nothing is read yet."""
    defaults = UrlDefaults(conf.database.connection, given.transport.conf.transport_url)
    own = conf.novasched
    stores = SqlCellStores(given.make_cell_engine)
    cells = Cells(
        stores,
        given.clock,
        own.cell_timeout,
        own.cell_retry_interval,
        conf.cell_worker_thread_pool_size,
    )
    return ClusterView(
        SqlApiStore(given.api_engine, defaults),
        cells,
        given.clock,
        ratios=Ratios.from_conf(conf),
        service_down_time_s=down_time(conf.service_down_time, conf.report_interval)[0],
        max_age_s=own.host_state_max_age,
        overlap_s=own.host_state_overlap,
        tracks_instances=conf.filter_scheduler.track_instance_changes,
    )


def compose(
    conf: cfg.ConfigOpts, given: Given, profile: Profile | None = None
) -> Scheduler:
    """Wire a scheduler from a configuration and given parts.

    ``profile`` replaces the filters and weighers that the options name.
    """
    view = view_from_conf(conf, given)
    placement = PlacementClient(given.placement)
    parts = Parts(
        profile=profile or plugins.profile_from_conf(conf),
        view=view,
        placement=placement,
        rng=given.rng,
        max_attempts=conf.scheduler.max_attempts,
        default_availability_zone=conf.default_availability_zone,
        on_decision=given.on_decision,
    )
    driver = plugins.driver_from_conf(conf, parts)
    asking = Asking(prefilters.from_conf(conf), limit_from_conf(conf))
    manager = SchedulerManager(driver, view, placement, given.notifier, asking)
    backport = ConductorBackport.from_conf(conf, given.transport)
    host, own = host_of(conf), conf.novasched
    timeout_s = conf.manager_shutdown_timeout
    return Scheduler(
        manager=manager,
        view=view,
        server=server.server(given.transport, host, manager, backport),
        upkeep=Upkeep(view, given.clock, own.check_interval, own.reconcile_interval),
        heartbeat=service.Heartbeat(given.services, host, conf.report_interval)
        if given.services
        else None,
        drain_s=timeout_s - min(20, timeout_s),
    )


def from_conf(conf: cfg.ConfigOpts) -> Scheduler:
    """Compose a scheduler from its configuration alone."""
    return compose(conf, given_from_conf(conf))
