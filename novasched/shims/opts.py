# SPDX-License-Identifier: Apache-2.0
"""The options of the shims, besides those of the scheduler."""

from __future__ import annotations

from oslo_config import cfg

from novasched import opts

READERS = ('shims.compute', 'shims.conductor')


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) for oslo-config-generator."""
    return sorted(opts.gathered(READERS).items())


def register(conf: cfg.ConfigOpts) -> None:
    """Register these and the scheduler's, so that a configuration can be read."""
    opts.register(conf)
    for group, found in list_opts():
        conf.register_opts(found, None if group == 'DEFAULT' else group)
