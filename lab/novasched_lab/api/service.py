# SPDX-License-Identifier: Apache-2.0
"""The neighbours of the API, made from a configuration."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oslo_config import cfg

from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.placement import session
from novasched.placement.allocations import ConsumerAllocations
from novasched_lab import opts
from novasched_lab.allocations import Allocations
from novasched_lab.api.providers import Providers
from novasched_lab.brokers import Brokers
from novasched_lab.cells import Cells
from novasched_lab.conductor.aliases import Aliases
from novasched_lab.conductor.spec import NO_ALIASES
from novasched_lab.store.server_groups import ServerGroups
from novasched_lab.store.stores import ApiServers
from novasched_lab.wire import ConductorClient

PROGRAM = 'nova-api'


class Conductor(Protocol):
    """Whoever builds and moves; see wire.ConductorClient."""

    def schedule_and_build_instances(
        self,
        context: RequestContext,
        build_requests: Sequence[Any],
        request_specs: Sequence[RequestSpec],
        image: Any = None,
    ) -> None:
        """Have new instances placed and built."""

    def migrate_server(
        self,
        context: RequestContext,
        instance: Instance,
        flavor: Flavor | None = None,
        request_spec: RequestSpec | None = None,
    ) -> None:
        """Have an instance moved; wait until it is begun."""


class Holdings(Protocol):
    """What consumers hold in placement; see novasched_lab.allocations.Allocations."""

    def held_by(self, context: RequestContext, consumer: str) -> ConsumerAllocations:
        """Return what a consumer holds; raises errors.AllocationUpdateFailed."""

    def remove(self, context: RequestContext, consumer: str) -> bool:
        """Take all away from a consumer; False if it cannot be done."""


class Names(Protocol):
    """How resource providers are called; see api.providers.Providers."""

    def name(self, context: RequestContext, uuid: str) -> str:
        """Return the name of a provider, or its uuid where it is not known."""


@dataclass(frozen=True)
class Parts:
    """What the API works with; ``database`` is the API database.

    Hosts that no aggregate puts into a zone are in ``default_zone``.
    """

    api: ApiServers
    database: Database
    groups: ServerGroups
    cells: Cells
    conductor: Conductor
    allocations: Holdings
    providers: Names
    aliases: Aliases = NO_ALIASES
    default_zone: str = 'nova'


def configure(files: Sequence[str], dirs: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read configuration files, or those of nova where none is named.

    Raises oslo_config.cfg.Error.
    """
    conf = cfg.ConfigOpts()
    opts.register(conf)
    named = [f'--config-file={path}' for path in files]
    named += [f'--config-dir={path}' for path in dirs]
    conf(
        named,
        project='nova',
        prog=PROGRAM,
        default_config_files=cfg.find_config_files('nova', PROGRAM),
        default_config_dirs=cfg.find_config_dirs('nova', PROGRAM),
    )
    return conf


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[Parts]:
    """Make the parts that a configuration names; close them in the end.

    The API database is tried, all else connects when it is used. Raises
    errors.OptionError.
    """
    with contextlib.ExitStack() as stack:
        engine = engines.api_engine(conf)
        stack.callback(engine.dispose)
        engines.check(engine, engines.API)
        brokers = Brokers(conf)
        stack.callback(brokers.close)
        placement = session.from_conf(conf)
        stack.callback(placement.session.session.close)
        defaults = UrlDefaults(conf.database.connection, brokers.own.conf.transport_url)
        api = ApiServers(engine, defaults)
        make_engine = functools.partial(engines.cell_engine, conf)
        cells = Cells(api, make_engine, brokers.transport)
        stack.callback(cells.close)
        yield Parts(
            api=api,
            database=Database(engine),
            groups=ServerGroups(engine),
            cells=cells,
            conductor=ConductorClient(brokers.own),
            allocations=Allocations(placement),
            providers=Providers(placement),
            aliases=Aliases.from_conf(conf),
            default_zone=conf.default_availability_zone,
        )
