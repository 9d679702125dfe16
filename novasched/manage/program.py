# SPDX-License-Identifier: Apache-2.0
"""Programs of many commands: options, configuration, lists, exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from typing import Any, ClassVar, TextIO

import prettytable
import sqlalchemy as sa
from cliff import command, commandmanager
from cliff.formatters import base
from oslo_config import cfg
from stevedore import ExtensionManager

from novasched import errors
from novasched.db import cells, engines
from novasched.db.transactions import Database
from novasched.ports import Cell
from novasched.process import configuration
from novasched.process.command_line import CommandLine, PrintableLister

TRANSPORT_URL = cfg.StrOpt(
    'transport_url',
    default='rabbit://',
    secret=True,
    help='The message queue, as oslo.messaging reads it.',
)

FAILED = 255
"""The exit code of nova's programs for what they did not expect."""

USAGE = 2

Rows = tuple[tuple[str, ...], Sequence[tuple[object, ...]]]
"""What a listing shows: the names of its columns, and its rows."""


class ExitEarly(Exception):
    """A command ends before it is done: what it prints, and its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Action(command.Command):
    """A command on the databases; a failure is one line and exit code ``failed``.

    ``arguments`` are its options as its help shows them, each with its help.
    """

    app: CommandProgram
    arguments: ClassVar[Mapping[str, str]] = {}
    failed = FAILED

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for shown, text in self.arguments.items():
            name, _, metavar = shown.partition(' ')
            if metavar:
                parser.add_argument(name, metavar=metavar, help=text)
            else:
                parser.add_argument(name, action='store_true', help=text)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args)
        except ExitEarly as end:
            self.say(end.text)
            return end.code
        except errors.NovaschedError as problem:
            self.app.report(problem)
            return self.failed
        except BrokenPipeError:
            raise
        except Exception as problem:  # noqa: BLE001  the border of the program
            self.app.report(problem)
            return FAILED

    def say(self, line: str) -> None:
        """Print a line where nova prints it: on the standard output."""
        self.app.stdout.write(f'{line}\n')


class CentredTable(base.ListFormatter):
    """The table of nova-manage: centred, as wide as it needs, never without head."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no options: the table has one form."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        table = prettytable.PrettyTable(list(column_names))
        table.add_rows([list(row) for row in data])
        stdout.write(f'{table}\n')


class Listing(Action, PrintableLister):
    """A command that lists."""

    def _load_formatter_plugins(self) -> ExtensionManager[base.ListFormatter]:
        found = super()._load_formatter_plugins()
        found['table'].obj = CentredTable()
        return found


class CommandProgram(CommandLine):
    """Reads the configuration of nova and runs one command on its databases."""

    NAME = 'novasched-manage'
    DESCRIPTION = 'Make and describe the databases that novasched reads.'
    CONSOLE_MESSAGE_FORMAT = f'{NAME}: %(message)s'
    CONFIGURED_AS = 'nova-manage'
    conf: cfg.ConfigOpts

    def __init__(
        self, commands: Mapping[str, type[command.Command]], **streams: Any
    ) -> None:
        manager = commandmanager.CommandManager(self.NAME)
        for name, kind in commands.items():
            manager.add_command(name, kind)
        super().__init__(
            description=self.DESCRIPTION,
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
        instead = f'not the ones of {self.CONFIGURED_AS}; may be repeated.'
        self.add_configurations(parser, f'Read this configuration {{}}, {instead}')
        parser.set_defaults(verbose_level=0, log_file=None)
        return parser

    def initialize_app(self, argv: Sequence[str]) -> None:
        """Read the configuration files."""
        arguments = [f'--config-file={path}' for path in self.options.config_file]
        arguments += [f'--config-dir={path}' for path in self.options.config_dir]
        self.conf = cfg.ConfigOpts()
        self.register_options(self.conf)
        configuration.read(self.conf, arguments, self.CONFIGURED_AS)

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register the options that the commands read."""
        conf.register_opt(TRANSPORT_URL)
        configuration.register(conf, engines.OPTS.items())

    def interact(self) -> None:
        """Show the help where no command is given, and exit: it is no shell."""
        self.run_subcommand(['help'])
        raise SystemExit(USAGE)

    def report(self, problem: Exception) -> None:
        """Say in one line what failed, and with --debug where."""
        if self.options.debug:
            self.LOG.exception(problem)
        else:
            self.LOG.error('%s', problem)

    def api(self) -> AbstractContextManager[Database]:
        """Open the API database. Raises errors.OptionError."""
        return _opened(engines.api_engine(self.conf), engines.API)

    def main(self) -> AbstractContextManager[Database]:
        """Open the main database. Raises errors.OptionError."""
        return _opened(engines.main_engine(self.conf), engines.MAIN)

    def cell(self, cell: Cell) -> AbstractContextManager[Database]:
        """Open the database of a cell. Raises errors.OptionError."""
        url = cell.database_connection or ''
        return _opened(engines.cell_engine(self.conf, url), engines.CELL)

    def all_cells(self) -> list[Cell]:
        """Return all cells, cell0 included. Raises errors.NovaschedError."""
        with self.api() as api, api.read() as connection:
            return cells.read(connection, self.url_defaults)

    @property
    def url_defaults(self) -> cells.UrlDefaults:
        """The configured URLs that templates in cell mappings refer to."""
        return cells.UrlDefaults(self.conf.database.connection, self.conf.transport_url)


@contextmanager
def _opened(engine: sa.Engine, option: str) -> Iterator[Database]:
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
