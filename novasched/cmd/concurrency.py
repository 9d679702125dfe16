# SPDX-License-Identifier: Apache-2.0
"""Threads or eventlet: chosen before anything that could be patched is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from oslo_config import cfg

from novasched import configuration, errors

OPTION = '[DEFAULT] concurrency_backend'
ENVIRONMENT = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'


def select(argv: Sequence[str]) -> str:
    """Patch the standard library if eventlet is asked for; return the backend.

    The environment wins over the option; ``auto`` means threads. Raises
    errors.OptionError and oslo_config.cfg.Error.
    """
    chosen = _chosen(argv)
    if chosen == 'eventlet':
        try:
            import eventlet  # type: ignore[import-untyped]
        except ModuleNotFoundError:
            remedy = 'Install novasched[eventlet], or use threading.'
            raise errors.OptionError(OPTION, 'eventlet is missing', remedy) from None
        eventlet.monkey_patch()
    else:
        # Libraries import it where it is installed; among threads it may not be.
        sys.modules['eventlet'] = None  # type: ignore[assignment]
    from oslo_service import backend  # type: ignore[import-untyped]

    backend.init_backend(backend.BackendType(chosen))
    return chosen


def _chosen(argv: Sequence[str]) -> str:
    wanted = os.environ.get(ENVIRONMENT, '')
    if wanted:
        return 'threading' if wanted.lower() in ('1', 'true', 'yes') else 'eventlet'
    conf = cfg.ConfigOpts()
    backends = ['auto', 'threading', 'eventlet']
    conf.register_opt(cfg.StrOpt('concurrency_backend', choices=backends))
    configuration.read(conf, configuration.arguments(argv), 'nova-scheduler')
    return 'eventlet' if conf.concurrency_backend == 'eventlet' else 'threading'
