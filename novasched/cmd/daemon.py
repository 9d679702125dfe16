# SPDX-License-Identifier: Apache-2.0
"""The common start of the daemons, before any of their modules is imported."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from oslo_config import cfg

from novasched import errors
from novasched.cmd import concurrency, ending

QUESTIONS = {'-h', '--help', '--version'}
COMPLETION = '--shell_completion'
"""An option of oslo.config whose templates its packages lack."""


class Program(NamedTuple):
    """A daemon: its name, what it says it does, and options of its command line."""

    name: str
    does: str
    options: Sequence[cfg.Opt] = ()


def run(
    program: Program,
    argv: Sequence[str] | None,
    serve: Callable[[Sequence[str]], int],
) -> int:
    """Run a daemon; what keeps it from running is one line and exit code 1."""
    words = sys.argv[1:] if argv is None else argv
    return ending.quietly(lambda: _run(program, words, serve))


def _run(
    program: Program, argv: Sequence[str], serve: Callable[[Sequence[str]], int]
) -> int:
    try:
        if COMPLETION in (word.partition('=')[0] for word in argv):
            raise errors.OptionError(COMPLETION, 'not offered', 'Leave it out')
        if QUESTIONS.intersection(argv):
            _answer(program, argv)
        concurrency.select(argv)
        return serve(argv)
    except (errors.NovaschedError, cfg.Error) as problem:
        sys.stderr.write(f'{program.name}: {problem}\n')
        return 1


def _answer(program: Program, argv: Sequence[str]) -> None:
    """Print the help or the version and exit, without loading the daemon."""
    from oslo_log import log

    conf = cfg.ConfigOpts()
    conf.unregister_opt(cfg.StrOpt(COMPLETION.removeprefix('--')))
    log.register_options(conf)
    conf.register_cli_opts(program.options)
    version = f'novasched {importlib.metadata.version("novasched")}'
    conf(list(argv), prog=program.name, description=program.does, version=version)
