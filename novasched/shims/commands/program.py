# SPDX-License-Identifier: Apache-2.0
"""The program ``novasched``: what all its commands share."""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
from collections.abc import Mapping
from typing import Any

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager


class Novasched(App):
    """Dispatches to the commands; they import what they need when they run."""

    NAME = 'novasched'
    LOG = logging.getLogger('novasched.cmd')
    CONSOLE_MESSAGE_FORMAT = '%(levelname)s %(name)s %(message)s'

    def __init__(self, commands: Mapping[str, type[Command]]) -> None:
        super().__init__(
            description='Ask the scheduler, or watch it at work.',
            version=importlib.metadata.version('novasched'),
            command_manager=CommandManager('novasched.cli'),
            deferred_help=True,  # else `novasched demo --help` is about novasched
        )
        for name, command in commands.items():
            self.command_manager.add_command(name, command)

    def build_option_parser(self, *args: Any, **kwargs: Any) -> argparse.ArgumentParser:
        """Take configurations before or after the command."""
        parser = super().build_option_parser(*args, **kwargs)
        for kind in ('file', 'dir'):
            text = 'for all but demo; see the help of a command'
            parser.add_argument(
                f'--config-{kind}',
                metavar='PATH',
                action='append',
                default=[],
                help=text,
            )
        return parser

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return commands that may have been meant; that of the shell is none."""
        return [each for each in super().get_fuzzy_matches(cmd) if each != 'complete']

    def configure_logging(self) -> None:
        """Show our own errors; -v and --log-file get what the libraries log."""
        if self.options.verbose_level > 1 or self.options.log_file:
            super().configure_logging()
        else:
            logging.basicConfig(handlers=[logging.NullHandler()])
            self.LOG.handlers[:] = [logging.StreamHandler(self.stderr)]
