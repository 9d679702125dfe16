# SPDX-License-Identifier: Apache-2.0
"""The options of the shims, besides those of the scheduler."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from oslo_config import cfg

from novasched import opts


def _modules(name: str) -> Iterator[ModuleType]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, f'{name}.'):
        yield importlib.import_module(found.name)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) for oslo-config-generator."""
    groups: dict[str, list[cfg.Opt]] = {}
    for module in _modules(__name__.rpartition('.')[0]):
        for group, found in getattr(module, 'OPTS', {}).items():
            groups.setdefault(group, []).extend(found)
    return sorted(groups.items())


def register(conf: cfg.ConfigOpts) -> None:
    """Register these and the scheduler's, so that a configuration can be read."""
    opts.register(conf)
    for group, found in list_opts():
        conf.register_opts(found, None if group == 'DEFAULT' else group)
