# SPDX-License-Identifier: Apache-2.0
"""The command ``novasched``: what people ask the scheduler, or have it do."""

from __future__ import annotations

import signal
import sys
import warnings

from cliff.command import Command

from novasched.cmd import ending
from novasched.shims.commands.boot import Boot
from novasched.shims.commands.delete import Delete
from novasched.shims.commands.demo import Demo
from novasched.shims.commands.listing import List
from novasched.shims.commands.move import Move
from novasched.shims.commands.program import Novasched
from novasched.shims.commands.show import Show

COMMANDS: dict[str, type[Command]] = {
    'boot': Boot,
    'delete': Delete,
    'demo': Demo,
    'list': List,
    'move': Move,
    'show': Show,
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code. SIGTERM stops it as Ctrl-C does."""
    argv = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not sys.warnoptions:
        warnings.simplefilter('ignore')
    words = argv or ['help']
    return ending.quietly(lambda: Novasched(COMMANDS).run(words))
