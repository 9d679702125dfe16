# SPDX-License-Identifier: Apache-2.0
"""novasched-console: pages on what the schedulers decide, and why."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from oslo_config import cfg

from novasched import errors, printable
from novasched.cmd import daemon

NAME = 'novasched-console'
DOES = 'Show what the schedulers of a cloud decide, and why, in a browser.'
EXTRA = frozenset({'cheroot', 'flask', 'jinja2', 'keystonemiddleware', 'oslo_policy'})
"""What the extra ``console`` brings."""
OPTIONS = [
    cfg.BoolOpt(
        'demo',
        default=False,
        help='Show a cloud that is made for this, and has just decided on some hundred '
        'requests; nothing else is read. Needs novasched-lab.',
    ),
    cfg.StrOpt(
        'listen',
        metavar='ADDRESS',
        help='Where to listen: unix:///path or tcp://host:port; else as '
        '[novasched_console] listen says, for --demo at tcp://127.0.0.1:9109.',
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the console; what keeps it from running is one line and exit code 1."""
    return daemon.run(NAME, DOES, argv, _serve, OPTIONS, backend='threading')


def _serve(argv: Sequence[str]) -> int:
    try:
        # Only now may modules be imported that threads or eventlet concern.
        from novasched.console import program, settings
    except ModuleNotFoundError as problem:
        if problem.name not in EXTRA:
            raise
        raise errors.SetupError(
            f'{problem.name} is missing. Install novasched[console].'
        ) from None
    is_demo = '--demo' in argv
    conf = program.configure(argv, OPTIONS, has_files=not is_demo)
    listen = conf.listen or (settings.LOOPBACK if is_demo else None)
    program.serve(conf, listen, is_demo, _say)
    return 0


def _say(line: str) -> None:
    printable.Stream(sys.stdout).write(f'{line}\n')
    sys.stdout.flush()
