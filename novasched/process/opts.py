# SPDX-License-Identifier: Apache-2.0
"""Every option, gathered from the modules that read them."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType

from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import _options as logging
from oslo_service import _options as launcher  # type: ignore[import-untyped]

import novasched
from novasched.process import configuration

READERS = (
    'cluster',
    'compat',
    'console.settings',
    'db.engines',
    'decisions',
    'drivers',
    'external',
    'history',
    'journal',
    'inspection.session.pci_aliases',
    'observability.settings',
    'observability.tracing',
    'outages',
    'placement.session',
    'placement.writes',
    'placement_copy',
    'plugins',
    'process.guru_meditation',
    'process.service',
    'resources',
    'rpc',
    'runtime.state_directory',
    'scheduler.filters',
    'scheduler.fit',
    'scheduler.weighers',
    'shadow',
)

AUTHENTICATED = ('neutron', 'placement', 'service_user')
"""Groups that hold the options of a kind of authentication, too."""

AUTHENTICATIONS = (
    'admin_token',
    'http_basic',
    'password',
    'token',
    'v2password',
    'v3applicationcredential',
    'v3password',
    'v3token',
    'v3totp',
)


def _modules(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(name)
    yield module
    for found in pkgutil.iter_modules(getattr(module, '__path__', ())):
        yield from _modules(f'{name}.{found.name}')


def gathered(readers: Iterable[str]) -> dict[str, list[cfg.Opt]]:
    """Return the options of modules and of all below them, by group."""
    groups: dict[str, list[cfg.Opt]] = {}
    for module in itertools.chain.from_iterable(map(_modules, readers)):
        for group, found in getattr(module, 'OPTS', {}).items():
            groups.setdefault(group, []).extend(found)
    return groups


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) for oslo-config-generator."""
    # oslo.service registers its own when it launches, with what it finds here.
    cfg.set_defaults(launcher.service_opts, graceful_shutdown_timeout=180)
    groups = gathered(f'{novasched.__name__}.{name}' for name in READERS)
    groups['DEFAULT'] = [*launcher.service_opts, *groups['DEFAULT']]
    return sorted(groups.items())


def with_logging() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options), with oslo.log's."""
    logged = [(group or 'DEFAULT', options) for group, options in logging.list_opts()]
    return [*list_opts(), *logged]


def known() -> dict[str, set[str]]:
    """Return every name that an option may have in a file, old ones too, by group."""
    names: dict[str, set[str]] = {}
    for group, options in with_logging():
        found = names.setdefault(group, set())
        found.update(option.dest for option in options)
        for option in options:
            for old in option.deprecated_opts:
                names.setdefault(old.group or group, set()).add(old.name or option.dest)
    for group, kind in itertools.product(AUTHENTICATED, AUTHENTICATIONS):
        for each in loading.get_plugin_options(kind):
            names[group].update(named.dest for named in (each, *each.deprecated))
    return names


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options, so that a configuration file can be read."""
    configuration.register(conf, list_opts())
