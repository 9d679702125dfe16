# SPDX-License-Identifier: Apache-2.0
"""The neighbours of the API, made from a configuration."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from oslo_config import cfg

from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import NO_ALIASES
from novasched.placement import session
from novasched_lab import opts, resource_providers
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Brokers, CellLinks
from novasched_lab.db.api_servers import ApiServers, ServerGroups
from novasched_lab.rpc_api import ConductorClient

PROGRAM = 'nova-api'


@dataclass(frozen=True)
class ApiContext:
    """What the API works with.

    ``provider_name`` returns the name of the resource provider of a uuid. Hosts that
    no aggregate puts into a zone are in ``default_zone``.
    """

    database: ApiServers
    groups: ServerGroups
    cells: CellLinks
    conductor: ConductorClient
    allocations: Allocations
    provider_name: Callable[[str], str]
    aliases: PciAliases = NO_ALIASES
    default_zone: str = 'nova'


def configure(files: Sequence[str], dirs: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read configuration files; nova's, if none is named.

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
def opened(conf: cfg.ConfigOpts) -> Iterator[ApiContext]:
    """Make the context that a configuration names; close it in the end.

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
        database = ApiServers(engine, defaults)
        make_engine = functools.partial(engines.cell_engine, conf)
        cells = CellLinks(database, make_engine, brokers.transport)
        stack.callback(cells.close)
        yield ApiContext(
            database=database,
            groups=ServerGroups(engine),
            cells=cells,
            conductor=ConductorClient(brokers.own),
            allocations=Allocations(placement),
            provider_name=functools.partial(resource_providers.name_of, placement),
            aliases=PciAliases.from_conf(conf),
            default_zone=conf.default_availability_zone,
        )
