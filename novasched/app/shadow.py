# SPDX-License-Identifier: Apache-2.0
"""A shadow, wired: it taps what nova-scheduler is asked, and may only read."""

from __future__ import annotations

import contextlib
import datetime
import functools
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
from novasched.observability import catalogue
from novasched.observability.catalogue import Recorder
from novasched.placement.claimless import ClaimlessPlacement
from novasched.placement_copy.copy import CopyKeeper
from novasched.ports import Cell, Placement
from novasched.process.service import Scheduler, host_of
from novasched.rpc import server, tap
from novasched.rpc.tap import Phase, TapObserver
from novasched.scheduler.pipeline import Profile
from novasched.shadow import keeping
from novasched.shadow.choices import ChoiceFinder
from novasched.shadow.early import EarlyClaims
from novasched.shadow.log import LOOK_EVERY_S, ShadowLog
from novasched.shadow.phases import Phases

WRITE_EVERY_S = 10.0
"""Times in which requests were tapped are written so often."""
DRAIN_S = 5.0
"""A stop waits so long for the request under way, which nobody waits for."""
MOST_AGE_S = 60.0
"""A copy of placement that is older is not looked at for claims of nova."""


def compose(
    conf: cfg.ConfigOpts, dependencies: Dependencies, profile: Profile | None = None
) -> Scheduler:
    """Wire a shadow; nothing runs yet. See app.compose(), which it resembles: but it
    claims nothing, has no row of a service, no journal and no queue of a scheduler."""
    clock, instrumentation = dependencies.clock, dependencies.instrumentation
    store = open_store(conf, instrumentation.decision_log)
    dependencies = _reading(dependencies)
    make_log = LogMaker(conf, dependencies, store)
    services = servicegroup.services(conf, dependencies.services, clock)
    phases = Phases()
    shadow_log = _ShadowLogMaker(conf, dependencies, make_log, phases)
    kept = dependencies.kept
    reader = app.compose_reader(
        conf,
        dependencies,
        profile,
        make_log=shadow_log,
        transport_url=dependencies.transport.conf.transport_url,
        # What we pick is not where the server goes: other requests must not see it.
        wrappers=app.Wrappers(placement=shadow_log.claimless, claims=False),
        found=kept.release.at_least(find(conf, services, clock)),
    )
    view, copy = reader.view, reader.copy
    manager = reader.following(kept.release)
    requests = instrumentation.requests
    # No conductor is asked for an older form of an object: it would take a message.
    endpoint = server.SchedulerEndpoint(manager, None, requests)
    tapping = tap.from_conf(
        conf,
        server.Dispatcher([endpoint], requests),
        requests,
        host=host_of(conf),
        topic=server.TOPIC,
        observer=_TapMetrics(instrumentation.recorder, phases),
    )

    def write_intervals() -> None:
        intervals = tapping.intervals()
        for interval in intervals:
            store.store.write_listened(interval.since_s, interval.until_s)
        tapping.forget(intervals)

    periodic = [
        *view.periodic_tasks(),
        *(copy.periodic_tasks() if copy is not None else ()),
        *driver_loading.periodic_tasks(conf, lambda: manager.driver),
        *follow_tasks(conf, reader.found, services, clock, manager, None),
        *make_log.tasks(reader.outages, instrumentation.picks),
        (LOOK_EVERY_S, shadow_log.made.look),
        (WRITE_EVERY_S, write_intervals),
    ]

    def close() -> None:
        with contextlib.suppress(errors.StoreFailed):
            write_intervals()
        ended = (shadow_log.made, shadow_log.servers, store.store, dependencies)
        for each in ended:
            each.close()

    return Scheduler(
        manager=manager,
        view=view,
        server=tapping,
        periodic=PeriodicTasks.from_conf(conf, view, clock, periodic),
        heartbeat=None,
        drain_s=DRAIN_S,
        copy=copy,
        close=close,
        profile=reader.profile,
        finished=requests.finished,
        found=reader.found,
        outages=reader.outages,
    )


