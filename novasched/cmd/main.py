# SPDX-License-Identifier: Apache-2.0
"""The command ``novasched``: its commands are entry points of ``novasched.cli``."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import signal
import sys
import warnings
from typing import Any

from cliff.commandmanager import CommandManager

from novasched.cmd import quietly
from novasched.process.command_line import CommandLine

COMMANDS = 'novasched.cli'
"""The namespace of the entry points; other distributions may add commands."""


class Novasched(CommandLine):
    """Dispatches to the commands; they import what they need when they run."""

    NAME = 'novasched'
    LOG = logging.getLogger('novasched.cmd')
    CONSOLE_MESSAGE_FORMAT = '%(levelname)s %(name)s %(message)s'

    def __init__(self) -> None:
        super().__init__(
            description='Ask the scheduler, or watch it at work.',
            version=importlib.metadata.version('novasched'),
            command_manager=CommandManager(COMMANDS),
            deferred_help=True,  # else `novasched demo --help` is about novasched
        )

    def build_option_parser(self, *args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        """Take configurations before or after the command."""
        parser = super().build_option_parser(*args, **kwargs)
        self.add_configurations(
            parser, 'for commands that read one; see the help of a command'
        )
        return parser

    def configure_logging(self) -> None:
        """Show our own errors; -v and --log-file get what the libraries log."""
        if self.options.verbose_level > 1 or self.options.log_file:
            super().configure_logging()
        else:
            logging.basicConfig(handlers=[logging.NullHandler()])
            self.LOG.handlers[:] = [logging.StreamHandler(self.stderr)]


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code. SIGTERM stops it as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not sys.warnoptions:
        warnings.simplefilter('ignore')
    return quietly(lambda words: Novasched().run(words or ['help']), argv)
