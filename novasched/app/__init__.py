# SPDX-License-Identifier: Apache-2.0
"""The composition root: a configuration in, wired objects out.

It alone names every adapter. Nothing is global: a process may have several.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import plugins
from novasched.app import release
from novasched.app.decisions import (
    LogMaker,
    MakeLog,
    inspection,
    open_store,
)
from novasched.app.release import use_names_of_release
from novasched.app.shared_picks import PickSharing
from novasched.app.sources import Dependencies, Sources, hints_of
from novasched.cluster.aggregates import ConfigWarnings
from novasched.cluster.assumed import AssumedInstances
from novasched.cluster.cells import Cells
from novasched.cluster.discovery import discovery_tasks
from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.release import FoundRelease, KnownRelease, find
from novasched.cluster.view import ClusterView
from novasched.compat import driver_loading
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlApiStore, SqlCellStores, SqlServiceStore
from novasched.db.transactions import Database
from novasched.drivers import Driver, DriverContext
from novasched.drivers.plugin_timing import PluginTiming
from novasched.external import servicegroup
from novasched.external.network import NetworkClient
from novasched.journal import recovery
from novasched.manager.attempts import RequestAttempts
from novasched.manager.candidate_query import QueryPolicy
from novasched.manager.manager import SchedulerManager
from novasched.outages import (
    API_DATABASE,
    NETWORK,
    PLACEMENT,
    Outages,
    Probe,
    cell_of,
)
from novasched.placement import session
from novasched.placement.claims import OnHeld
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import claim_recovery
from novasched.placement.writes import AllocationWrites
from novasched.placement_copy import uses_copy
from novasched.placement_copy.claims import PlacementWithCopy
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.placement_copy.readers.shared_file import SharedFileReader, path_in
from novasched.ports import (
    ApiStore,
    CellStores,
    Journal,
    Notifier,
    Placement,
    ProviderStore,
)
from novasched.ports.decisions import DecisionLog
from novasched.process.service import Scheduler, drain_s_of, host_of
from novasched.releases import Release
from novasched.rpc import server
from novasched.rpc.notifications import Notifications
from novasched.rpc.serializer import conductor_backport
from novasched.rpc.transport import transport_from_conf
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.pipeline import Profile

__all__ = [
    'Dependencies',
    'Reader',
    'Sources',
    'Wrappers',
    'compose',
    'compose_reader',
    'dependencies_from_conf',
    'reading_sources',
    'use_names_of_release',
]

WARNING_INTERVAL_S = 10.0
WATCH_INTERVAL_S = 10.0


Wrapped = TypeVar('Wrapped')


def _as_it_is(inner: Wrapped) -> Wrapped:
    return inner


@dataclass(frozen=True)
class Wrappers:
    """Wraps what decisions read; each gets the real one. ``assumed`` makes what
    remembers picks, instead of what the options say. Without ``claims``, nothing is
    remembered or verified of what was picked."""

    api: Callable[[ApiStore], ApiStore] = _as_it_is
    cells: Callable[[CellStores], CellStores] = _as_it_is
    placement: Callable[[Placement], Placement] = _as_it_is
    assumed: Callable[[Profile], AssumedInstances | None] | None = None
    claims: bool = True


@dataclass(frozen=True)
class Reader:
    """The parts that make decisions and read the cloud, without an RPC server."""

    manager: SchedulerManager  # decides as found, the release of the cloud
    watch: PluginTiming
    view: ClusterView  # closed by the caller of compose_reader()
    profile: Profile
    placement: Placement
    api: SqlApiStore  # the database itself, not what the view keeps of it
    copy: CopyKeeper | None
    decision_log: DecisionLog
    found: FoundRelease
    of_release: Callable[[Release], RequestAttempts]  # by the rules of a release
    outages: Outages

    @property
    def driver(self) -> Driver:
        """The driver of the manager."""
        return self.manager.driver

    def following(self, known: KnownRelease) -> SchedulerManager:
        """Return a manager that follows newer releases."""
        return SchedulerManager(
            self.manager.attempts,
            self.decision_log,
            self.found.release,
            self.of_release,
            may_learn=not self.found.is_pinned,
            on_followed=known.learn,
        )


def dependencies_from_conf(conf: cfg.ConfigOpts) -> Dependencies:
    """Make the real parts that a configuration names; nothing connects yet."""
    driver_loading.set_defaults(conf)
    stack = contextlib.ExitStack()
    api_engine = engines.api_engine(conf, timeout_s=engines.API_TIMEOUT_S)
    share = conf.novasched.mirror_api_share
    parts = _parts(conf, stack, api_engine, engines.main_engine(conf), share)
    use_names_of_release(conf)
    transport = transport_from_conf(conf)
    stack.callback(transport.cleanup)
    notifications = Notifications.from_conf(conf, host_of(conf))
    stack.callback(notifications.close)
    return Dependencies(
        **parts,
        transport=transport,
        notifier=notifications,
        on_service=notifications.service_created,
        close=stack.close,
    )


@contextlib.contextmanager
def reading_sources(conf: cfg.ConfigOpts, notifier: Notifier) -> Iterator[Sources]:
    """Make the real parts that only read; close them in the end. Sessions are
    read-only where the database server allows it, and there is no broker."""
    driver_loading.set_defaults(conf)
    with contextlib.ExitStack() as stack:
        api_engine = engines.api_engine(conf)
        main_engine = engines.main_engine(conf) if conf.database.connection else None
        parts = _parts(conf, stack, api_engine, main_engine, guard=engines.read_only)
        yield Sources(**parts, notifier=notifier, keeps_copy=False)


def _parts(
    conf: cfg.ConfigOpts,
    stack: contextlib.ExitStack,
    api_engine: sa.Engine,
    main_engine: sa.Engine | None,
    share: float = 1.0,
    guard: Callable[[sa.Engine], sa.Engine] = _as_it_is,
) -> dict[str, Any]:
    """Return arguments of Sources; the stack closes them. ``guard`` gets each engine,
    and ``share`` is as of provider_store()."""
    placement_engine = engines.placement_engine(conf)
    for engine in filter(None, (api_engine, main_engine, placement_engine)):
        stack.callback(guard(engine).dispose)
    placement, network = session.from_conf(conf), NetworkClient.from_conf(conf)
    stack.callback(placement.session.session.close)
    stack.callback(network.close)
    return {
        'api_engine': api_engine,
        'make_cell_engine': lambda url: guard(engines.cell_engine(conf, url)),
        'placement': placement,
        'clock': SYSTEM_CLOCK,
        'rng': random.SystemRandom(),
        'network': network,
        'services': None if main_engine is None else SqlServiceStore(main_engine),
        'providers': provider_store(placement, placement_engine, share),
    }


def compose_reader(
    conf: cfg.ConfigOpts,
    sources: Sources,
    profile: Profile | None = None,
    *,
    transport_url: str | None = None,
    wrappers: Wrappers | None = None,
    journal: Journal | None = None,
    on_held: OnHeld | None = None,
    make_log: MakeLog | None = None,
    found: FoundRelease | None = None,
    patience_s: float = 0.0,
) -> Reader:
    """Wire what makes decisions. Nothing is read yet; only ``placement`` ever writes.

    ``profile`` replaces the profile of the options. ``transport_url`` fills the
    templates of cell mappings. ``journal`` and ``on_held`` learn of claims.
    ``make_log`` makes the decision log. ``found`` is the release of the cloud, if
    known. Requests wait ``patience_s`` for unavailable services. Raises
    errors.SetupError.
    """
    wrappers = wrappers or Wrappers()
    instrumentation = sources.instrumentation
    profile = profile or plugins.profile_from_conf(conf)
    found = found or release.found_or_newest(conf, sources)
    defaults = UrlDefaults(conf.database.connection, transport_url)
    api = SqlApiStore(sources.api_engine, defaults)
    view = _view(conf, sources, wrappers, api)
    copy = _copy(conf, sources, view)
    placement, outages = _placement(
        sources, view, copy, on_held, patience_s, conf.novasched.claims_together
    )
    placement = wrappers.placement(placement)
    watch = PluginTiming.from_conf(conf)
    plugins.install_nova_modules(conf)
    assumed = wrappers.assumed or functools.partial(AssumedInstances.from_conf, conf)
    decision_log = DecisionLog()
    if make_log is not None:
        decision_log = make_log(view, profile.of_release(found.release), copy)

    def attempts(of: Release) -> RequestAttempts:
        context = DriverContext.from_conf(
            conf,
            profile=profile.of_release(of),
            view=view,
            placement=placement,
            rng=sources.rng,
            watch=watch,
            assumed=assumed(profile.of_release(of)),
        )
        if not wrappers.claims:
            context = context.claimless()
        policy = QueryPolicy.from_conf(conf, of)
        return RequestAttempts(
            driver=driver_loading.driver_from_conf(conf, context),
            view=view,
            placement=placement,
            notifier=sources.notifier.of_release(of),
            query_policy=replace(policy, on_answer=instrumentation.answered),
            network=sources.network,
            journal=journal,
            clock=sources.clock,
            copy=copy,
            outages=outages,
        )

    return Reader(
        SchedulerManager(attempts(found.release), decision_log, found.release),
        watch,
        view,
        profile.of_release(found.release),
        placement,
        api,
        copy,
        decision_log,
        found,
        attempts,
        outages,
    )


def compose(
    conf: cfg.ConfigOpts, dependencies: Dependencies, profile: Profile | None = None
) -> Scheduler:
    """Wire a scheduler from a configuration and its dependencies; nothing runs yet.

    It closes its dependencies when it ends. ``profile`` replaces the profile of the
    options. Raises errors.SetupError.
    """
    clock, instrumentation = dependencies.clock, dependencies.instrumentation
    journal = recovery.from_conf(conf, claim_recovery(dependencies.placement))
    store = open_store(conf, instrumentation.decision_log)
    providers = _shared(conf, dependencies.providers, store.directory)
    dependencies = replace(dependencies, providers=providers)
    make_log = LogMaker(conf, dependencies, store)
    host = host_of(conf)
    services = servicegroup.services(conf, dependencies.services, clock)
    kept = dependencies.kept
    picks = PickSharing(conf, dependencies.transport, instrumentation.picks, kept)
    reader = compose_reader(
        conf,
        dependencies,
        profile,
        make_log=make_log,
        transport_url=dependencies.transport.conf.transport_url,
        wrappers=Wrappers(assumed=picks.assumed),
        journal=journal.journal,
        on_held=journal.on_held,
        found=kept.release.at_least(find(conf, services, clock)),
        patience_s=conf.novasched.outage_patience,
    )
    view, copy, profile = reader.view, reader.copy, reader.profile
    manager = reader.following(kept.release)
    heartbeat = Heartbeat.from_conf(
        conf,
        host=host,
        store=None if services is None else instrumentation.services(services),
        on_created=dependencies.on_service,
        version=reader.found.release.service_version,
    )
    discover = functools.partial(
        reader.api.map_new_hosts, dependencies.make_cell_engine
    )
    periodic_tasks = [
        *journal.periodic_tasks,
        *view.periodic_tasks(),
        *(copy.periodic_tasks() if copy is not None else ()),
        *driver_loading.periodic_tasks(conf, lambda: manager.driver),
        *release.follow_tasks(conf, reader.found, services, clock, manager, heartbeat),
        *discovery_tasks(conf, host, services, clock, discover),
        (WATCH_INTERVAL_S, reader.watch.log_stuck),
        (WARNING_INTERVAL_S, ConfigWarnings(profile, view.aggregates).log),
        *make_log.tasks(reader.outages, instrumentation.picks),
    ]

    def close() -> None:
        for each in (picks, reader.decision_log, store.store, journal, dependencies):
            each.close()

    return Scheduler(
        manager=manager,
        view=view,
        server=server.server(
            transport=dependencies.transport,
            host=host,
            manager=manager,
            backport=conductor_backport(conf, dependencies.transport),
            requests=instrumentation.requests,
            more=[inspection(store)],
        ),
        periodic=PeriodicTasks.from_conf(conf, view, clock, periodic_tasks),
        heartbeat=heartbeat,
        drain_s=drain_s_of(conf),
        reload_s=conf.long_rpc_timeout,  # no caller waits longer
        copy=copy,
        close=close,
        profile=profile,
        finished=instrumentation.requests.finished,
        found=reader.found,
        outages=reader.outages,
        share_picks=picks.start,
    )


def _view(
    conf: cfg.ConfigOpts, sources: Sources, wrappers: Wrappers, api: SqlApiStore
) -> ClusterView:
    instrumentation = sources.instrumentation
    databases = wrappers.cells(SqlCellStores(sources.make_cell_engine))
    view = ClusterView.from_conf(
        conf,
        api=instrumentation.api(wrappers.api(api)),
        cells=Cells.from_conf(conf, databases, sources.clock),
        clock=sources.clock,
        heartbeats=servicegroup.heartbeats(conf, sources.clock),
        measure_refresh=instrumentation.refresh,
    )
    instrumentation.watch(view)
    return view


def _placement(
    sources: Sources,
    view: ClusterView,
    copy: CopyKeeper | None,
    on_held: OnHeld | None,
    patience_s: float,
    claims_together: int,
) -> tuple[Placement, Outages]:
    """Make placement, and the outages of it and of all else that requests wait for."""
    outages = sources.instrumentation.outages(patience_s)
    placement: Placement = PlacementClient(
        sources.placement,
        on_held,
        lambda: outages.is_unavailable(PLACEMENT),
        AllocationWrites(sources.placement, claims_together),
    )
    if copy is not None:
        placement = PlacementWithCopy(placement, copy)
    probes: dict[str, Probe] = {
        PLACEMENT: placement.answers,
        NETWORK: sources.network.answers,
        API_DATABASE: view.api_answers,
    }

    def probe_of(service: str) -> Probe | None:
        name = cell_of(service)
        return probes.get(service) if name is None else lambda: view.answers(name)

    outages.probe_of = probe_of
    return sources.instrumentation.placement(placement), outages


def provider_store(
    placement: Adapter, engine: sa.Engine | None, share: float = 1.0
) -> ProviderStore:
    """Return the reader of placement's providers: its database, or else its API.

    The API is read for at most ``share`` of the time of one CPU.
    """
    if engine is not None:
        return DatabaseReader(Database(engine))
    return ApiReader(placement, share)


def _shared(
    conf: cfg.ConfigOpts, providers: ProviderStore | None, directory: Path | None
) -> ProviderStore | None:
    """Have one process of the machine read the API, if there is a directory for what it
    reads."""
    if directory is None or not isinstance(providers, ApiReader):
        return providers
    return SharedFileReader(providers, path_in(directory, conf))


def _copy(
    conf: cfg.ConfigOpts, sources: Sources, view: ClusterView
) -> CopyKeeper | None:
    """Return the copy of placement, if candidates or diagnoses come from one."""
    is_needed = uses_copy(conf) or conf.novasched.placement_diagnosis
    if sources.providers is None or not (sources.keeps_copy and is_needed):
        return None
    copy = CopyKeeper(
        sources.providers,
        sources.clock,
        conf.novasched.mirror_max_age,
        view.node_uuids,
        hints_of(view),
        sources.instrumentation.refresh_of_copy,
        own_claims=sources.kept.claims,
    )
    sources.instrumentation.watch_copy(copy, conf.novasched.candidates)
    return copy