class _TapMetrics(TapObserver):
    """Counts what is tapped, and hears how long nova takes."""

    def __init__(self, recorder: Recorder, phases: Phases) -> None:
        self._recorder = recorder
        self._phases = phases

    def tapped(self) -> None:
        self._recorder.count(catalogue.TAPPED)

    def notified(self, phase: Phase) -> None:
        self._phases.add(phase)

    def missed(self, seconds: float) -> None:
        self._recorder.count(catalogue.TAP_GAPS)
        self._recorder.count(catalogue.TAP_GAP_SECONDS, by=seconds)


class _ShadowLogMaker:
    """Makes the log of a shadow. It asks the placement of which nothing is claimed."""

    placement: Placement
    servers: _CellServers
    made: ShadowLog

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        dependencies: Dependencies,
        make_log: LogMaker,
        phases: Phases,
    ) -> None:
        self._conf = conf
        self._dependencies = dependencies
        self._make_log = make_log
        self._phases = phases

    def claimless(self, placement: Placement) -> ClaimlessPlacement:
        self.placement = placement
        return ClaimlessPlacement(placement)

    def __call__(
        self, view: ClusterView, profile: Profile, copy: CopyKeeper | None
    ) -> ShadowLog:
        conf, dependencies = self._conf, self._dependencies
        self.servers = _CellServers(view, dependencies.make_cell_engine)
        early = None
        if copy is not None:
            early = EarlyClaims(
                dependencies.placement,
                copy.own_claims,
                lambda: copy.current(MOST_AGE_S),
                dependencies.clock.monotonic,
            )
        self.made = ShadowLog(
            self._make_log(view, profile, copy),
            ChoiceFinder(self.placement, view.hosts_by_node, self.servers),
            self._phases,
            dependencies.clock,
            early,
            conf.scheduler.max_placement_results,
            functools.partial(keeping.is_kept_whole, conf.novasched.shadow_keep),
        )
        return self.made


def _reading(dependencies: Dependencies) -> Dependencies:
    """Return dependencies that write nowhere."""
    engines.read_only(dependencies.api_engine)
    make = dependencies.make_cell_engine
    if isinstance(dependencies.services, SqlServiceStore):
        engines.read_only(dependencies.services.database.engine)
    return replace(
        dependencies,
        make_cell_engine=lambda url: engines.read_only(make(url)),
        notifier=SilentNotifier(),
    )


class _CellServers:
    """Servers in the cells that answer; those that found no host are in cell0.
    Satisfies shadow.choices.ServersOfCells."""

    def __init__(self, view: ClusterView, make_engine: Callable[[str], Engine]) -> None:
        self._view = view
        self._make_engine = make_engine
        self._cells: dict[str, CellServerRows] = {}

    def rows(self, uuids: Sequence[str]) -> Iterator[ServerRow]:
        for cell in self._available():
            with contextlib.suppress(errors.StoreFailed):
                yield from self._servers_of(cell).of(uuids)

    def faults(self, uuids: Sequence[str], since: datetime.datetime) -> dict[str, str]:
        found: dict[str, str] = {}
        for cell in self._available():
            with contextlib.suppress(errors.StoreFailed):
                found |= self._servers_of(cell).faults(uuids, since)
        return found

    def _available(self) -> list[Cell]:
        cells = self._view.cells
        away = {cell.uuid for cell in cells.unavailable()}
        every = filter(None, (*cells.enabled(), cells.cell0))
        return [cell for cell in every if cell.uuid not in away]

    def _servers_of(self, cell: Cell) -> CellServerRows:
        if cell.uuid not in self._cells:
            engine = engine_of(cell, self._make_engine)
            self._cells[cell.uuid] = CellServerRows(*engine)
        return self._cells[cell.uuid]

    def close(self) -> None:
        for each in self._cells.values():
            each.close()
