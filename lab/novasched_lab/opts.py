# SPDX-License-Identifier: Apache-2.0
"""Options of the conductor and the computes; they read the scheduler's, too."""

from __future__ import annotations

from oslo_config import cfg

import novasched_lab
from novasched.process import configuration, opts

READERS = ('api', 'conductor')


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) for oslo-config-generator."""
    return sorted(
        opts.gathered(f'{novasched_lab.__name__}.{name}' for name in READERS).items()
    )


def register(conf: cfg.ConfigOpts) -> None:
    """Register these and the scheduler's, so that a configuration can be read."""
    opts.register(conf)
    configuration.register(conf, list_opts())
