# SPDX-License-Identifier: Apache-2.0
"""Threads or eventlet: chosen before anything that could be patched is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from oslo_config import cfg

ENVIRONMENT = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'


def select(argv: Sequence[str]) -> str:
    """Patch the standard library if eventlet is asked for; return the backend.

    ``threading`` or ``eventlet``. The environment wins over the option
    ``concurrency_backend``; ``auto`` means threads. Raises
    oslo_config.cfg.Error for configuration files that cannot be read.
    """
    from oslo_service import backend  # type: ignore[import-untyped]

    chosen = _chosen(argv)
    if chosen == 'eventlet':
        import eventlet  # type: ignore[import-untyped]

        eventlet.monkey_patch()
    else:
        # Libraries import it where it is installed; among threads it may not be.
        sys.modules['eventlet'] = None  # type: ignore[assignment]
    backend.init_backend(backend.BackendType(chosen))
    return chosen


def _chosen(argv: Sequence[str]) -> str:
    wanted = os.environ.get(ENVIRONMENT, '')
    if wanted:
        return 'threading' if wanted.lower() in ('1', 'true', 'yes') else 'eventlet'
    conf = cfg.ConfigOpts()
    conf.register_opt(
        cfg.StrOpt('concurrency_backend', choices=['auto', 'threading', 'eventlet'])
    )
    conf(_files_and_directories(argv), project='nova', prog='nova-scheduler')
    backend: str | None = conf.concurrency_backend
    return 'eventlet' if backend == 'eventlet' else 'threading'


def _files_and_directories(argv: Sequence[str]) -> list[str]:
    found: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ('--config-file', '--config-dir'):
            found += [word, next(words, '')]
        elif word.startswith(('--config-file=', '--config-dir=')):
            found.append(word)
    return found
