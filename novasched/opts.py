# SPDX-License-Identifier: Apache-2.0
"""Every option: each stands in the module that reads it, and is gathered here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from oslo_config import cfg
from oslo_service import _options as launcher  # type: ignore[import-untyped]

import novasched

READERS = (
    'attestation',
    'cluster',
    'db.engines',
    'drivers',
    'journal',
    'meditation',
    'network',
    'observing.addresses',
    'observing.worker',
    'placement.session',
    'plugins',
    'resources',
    'rpc',
    'scheduler.filters',
    'scheduler.fit',
    'scheduler.weighers',
    'service',
    'servicegroup.memcached',
)


def _modules(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(f'{novasched.__name__}.{name}')
    yield module
    for found in pkgutil.iter_modules(getattr(module, '__path__', ())):
        yield from _modules(f'{name}.{found.name}')


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) for oslo-config-generator."""
    # oslo.service registers its own when it launches, with what it finds here.
    cfg.set_defaults(launcher.service_opts, graceful_shutdown_timeout=180)
    groups: dict[str, list[cfg.Opt]] = {'DEFAULT': list(launcher.service_opts)}
    for reader in READERS:
        for module in _modules(reader):
            for group, opts in getattr(module, 'OPTS', {}).items():
                groups.setdefault(group, []).extend(opts)
    return sorted(groups.items())


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options, so that a configuration file can be read."""
    for group, opts in list_opts():
        conf.register_opts(opts, None if group == 'DEFAULT' else group)
