# SPDX-License-Identifier: Apache-2.0
"""The command ``novasched``: what people ask the scheduler."""

from __future__ import annotations

import importlib.metadata
import logging
import signal
import sys
import warnings

from cliff.app import App
from cliff.commandmanager import CommandManager

from novasched.embedded.demo import Demo

COMMANDS = {'demo': Demo}


class Novasched(App):
    """Dispatches to the commands; they import what they need when they run."""

    NAME = 'novasched'
    LOG = logging.getLogger('novasched.cmd')
    CONSOLE_MESSAGE_FORMAT = '%(levelname)s %(name)s %(message)s'

    def __init__(self) -> None:
        super().__init__(
            description='Ask the scheduler, or watch it at work.',
            version=importlib.metadata.version('novasched'),
            command_manager=CommandManager('novasched.cli'),
            deferred_help=True,  # else `novasched demo --help` is about novasched
        )
        for name, command in COMMANDS.items():
            self.command_manager.add_command(name, command)

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return commands that may have been meant; that of the shell is none."""
        return [each for each in super().get_fuzzy_matches(cmd) if each != 'complete']

    def configure_logging(self) -> None:
        """Show our own errors; -v and --log-file get what the libraries log."""
        if self.options.verbose_level > 1 or self.options.log_file:
            super().configure_logging()
        else:
            logging.basicConfig(handlers=[logging.NullHandler()])
            self.LOG.addHandler(logging.StreamHandler(self.stderr))


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code. SIGTERM stops it as Ctrl-C does."""
    argv = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not sys.warnoptions:
        warnings.simplefilter('ignore')
    return Novasched().run(argv or ['help'])
