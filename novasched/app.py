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
from novasched.candidate_query import QueryPolicy
from novasched.cluster.cells import Cells
from novasched.cluster.config_warnings import ConfigWarnings
from novasched.cluster.discovery import ServiceDirectory, discovery_tasks
from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.view import ClusterView
from novasched.compat import driver_loading
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlApiStore, SqlCellStores, SqlServiceStore
from novasched.drivers import DriverContext
from novasched.journal import recovery
from novasched.manager import SchedulerManager
from novasched.network.client import NetworkClient
from novasched.observability.instrumentation import NO_INSTRUMENTATION, Instrumentation
from novasched.placement import session
from novasched.placement.client import PlacementClient
from novasched.placement.recovery import claim_recovery
from novasched.ports import Clock, Network, Notifier, ServiceRow
from novasched.rpc import server
from novasched.rpc.conductor import ConductorBackport
from novasched.rpc.notifications import Notifications
from novasched.rpc.transport import transport_from_conf
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.trace import Decision
from novasched.service import Scheduler, SystemClock, drain_s_of, host_of

WARNING_INTERVAL_S = 10.0
WATCH_INTERVAL_S = 10.0

__all__ = ['Dependencies', 'SystemClock', 'compose', 'dependencies_from_conf']


@dataclass(frozen=True)
class Dependencies:
    """What a scheduler is made of, apart from its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; error statuses do not
    raise in ``placement``. ``on_service`` is told of a services row that was made;
    ``instrumentation`` wraps the components. ``close`` is called by the maker of all
    this.
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
    instrumentation: Instrumentation = NO_INSTRUMENTATION


def dependencies_from_conf(conf: cfg.ConfigOpts) -> Dependencies:
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

    return Dependencies(
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
    conf: cfg.ConfigOpts, dependencies: Dependencies, profile: Profile | None = None
) -> Scheduler:
    """Wire a scheduler from a configuration and its dependencies; nothing runs yet.

    ``profile`` replaces that of the options. Raises errors.SetupError.
    """
    host = host_of(conf)
    clock = dependencies.clock
    instrumentation = dependencies.instrumentation
    if profile is None:
        profile = plugins.profile_from_conf(conf)
    api = _api_store(conf, dependencies)
    view = instrumentation.view(
        ClusterView.from_conf(
            conf,
            api=instrumentation.api(api),
            cells=_cells(conf, dependencies),
            clock=clock,
        )
    )
    journal = recovery.from_conf(conf, claim_recovery(dependencies.placement))
    placement = instrumentation.placement(
        PlacementClient(dependencies.placement, journal.on_held)
    )
    context = DriverContext.from_conf(
        conf,
        profile=profile,
        view=view,
        placement=placement,
        rng=dependencies.rng,
        on_decision=dependencies.on_decision,
    )
    plugins.install_nova_modules(conf)
    driver = driver_loading.driver_from_conf(conf, context)
    manager = SchedulerManager(
        driver=driver,
        view=view,
        placement=placement,
        notifier=dependencies.notifier,
        query_policy=instrumentation.query_policy(QueryPolicy.from_conf(conf)),
        network=dependencies.network,
        journal=journal.journal,
    )
    services = servicegroup.services(conf, dependencies.services, clock)
    discover = functools.partial(api.map_new_hosts, dependencies.make_cell_engine)
    serving = server.server(
        transport=dependencies.transport,
        host=host,
        manager=manager,
        backport=ConductorBackport.from_conf(conf, dependencies.transport),
        requests=instrumentation.requests,
    )
    return Scheduler(
        manager=manager,
        view=view,
        server=serving,
        periodic=PeriodicTasks.from_conf(
            conf,
            view=view,
            clock=clock,
            others=[
                *journal.periodic_tasks,
                *driver_loading.periodic_tasks(conf, driver),
                *discovery_tasks(conf, host, services, clock, discover),
                (WATCH_INTERVAL_S, context.watch.tell_stuck),
                (WARNING_INTERVAL_S, ConfigWarnings(profile, view.aggregates).tell),
            ],
        ),
        heartbeat=Heartbeat.from_conf(
            conf,
            host=host,
            store=None if services is None else instrumentation.services(services),
            on_created=dependencies.on_service,
        ),
        drain_s=drain_s_of(conf),
        close=journal.close,
        profile=profile,
        finished=serving.requests.finished,
    )


def _api_store(conf: cfg.ConfigOpts, dependencies: Dependencies) -> SqlApiStore:
    defaults = UrlDefaults(
        conf.database.connection, dependencies.transport.conf.transport_url
    )
    return SqlApiStore(dependencies.api_engine, defaults)


def _cells(conf: cfg.ConfigOpts, dependencies: Dependencies) -> Cells:
    clock = dependencies.clock
    databases = SqlCellStores(dependencies.make_cell_engine)
    return Cells.from_conf(
        conf, stores=servicegroup.stores(conf, databases, clock), clock=clock
    )
