# SPDX-License-Identifier: Apache-2.0
"""Sessions that read a cloud, made from a configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oslo_config import cfg

from novasched import app, errors
from novasched.app.sources import hints_of
from novasched.cluster.view import ClusterView
from novasched.db.cells import UrlDefaults
from novasched.db.servers import SqlServers
from novasched.decisions import files
from novasched.decisions.record import DecisionRecord
from novasched.external.silent import SilentNotifier
from novasched.inspection.session import catalogue, dry_run, places
from novasched.inspection.session.copy_on_demand import CopiedPlacement, CopyOnDemand
from novasched.inspection.session.dry_run import DryRun
from novasched.inspection.session.orders import BootOrder
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.requests import DryRequest, RequestMaker
from novasched.inspection.session.servers import ServerFinder
from novasched.inspection.session.what_if import WhatIf
from novasched.objects.flavor import Flavor
from novasched.placement_copy import PlacementCopy, uses_copy
from novasched.placement_copy.readers.shared_file import MachineCopy, path_in
from novasched.process import opts
from novasched.providers.diagnosis import conditions, diagnose
from novasched.providers.hints import CloudHints
from novasched.resources import Query
from novasched.runtime.deadline import Check, never
from novasched.scheduler.columns import Mask

ReadRecord = Callable[[str], DecisionRecord]
"""Returns the record of a decision. Raises errors.DecisionNotFound."""
OPTIONS_OF = (
    'cluster',
    'compat',
    'db.engines',
    'decisions',
    'drivers',
    'external',
    'inspection.session.pci_aliases',
    'observability.settings',
    'placement',
    'placement_copy',
    'plugins',
    'process.service',
    'resources',
    'runtime.state_directory',
    'scheduler.filters',
    'scheduler.fit',
    'scheduler.weighers',
)
"""Modules whose options decide where servers go."""


def options() -> dict[str, list[cfg.Opt]]:
    """Return the options that a dry run reads, by group."""
    found = opts.gathered(f'novasched.{name}' for name in OPTIONS_OF)
    url = cfg.StrOpt('transport_url', secret=True, help='As for the scheduler.')
    return {**found, 'DEFAULT': [*found['DEFAULT'], url]}


@dataclass
class PlacementReader:
    """Says why placement offers what it does, by a copy of it that is read when it is
    first asked. ``max_age_s``: how old it may be, if that matters."""

    copies: CopyOnDemand
    run: DryRun | None = None
    max_age_s: float | None = None

    def diagnose(self, query: Query) -> Mapping[str, Any] | None:
        """Return the placement diagnosis of a query; None if it cannot be read."""
        copy = self._read(query)
        if copy is None or self.run is None:
            return None
        view = self.run.reader.view
        hosts = view.hosts(None)
        names = dict(zip(hosts.uuid.tolist(), hosts.host.tolist(), strict=True))
        aggregates = view.aggregates.names()
        return diagnose(query, copy.table, names, 0.0, copy.source, aggregates)

    def conditions(
        self, query: Query, uuids: Sequence[str]
    ) -> Mapping[str, Mask] | None:
        """Return which nodes meet each condition of a query; None as in diagnose()."""
        copy = self._read(query)
        return None if copy is None else conditions(query, copy.table, uuids)

    def reason(self, query: Query, uuid: str, host: str) -> str | None:
        """Return the code of the first condition that a node does not meet.

        None if it meets all, or as in diagnose().
        """
        copy = self._read(query)
        if copy is None:
            return None
        found = diagnose(query, copy.table, {uuid: host})['reasons']
        return str(found[0]['code']) if found else None

    def copy(self, aggregates: Iterable[str]) -> PlacementCopy:
        """Return a copy that knows these aggregates. Raises errors.StoreFailed."""
        return self.copies(aggregates, self.max_age_s)

    def _read(self, query: Query) -> PlacementCopy | None:
        if self.run is None:
            return None
        try:
            copy = self.copy(query.aggregates())
        except errors.StoreFailed:
            return None
        taken: dict[str, dict[str, int]] = {}
        for (uuid, name), amount in self.run.placement.taken.items():
            taken.setdefault(uuid, {})[name] = amount
        return copy.after(taken)


def _path(conf: cfg.ConfigOpts) -> Path | None:
    """Return the file in which the scheduler of this machine keeps its copy, if it
    does."""
    try:
        return path_in(files.existing(conf), conf)
    except errors.OptionError:
        return None


def _hints(view: ClusterView, added: Collection[str]) -> CloudHints:
    """Return the hints of a view; placement does not know the nodes of ``added``."""
    known = hints_of(view)
    return replace(
        known,
        sizes=lambda: {u: size for u, size in known.sizes().items() if u not in added},
    )


@dataclass(frozen=True)
class Inspection:
    """A cloud as commands and the console read it."""

    conf: cfg.ConfigOpts
    run: DryRun
    api: SqlServers
    finder: ServerFinder
    maker: RequestMaker
    placement: PlacementReader

    @property
    def copies(self) -> CopyOnDemand:
        """The copies of placement that are read."""
        return self.placement.copies

    def flavor(self, text: str) -> Flavor:
        """Return the flavor that a text names, or says in full. Raises
        errors.OptionError."""
        return catalogue.flavor_of(text, self.api.flavor, {})

    def request(
        self,
        order: BootOrder,
        read: ReadRecord,
        host: str = '',
    ) -> DryRequest:
        """Return the request of an order, or its request for a host alone.

        Raises errors.OptionError, errors.InvalidDemand and errors.StoreFailed.
        """
        order.check()
        places.check(self.run, order.zone, host)
        if order.like:
            asked = self._like(order, read)
        else:
            flavor = self.flavor(order.flavor)
            image = catalogue.image_for(flavor, order.image)
            asked = self.maker.boot(flavor, image, order)
        return asked.only_on(host) if host else asked

    def _like(self, order: BootOrder, read: ReadRecord) -> DryRequest:
        if not order.like.startswith('d-'):
            return self.maker.like_server(self.finder.one(order.like), order.count)
        record = read(order.like)
        if record.body.request is None:
            problem = f'{order.like}: only its head is kept'
            raise errors.OptionError('--like', problem, 'Give --flavor')
        project = record.head.project_id or None
        return self.maker.like(record.body.request, project, order.count)

    def cells_left_out(self) -> list[str]:
        """Return the names of the cells that do not answer, or have stopped to."""
        silent = self.run.reader.view.unavailable_cells()
        return list(dict.fromkeys([*silent, *self.finder.unreadable]))


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
            notifier = SilentNotifier()
            sources = stack.enter_context(app.reading_sources(conf, notifier))
        # Of a broker nothing is needed; its URL only fills templates of cells.
        url = conf.transport_url if 'transport_url' in conf else None
        store = sources.providers or app.provider_store(sources.placement, None)
        copies = CopyOnDemand(store)
        if not store.reads_fast and (path := _path(conf)):
            copies.of_machine = MachineCopy(path)
        placement = PlacementReader(copies)
        if what_if:
            what_if.configure(conf)
            what_if.check = check
            copies.change = what_if.contents
            wrappers = what_if.wrappers()
        is_copied = bool(what_if) or uses_copy(conf)
        if is_copied:
            wrappers = replace(
                wrappers or app.Wrappers(),
                placement=lambda inner: CopiedPlacement(
                    inner, placement.copy, as_it_is=not what_if
                ),
            )
        run = stack.enter_context(
            dry_run.opened(
                conf,
                sources,
                seed=seed,
                wrappers=wrappers,
                transport_url=url,
                diagnose=placement.diagnose,
                check=check,
            )
        )
        if is_copied:
            run = replace(run, offered_by=lambda: copies.newest)
        placement.run = run
        copies.hints = _hints(run.reader.view, what_if.added if what_if else ())
        defaults = UrlDefaults(conf.database.connection, url)
        api = SqlServers(sources.api_engine, defaults)
        finder = ServerFinder(
            api, sources.make_cell_engine, run.reader.view.unavailable_cells()
        )
        stack.callback(finder.close)
        maker = RequestMaker(api, finder, PciAliases.from_conf(conf))
        yield Inspection(conf, run, api, finder, maker, placement)
