# SPDX-License-Identifier: Apache-2.0
"""The common start of the daemons, before any of their modules is imported.

Threads or eventlet are chosen before anything is imported that could be patched.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence

from oslo_config import cfg

from novasched import errors, printable
from novasched.cmd import quietly
from novasched.process import configuration

QUESTIONS = {'-h', '--help', '--version'}
COMPLETION = '--shell_completion'
"""An option of oslo.config whose templates its packages lack."""

BACKEND = '[DEFAULT] concurrency_backend'
BACKEND_ENVIRONMENT = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'


def run(
    name: str,
    does: str,
    argv: Sequence[str] | None,
    serve: Callable[[Sequence[str]], int],
    options: Sequence[cfg.Opt] = (),
    backend: str | None = None,
) -> int:
    """Run a daemon; what keeps it from running is one line and exit code 1.

    Its help says what it ``does``, and shows its ``options``. ``backend`` is used
    instead of what the configuration says: threading or eventlet.
    """

    def start(words: Sequence[str]) -> int:
        try:
            if COMPLETION in (word.partition('=')[0] for word in words):
                raise errors.OptionError(COMPLETION, 'not offered', 'Leave it out')
            if QUESTIONS.intersection(words):
                _answer(name, does, options, words)
            use_backend(backend or chosen_backend(words))
            return serve(words)
        except (errors.NovaschedError, cfg.Error) as problem:
            said = printable.mask(f'{name}: {problem}')
            printable.Stream(sys.stderr).write(f'{said}\n')
            return 1

    return quietly(start, argv)


def _answer(
    name: str, does: str, options: Sequence[cfg.Opt], argv: Sequence[str]
) -> None:
    """Print the help or the version and exit, without loading the daemon."""
    from oslo_log import log

    conf = cfg.ConfigOpts()
    conf.unregister_opt(cfg.StrOpt(COMPLETION.removeprefix('--')))
    log.register_options(conf)
    conf.register_cli_opts(options)
    version = f'novasched {importlib.metadata.version("novasched")}'
    conf(list(argv), prog=name, description=does, version=version)


def use_backend(chosen: str) -> None:
    """Patch the standard library if it is eventlet. Raises errors.OptionError."""
    if chosen == 'eventlet':
        sys.modules.pop('eventlet', None)  # novasched.cmd keeps it out
        try:
            import eventlet  # type: ignore[import-untyped]
        except ModuleNotFoundError:
            remedy = 'Install novasched[eventlet], or use threading.'
            raise errors.OptionError(BACKEND, 'eventlet is missing', remedy) from None
        eventlet.monkey_patch()
    from oslo_service import backend  # type: ignore[import-untyped]

    backend.init_backend(backend.BackendType(chosen))


def chosen_backend(argv: Sequence[str]) -> str:
    """Return threading or eventlet; the environment wins over the option, and ``auto``
    means threads. Raises errors.OptionError and oslo_config.cfg.Error.
    """
    wanted = os.environ.get(BACKEND_ENVIRONMENT, '')
    if wanted:
        return 'threading' if wanted.lower() in ('1', 'true', 'yes') else 'eventlet'
    conf = cfg.ConfigOpts()
    backends = ['auto', 'threading', 'eventlet']
    conf.register_opt(cfg.StrOpt('concurrency_backend', choices=backends))
    configuration.read(conf, configuration.arguments(argv), 'nova-scheduler')
    return 'eventlet' if conf.concurrency_backend == 'eventlet' else 'threading'
