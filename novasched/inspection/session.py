# SPDX-License-Identifier: Apache-2.0
"""Sessions that read a cloud, made from a configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from oslo_config import cfg

from novasched import app, errors, opts
from novasched.clock import SYSTEM_CLOCK
from novasched.db.cells import UrlDefaults
from novasched.db.servers import SqlServers
from novasched.deadline import Check, never
from novasched.inspection import dry
from novasched.inspection.dry import DryRun
from novasched.inspection.pci_aliases import PciAliases
from novasched.inspection.requests import RequestMaker
from novasched.inspection.servers import ServerFinder
from novasched.inspection.table_placement import ChangedSource, TablePlacement
from novasched.inspection.what_if import WhatIf
from novasched.placement.snapshot import (
    ApiSource,
    PlacementSnapshot,
    SnapshotSource,
    node_sizes,
)
from novasched.providers.diagnosis import conditions, diagnose
from novasched.resources import Query
from novasched.scheduler.columns import Mask

OPTIONS_OF = (
    'attestation',
    'cluster',
    'compat',
    'db.engines',
    'decision_log',
    'drivers',
    'inspection.pci_aliases',
    'mirror',
    'network',
    'observability.settings',
    'placement',
    'plugins',
    'resources',
    'scheduler.filters',
    'scheduler.fit',
    'scheduler.weighers',
    'service',
    'servicegroup',
    'state_directory',
)
"""Modules whose options decide where servers go."""


def options() -> dict[str, list[cfg.Opt]]:
    """Return the options that a dry run reads, by group."""
    found = opts.gathered(f'novasched.{name}' for name in OPTIONS_OF)
    url = cfg.StrOpt('transport_url', secret=True, help='As for the scheduler.')
    return {**found, 'DEFAULT': [*found['DEFAULT'], url]}


@dataclass
class PlacementReader:
    """Says why placement offers what it does, by a snapshot that is read when it is
    first asked, at most once for each request that fails.

    ``kept`` returns one that somebody keeps instead, with the members of aggregates.
    """

    source: SnapshotSource
    run: DryRun | None = None
    kept: Callable[[Iterable[str]], PlacementSnapshot] | None = None
    _snapshot: PlacementSnapshot | None = field(default=None, repr=False)

    def diagnose(self, query: Query) -> Mapping[str, Any] | None:
        """Return the placement diagnosis of a query; None: it cannot be read."""
        snapshot = self._read(query)
        if snapshot is None or self.run is None:
            return None
        view = self.run.reader.view
        hosts = view.hosts(None)
        names = dict(zip(hosts.uuid.tolist(), hosts.host.tolist(), strict=True))
        aggregates = view.aggregates.names()
        return diagnose(query, snapshot.table, names, 0.0, snapshot.source, aggregates)

    def conditions(
        self, query: Query, uuids: Sequence[str]
    ) -> Mapping[str, Mask] | None:
        """Return which nodes meet each condition of a query; None: see diagnose()."""
        snapshot = self._read(query)
        if snapshot is None:
            return None
        return conditions(query, snapshot.table, uuids)

    def reason(self, query: Query, uuid: str, host: str) -> str | None:
        """Return the code of the first condition that a node does not meet; None: it
        meets all, or see diagnose()."""
        snapshot = self._read(query)
        if snapshot is None:
            return None
        found = diagnose(query, snapshot.table, {uuid: host})['reasons']
        return str(found[0]['code']) if found else None

    def snapshot(self, aggregates: Iterable[str]) -> PlacementSnapshot:
        """Read the state of placement. Raises errors.StoreFailed."""
        if self.kept is not None:
            return self.kept(aggregates)
        if self._snapshot is None:
            view = None if self.run is None else self.run.reader.view
            sizes = {} if view is None else node_sizes(view.hosts(None))
            self._snapshot = self.source.read(sizes, aggregates)
        elif not self._snapshot.knows(aggregates):
            self._snapshot = self.source.with_members(self._snapshot, aggregates)
        return self._snapshot

    @property
    def newest(self) -> PlacementSnapshot | None:
        """The snapshot that was read last; None: none was."""
        return self._snapshot

    def _read(self, query: Query) -> PlacementSnapshot | None:
        if self.run is None:
            return None
        try:
            snapshot = self.snapshot(query.aggregates())
        except errors.StoreFailed:
            return None
        return _less(snapshot, self.run.placement.taken)


def _less(
    snapshot: PlacementSnapshot, taken: Mapping[tuple[str, str], int]
) -> PlacementSnapshot:
    """Return a snapshot in which more is used, by provider and class."""
    contents = snapshot.contents
    ids = {uuid: id_ for id_, uuid in contents.uuids.items()}
    classes = {name: id_ for id_, name in contents.class_names.items()}
    more = {
        (ids[uuid], classes[name]): amount
        for (uuid, name), amount in taken.items()
        if uuid in ids and name in classes
    }
    if not more:
        return snapshot
    used = {(p, c): amount for p, c, amount in contents.usage.tolist()}
    for key, amount in more.items():
        used[key] = used.get(key, 0) + amount
    usage = np.array([(*key, amount) for key, amount in used.items()], np.int64)
    return replace(snapshot, contents=replace(contents, usage=usage))


@dataclass(frozen=True)
class Inspection:
    """A cloud as commands and the console read it."""

    conf: cfg.ConfigOpts
    run: DryRun
    api: SqlServers
    finder: ServerFinder
    maker: RequestMaker
    placement: PlacementReader

    def cells_left_out(self) -> list[str]:
        """Return the names of the cells that do not answer, or have stopped to."""
        away = self.run.reader.view.unavailable_cells()
        return list(dict.fromkeys([*away, *self.finder.unreadable]))


@contextlib.contextmanager
def opened(
    conf: cfg.ConfigOpts,
    *,
    seed: int | None = None,
    what_if: WhatIf | None = None,
    sources: app.Sources | None = None,
    check: Check = never,
) -> Iterator[Inspection]:
    """Read a cloud, or what it would be; close all connections in the end.

    ``check`` ends what takes too long. Raises errors.SetupError and errors.StoreFailed.
    """
    with contextlib.ExitStack() as stack:
        wrappers = None
        if sources is None:
            notifier = dry.SilentNotifier()
            sources = stack.enter_context(app.reading_sources(conf, notifier))
        # Of a broker nothing is needed; its URL only fills templates of cells.
        url = conf.transport_url if 'transport_url' in conf else None
        source = sources.snapshots or ApiSource(sources.placement, SYSTEM_CLOCK)
        placement = PlacementReader(source)
        if what_if:
            what_if.configure(conf)
            what_if.check = check
            changed = ChangedSource(source, what_if.snapshot, what_if.added)
            placement.source = changed
            wrappers = replace(
                what_if.wrappers(),
                placement=lambda inner: TablePlacement(inner, placement.snapshot),
            )
        run = stack.enter_context(
            dry.opened(
                conf,
                sources,
                seed=seed,
                wrappers=wrappers,
                transport_url=url,
                diagnose=placement.diagnose,
                check=check,
            )
        )
        if what_if:
            run = replace(run, offered_by=lambda: placement.newest)
        placement.run = run
        defaults = UrlDefaults(conf.database.connection, url)
        api = SqlServers(sources.api_engine, defaults)
        finder = ServerFinder(
            api, sources.make_cell_engine, run.reader.view.unavailable_cells()
        )
        stack.callback(finder.close)
        maker = RequestMaker(api, finder, PciAliases.from_conf(conf))
        yield Inspection(conf, run, api, finder, maker, placement)
