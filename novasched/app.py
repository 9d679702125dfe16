# SPDX-License-Identifier: Apache-2.0
"""The composition root: a configuration in, wired objects out.

It alone names every adapter. Nothing is global: a process may have several.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import plugins, servicegroup
from novasched.asking import Asking
from novasched.cluster.cells import Cells
from novasched.cluster.config_warnings import ConfigWarnings
from novasched.cluster.discovery import ServiceDirectory, discovery_tasks
from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.view import ClusterView
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlApiStore, SqlCellStores, SqlServiceStore
from novasched.drivers import Parts
from novasched.drivers.loading import driver_from_conf, periodic_tasks
from novasched.journal import recovery
from novasched.manager import SchedulerManager
from novasched.network.client import NetworkClient
from novasched.observing.doors import OPEN, Doors
from novasched.placement import session, taking_back
from novasched.placement.client import PlacementClient
from novasched.ports import Clock, Network, Notifier, ServiceRow
from novasched.rpc import server
from novasched.rpc.conductor import ConductorBackport
from novasched.rpc.notifications import Notifications
from novasched.rpc.transport import transport_from_conf
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.trace import Decision
from novasched.service import Scheduler, SystemClock, drain_s_of, host_of

NOTICE_INTERVAL_S = WATCH_INTERVAL_S = 10.0

__all__ = ['Given', 'SystemClock', 'compose', 'given_from_conf']


@dataclass(frozen=True)
class Given:
    """What a scheduler is made of besides its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; error statuses do not
    raise in ``placement``. ``on_service`` is told of a services row that was made;
    ``doors`` watch what goes in and out. Who gives all this calls ``close``.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    transport: Any
    notifier: Notifier
    clock: Clock
    rng: random.Random
    network: Network = field(default_factory=lambda: NetworkClient(None))
    services: ServiceDirectory | None = None
    on_decision: Callable[[Decision], None] = lambda decision: None
    on_service: Callable[[ServiceRow], None] = lambda row: None
    close: Callable[[], None] = lambda: None
    doors: Doors = OPEN


def given_from_conf(conf: cfg.ConfigOpts) -> Given:
    """Make the real parts that a configuration names; nothing connects yet."""
    api_engine, main_engine = engines.api_engine(conf), engines.main_engine(conf)
    placement, network = session.from_conf(conf), NetworkClient.from_conf(conf)
    transport = transport_from_conf(conf)
    notifications = Notifications.from_conf(conf, host_of(conf))

    def close() -> None:
        notifications.close()
        transport.cleanup()
        network.close()
        placement.session.session.close()
        main_engine.dispose()
        api_engine.dispose()

    return Given(
        api_engine=api_engine,
        make_cell_engine=functools.partial(engines.cell_engine, conf),
        placement=placement,
        transport=transport,
        notifier=notifications,
        clock=SystemClock(),
        rng=random.SystemRandom(),
        network=network,
        services=SqlServiceStore(main_engine),
        on_service=notifications.service_created,
        close=close,
    )


def compose(
    conf: cfg.ConfigOpts, given: Given, profile: Profile | None = None
) -> Scheduler:
    """Wire a scheduler from a configuration and given parts; nothing runs yet.

    ``profile`` replaces that of the options. Raises errors.SetupError."""
    host, profile = host_of(conf), profile or plugins.profile_from_conf(conf)
    defaults = UrlDefaults(conf.database.connection, given.transport.conf.transport_url)
    api = SqlApiStore(given.api_engine, defaults)
    clock, doors, rng = given.clock, given.doors, given.rng
    databases = SqlCellStores(given.make_cell_engine)
    cells = Cells.from_conf(conf, servicegroup.stores(conf, databases, clock), clock)
    view = doors.view(ClusterView.from_conf(conf, doors.api(api), cells, clock))
    kept = recovery.from_conf(conf, taking_back.through(given.placement))
    placement = doors.placement(PlacementClient(given.placement, kept.on_held))
    parts = Parts.from_conf(conf, profile, view, placement, rng, given.on_decision)
    plugins.lend_nova(conf)
    driver = driver_from_conf(conf, parts)
    sides = given.notifier, doors.asking(Asking.from_conf(conf)), given.network
    manager = SchedulerManager(driver, view, placement, *sides, kept.journal)
    services = servicegroup.services(conf, given.services, clock)
    discover = functools.partial(api.map_new_hosts, given.make_cell_engine)
    chores = [
        *periodic_tasks(conf, driver),
        *discovery_tasks(conf, host, services, clock, discover),
        (WATCH_INTERVAL_S, parts.watch.tell_stuck),
        (NOTICE_INTERVAL_S, ConfigWarnings.of(profile, view.aggregates).tell),
    ]
    backport = ConductorBackport.from_conf(conf, given.transport)
    serving = server.server(given.transport, host, manager, backport, doors.requests)
    beats = None if services is None else doors.services(services)
    return Scheduler(
        manager=manager,
        view=view,
        server=serving,
        upkeep=PeriodicTasks.from_conf(conf, view, clock, [*kept.chores, *chores]),
        heartbeat=Heartbeat.from_conf(conf, host, beats, given.on_service),
        drain_s=drain_s_of(conf),
        close=kept.close,
        profile=profile,
        finished=serving.requests.finished,
    )
