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
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.aggregates import ConfigWarnings
from novasched.cluster.cells import Cells
from novasched.cluster.discovery import ServiceDirectory, discovery_tasks
from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.view import ClusterView
from novasched.compat import driver_loading
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.placement import PlacementContents
from novasched.db.stores import SqlApiStore, SqlCellStores, SqlServiceStore
from novasched.db.transactions import Database
from novasched.drivers import DriverContext
from novasched.journal import recovery
from novasched.manager import SchedulerManager
from novasched.mirror.claims import MirroredPlacement
from novasched.mirror.copy import PlacementMirror
from novasched.network.client import NetworkClient
from novasched.observability.instrumentation import Instrumentation
from novasched.placement import session
from novasched.placement.claims import OnHeld
from novasched.placement.client import PlacementClient
from novasched.placement.contents import PlacementApiContents
from novasched.placement.rollback import claim_recovery
from novasched.ports import Network, Notifier, Placement, ProviderStore, ServiceRow
from novasched.rpc import server
from novasched.rpc.notifications import Notifications
from novasched.rpc.serializer import conductor_backport
from novasched.rpc.transport import transport_from_conf
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.trace import Decision
from novasched.service import Scheduler, drain_s_of, host_of

WARNING_INTERVAL_S = 10.0
WATCH_INTERVAL_S = 10.0


@dataclass(frozen=True)
class Dependencies:
    """What a scheduler is made of, apart from its configuration.

    ``make_cell_engine`` gets the URL of a cell's database; error statuses do not
    raise in ``placement``. Candidates come from a copy of ``providers``, if there are
    any. ``on_service`` gets each services row that was made;
    ``instrumentation`` wraps the components. ``close`` is called when the scheduler
    has ended, or by whom composed none.
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
    providers: ProviderStore | None = None
    on_decision: Callable[[Decision], None] = lambda decision: None
    on_service: Callable[[ServiceRow], None] = lambda row: None
    close: Callable[[], None] = lambda: None
    instrumentation: Instrumentation = field(default_factory=Instrumentation)


def dependencies_from_conf(conf: cfg.ConfigOpts) -> Dependencies:
    """Make the real parts that a configuration names; nothing connects yet."""
    driver_loading.set_defaults(conf)
    api_engine, main_engine = engines.api_engine(conf), engines.main_engine(conf)
    mirrors = conf.novasched.candidates == 'mirror'
    placement_engine = engines.placement_engine(conf) if mirrors else None
    placement, network = session.from_conf(conf), NetworkClient.from_conf(conf)
    transport = transport_from_conf(conf)
    notifications = Notifications.from_conf(conf, host_of(conf))

    def close() -> None:
        notifications.close()
        transport.cleanup()
        network.close()
        placement.session.session.close()
        if placement_engine is not None:
            placement_engine.dispose()
        main_engine.dispose()
        api_engine.dispose()

    return Dependencies(
        api_engine=api_engine,
        make_cell_engine=functools.partial(engines.cell_engine, conf),
        placement=placement,
        transport=transport,
        notifier=notifications,
        clock=SYSTEM_CLOCK,
        rng=random.SystemRandom(),
        network=network,
        services=SqlServiceStore(main_engine),
        providers=_providers(conf, placement, placement_engine) if mirrors else None,
        on_service=notifications.service_created,
        close=close,
    )


def compose(
    conf: cfg.ConfigOpts, dependencies: Dependencies, profile: Profile | None = None
) -> Scheduler:
    """Wire a scheduler from a configuration and its dependencies; nothing runs yet.

    It closes its dependencies when it ends. ``profile`` replaces that of the options.
    Raises errors.SetupError.
    """
    clock = dependencies.clock
    instrumentation = dependencies.instrumentation
    if profile is None:
        profile = plugins.profile_from_conf(conf)
    defaults = UrlDefaults(
        conf.database.connection, dependencies.transport.conf.transport_url
    )
    api = SqlApiStore(dependencies.api_engine, defaults)
    view = _view(conf, dependencies, api)
    journal = recovery.from_conf(conf, claim_recovery(dependencies.placement))
    mirror = _mirror(conf, dependencies, view)
    placement = _placement(dependencies, mirror, journal.on_held)
    context = DriverContext.from_conf(
        conf,
        profile=profile,
        view=view,
        placement=placement,
        rng=dependencies.rng,
        on_decision=instrumentation.decisions(dependencies.on_decision),
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
        clock=clock,
        mirror=mirror,
    )
    host = host_of(conf)
    services = servicegroup.services(conf, dependencies.services, clock)
    discover = functools.partial(api.map_new_hosts, dependencies.make_cell_engine)
    periodic_tasks = [
        *journal.periodic_tasks,
        *(mirror.periodic_tasks() if mirror is not None else ()),
        *driver_loading.periodic_tasks(conf, driver),
        *discovery_tasks(conf, host, services, clock, discover),
        (WATCH_INTERVAL_S, context.watch.log_stuck),
        (WARNING_INTERVAL_S, ConfigWarnings(profile, view.aggregates).log),
    ]

    def close() -> None:
        journal.close()
        dependencies.close()

    return Scheduler(
        manager=manager,
        view=view,
        server=server.server(
            transport=dependencies.transport,
            host=host,
            manager=manager,
            backport=conductor_backport(conf, dependencies.transport),
            requests=instrumentation.requests,
        ),
        periodic=PeriodicTasks.from_conf(conf, view, clock, periodic_tasks),
        heartbeat=Heartbeat.from_conf(
            conf,
            host=host,
            store=None if services is None else instrumentation.services(services),
            on_created=dependencies.on_service,
        ),
        drain_s=drain_s_of(conf),
        mirror=mirror,
        close=close,
        profile=profile,
        finished=instrumentation.requests.finished,
    )


def _view(
    conf: cfg.ConfigOpts, dependencies: Dependencies, api: SqlApiStore
) -> ClusterView:
    instrumentation = dependencies.instrumentation
    databases = SqlCellStores(dependencies.make_cell_engine)
    view = ClusterView.from_conf(
        conf,
        api=instrumentation.api(api),
        cells=Cells.from_conf(conf, databases, dependencies.clock),
        clock=dependencies.clock,
        heartbeats=servicegroup.heartbeats(conf, dependencies.clock),
        measure_refresh=functools.partial(instrumentation.stage, 'Refresh'),
    )
    instrumentation.watch(view)
    return view


def _placement(
    dependencies: Dependencies, mirror: PlacementMirror | None, on_held: OnHeld
) -> Placement:
    placement: Placement = PlacementClient(dependencies.placement, on_held)
    if mirror is not None:
        placement = MirroredPlacement(placement, mirror)
    return dependencies.instrumentation.placement(placement)


def _providers(
    conf: cfg.ConfigOpts, placement: Adapter, engine: sa.Engine | None
) -> ProviderStore:
    """Return what the copy of placement is read from."""
    if engine is not None:
        return PlacementContents(Database(engine))
    return PlacementApiContents(placement, conf.novasched.mirror_api_share)


def _mirror(
    conf: cfg.ConfigOpts, dependencies: Dependencies, view: ClusterView
) -> PlacementMirror | None:
    if dependencies.providers is None:
        return None
    mirror = PlacementMirror(
        dependencies.providers,
        dependencies.clock,
        conf.novasched.mirror_max_age,
        view.node_uuids,
        dependencies.instrumentation.refresh_of_mirror,
    )
    return dependencies.instrumentation.mirror(mirror)
