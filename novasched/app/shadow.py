# SPDX-License-Identifier: Apache-2.0
"""A shadow, wired: it taps what nova-scheduler is asked, and may only read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from oslo_config import cfg
from sqlalchemy import Engine

from novasched import app, errors
from novasched.app.decisions import LogMaker, open_store
from novasched.app.release import follow_tasks
from novasched.app.sources import Dependencies
from novasched.cluster.periodic import PeriodicTasks
from novasched.cluster.release import find
from novasched.cluster.view import ClusterView
from novasched.compat import driver_loading
from novasched.db import engines
from novasched.db.engines import engine_of
from novasched.db.servers import CellServerRows, ServerRow
from novasched.db.stores import SqlServiceStore
from novasched.external import servicegroup
from novasched.external.silent import SilentNotifier
from novasched.placement.claimless import ClaimlessPlacement
from novasched.placement.client import PlacementClient
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports.decisions import DecisionLog
from novasched.process.service import Scheduler, host_of
from novasched.rpc import server, tap
from novasched.rpc.serializer import conductor_backport
from novasched.scheduler.pipeline import Profile
from novasched.shadow.choices import ChoiceFinder
from novasched.shadow.log import LOOK_EVERY_S, ShadowLog


def compose(
    conf: cfg.ConfigOpts, dependencies: Dependencies, profile: Profile | None = None
) -> Scheduler:
    """Wire a shadow; nothing runs yet. See app.compose(), which it resembles: but it
    claims nothing, has no row of a service, no journal and no queue of a scheduler."""
    clock, instrumentation = dependencies.clock, dependencies.instrumentation
    store = open_store(conf, instrumentation.decision_log)
    dependencies = _reading(conf, dependencies)
    make_log = LogMaker(conf, dependencies, store)
    services = servicegroup.services(conf, dependencies.services, clock)
    logs: list[ShadowLog] = []
    opened: list[_ServerRows] = []

    def shadow_log(
        view: ClusterView, profile: Profile, copy: CopyKeeper | None
    ) -> DecisionLog:
        rows = _ServerRows(view, dependencies.make_cell_engine)
        opened.append(rows)
        finder = ChoiceFinder(
            PlacementClient(dependencies.placement),
            view.hosts_by_node,
            rows,
        )
        logs.append(
            ShadowLog(
                make_log(view, profile, copy),
                finder,
                clock,
                conf.novasched.shadow_keep,
            )
        )
        return logs[0]

    kept = dependencies.kept
    reader = app.compose_reader(
        conf,
        dependencies,
        profile,
        make_log=shadow_log,
        transport_url=dependencies.transport.conf.transport_url,
        wrappers=app.Wrappers(
            placement=ClaimlessPlacement, assumed=lambda profile: None
        ),
        found=kept.release.at_least(find(conf, services, clock)),
    )
    view, copy = reader.view, reader.copy
    manager = reader.following(kept.release)
    requests = instrumentation.requests
    backport = conductor_backport(conf, dependencies.transport)
    endpoint = server.SchedulerEndpoint(manager, backport, requests)
    dispatcher = server.Dispatcher([endpoint], requests)
    tapping = tap.from_conf(conf, dispatcher, requests, host_of(conf), server.TOPIC)
    periodic = [
        *view.periodic_tasks(),
        *(copy.periodic_tasks() if copy is not None else ()),
        *driver_loading.periodic_tasks(conf, lambda: manager.driver),
        *follow_tasks(conf, reader.found, services, clock, manager, None),
        *make_log.tasks(reader.outages, instrumentation.picks),
        (LOOK_EVERY_S, logs[0].look),
    ]

    def close() -> None:
        for each in (reader.decision_log, *opened, store.store, dependencies):
            each.close()

    return Scheduler(
        manager=manager,
        view=view,
        server=tapping,
        periodic=PeriodicTasks.from_conf(conf, view, clock, periodic),
        heartbeat=None,
        drain_s=0,
        copy=copy,
        close=close,
        profile=reader.profile,
        finished=requests.finished,
        found=reader.found,
        outages=reader.outages,
    )


def _reading(conf: cfg.ConfigOpts, dependencies: Dependencies) -> Dependencies:
    """Return dependencies that write nowhere."""
    engines.read_only(dependencies.api_engine)
    make = dependencies.make_cell_engine
    services = dependencies.services
    if isinstance(services, SqlServiceStore):
        services = SqlServiceStore(engines.read_only(engines.main_engine(conf)))
    return replace(
        dependencies,
        make_cell_engine=lambda url: engines.read_only(make(url)),
        notifier=SilentNotifier(),
        services=services,
    )


class _ServerRows:
    """The rows of servers in the cells that answer. Servers that found no host are in
    cell0."""

    def __init__(self, view: ClusterView, make_engine: Callable[[str], Engine]) -> None:
        self._view = view
        self._make_engine = make_engine
        self._cells: dict[str, CellServerRows] = {}

    def __call__(self, uuids: Sequence[str]) -> Iterator[ServerRow]:
        cells = self._view.cells
        for cell in filter(None, (*cells.enabled(), cells.cell0)):
            if cell.uuid not in self._cells:
                engine = engine_of(cell, self._make_engine)
                self._cells[cell.uuid] = CellServerRows(*engine)
            with contextlib.suppress(errors.StoreFailed):
                yield from self._cells[cell.uuid].of(uuids)

    def close(self) -> None:
        for each in self._cells.values():
            each.close()
