# SPDX-License-Identifier: Apache-2.0
"""The program novasched-manage: its options, its configuration, its commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import sqlalchemy as sa
from cliff import app, command, commandmanager
from oslo_config import cfg

from novasched.db import cells, engines
from novasched.db.transactions import Database
from novasched.ports import Cell

TRANSPORT_URL = cfg.StrOpt(
    'transport_url',
    default='rabbit://',
    secret=True,
    help='The message queue, as oslo.messaging reads it.',
)


class Program(app.App):
    """Reads the configuration of nova and runs one command on its databases."""

    CONSOLE_MESSAGE_FORMAT = 'novasched-manage: %(message)s'
    conf: cfg.ConfigOpts

    def __init__(
        self, commands: Mapping[str, type[command.Command]], **streams: Any
    ) -> None:
        manager = commandmanager.CommandManager('novasched.manage')
        for name, kind in commands.items():
            manager.add_command(name, kind)
        super().__init__(
            description='Make and describe the databases that novasched reads.',
            version=_version(),
            command_manager=manager,
            deferred_help=True,
            **streams,
        )

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Leave out cliff's --verbose, that commands have for themselves."""
        parser = argparse.ArgumentParser(
            description=description, add_help=False, allow_abbrev=False
        )
        parser.add_argument(
            '--version', action='version', version=f'%(prog)s {version}'
        )
        parser.add_argument(
            '-h',
            '--help',
            dest='deferred_help',
            action='store_true',
            help='Show this help, or with a command its own.',
        )
        parser.add_argument('--debug', action='store_true', help='Show tracebacks.')
        for kind in ('file', 'dir'):
            parser.add_argument(
                f'--config-{kind}',
                action='append',
                default=[],
                metavar='PATH',
                help=f'Read this configuration {kind}, not the ones of nova-manage; '
                'may be repeated.',
            )
        parser.set_defaults(verbose_level=0, log_file=None)
        return parser

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return commands that may have been meant; that of the shell is none."""
        return [each for each in super().get_fuzzy_matches(cmd) if each != 'complete']

    def initialize_app(self, argv: Sequence[str]) -> None:
        """Read the configuration files."""
        arguments = [f'--config-file={path}' for path in self.options.config_file]
        arguments += [f'--config-dir={path}' for path in self.options.config_dir]
        self.conf = cfg.ConfigOpts()
        self.conf.register_opt(TRANSPORT_URL)
        for group, options in engines.OPTS.items():
            self.conf.register_opts(options, group)
        self.conf(arguments, project='nova', prog='nova-manage')

    @contextmanager
    def api(self) -> Iterator[Database]:
        """Open the API database. Raises errors.OptionError."""
        with self._opened(engines.api_engine(self.conf), engines.API) as database:
            yield database

    @contextmanager
    def main(self) -> Iterator[Database]:
        """Open the main database. Raises errors.OptionError."""
        with self._opened(engines.main_engine(self.conf), engines.MAIN) as database:
            yield database

    @contextmanager
    def cell(self, cell: Cell) -> Iterator[Database]:
        """Open the database of a cell. Raises errors.OptionError."""
        engine = engines.cell_engine(self.conf, cell.database_connection or '')
        with self._opened(engine, engines.CELL) as database:
            yield database

    @property
    def url_defaults(self) -> cells.UrlDefaults:
        """The configured URLs that templates in cell mappings refer to."""
        return cells.UrlDefaults(self.conf.database.connection, self.conf.transport_url)

    @contextmanager
    def _opened(self, engine: sa.Engine, option: str) -> Iterator[Database]:
        try:
            engines.check(engine, option)
            yield Database(engine)
        finally:
            engine.dispose()


def _version() -> str:
    try:
        return metadata.version('novasched')
    except metadata.PackageNotFoundError:
        return 'not installed'
