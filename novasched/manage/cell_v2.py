# SPDX-License-Identifier: Apache-2.0
"""Commands about cells; arguments and exit codes are those of nova-manage."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

import sqlalchemy as sa
from cliff import command, lister
from oslo_utils import timeutils

from novasched import errors
from novasched.db import admin, cells, engines
from novasched.db.transactions import Database, mask
from novasched.manage.program import Program
from novasched.ports import Cell


class MapCell0(command.Command):
    """Add the mapping of cell0, where instances go that no host could take."""

    app: Program

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--database_connection',
            metavar='<database_connection>',
            help='The database connection url for cell0. If not provided, that of '
            'the main database is used, with _cell0 added to its name.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        url = parsed_args.database_connection or self._beside_main()
        with self.app.api() as api:
            if not admin.map_cell0(api, url, timeutils.utcnow()):
                self.app.stdout.write('Cell0 is already setup\n')
        return 0

    def _beside_main(self) -> str:
        connection = self.app.conf.database.connection
        if not connection:
            raise errors.OptionError(
                engines.MAIN, 'not set', 'Set it, or give --database_connection'
            )
        url = sa.make_url(connection)
        beside = url.set(database=f'{url.database}_cell0')
        return beside.render_as_string(hide_password=False)


class CreateCell(command.Command):
    """Add the mapping of a cell; URLs not given are taken from the configuration."""

    app: Program

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--name', metavar='<cell_name>', help='The name of the cell'
        )
        parser.add_argument(
            '--database_connection',
            metavar='<database_connection>',
            help='The database url for the cell database',
        )
        parser.add_argument(
            '--transport-url',
            metavar='<transport_url>',
            help='The transport url for the cell message queue',
        )
        parser.add_argument(
            '--verbose', action='store_true', help='Output the uuid of the created cell'
        )
        parser.add_argument(
            '--disabled', action='store_true', help='To create a pre-disabled cell.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        conf = self.app.conf
        transport = parsed_args.transport_url or self._configured(
            '--transport-url', '[DEFAULT]/transport_url', conf.transport_url
        )
        database = parsed_args.database_connection or self._configured(
            '--database_connection', '[database]/connection', conf.database.connection
        )
        if not transport or not database:
            return 1
        with self.app.api() as api:
            uuid, made = admin.create_cell(
                api,
                parsed_args.name,
                transport,
                database,
                parsed_args.disabled,
                timeutils.utcnow(),
            )
        if not made:
            self.app.LOG.error(
                'The specified transport_url and/or database_connection combination '
                'already exists for another cell with uuid %s.',
                uuid,
            )
            return 2
        if parsed_args.verbose:
            self.app.stdout.write(f'{uuid}\n')
        return 0

    def _configured(self, argument: str, option: str, value: str | None) -> str | None:
        if not value:
            self.app.LOG.error(
                'Must specify %s if %s is not set in the configuration file.',
                argument,
                option,
            )
            return None
        self.app.stdout.write(
            f'{argument} not provided in the command line, '
            f'using the value {option} from the configuration file\n'
        )
        return value


class ListCells(lister.Lister):
    """List the cells, with the templates in their URLs filled in."""

    app: Program

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--verbose',
            action='store_true',
            help='Show sensitive details, such as passwords',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        with self.app.api() as api, api.read() as connection:
            found = cells.read(connection, self.app.url_defaults)
        columns = ('Name', 'UUID', 'Transport URL', 'Database Connection', 'Disabled')
        found.sort(key=lambda cell: cell.name or '')
        return columns, [_shown(cell, parsed_args.verbose) for cell in found]


def _shown(cell: Cell, plainly: bool) -> tuple[object, ...]:
    urls = [cell.transport_url or '', cell.database_connection or '']
    shown = urls if plainly else [mask(url) for url in urls]
    return (cell.name or '', cell.uuid, *shown, cell.disabled)


class DiscoverHosts(command.Command):
    """Map the compute hosts that the databases of the cells show to their cells."""

    app: Program

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--cell_uuid',
            metavar='<cell_uuid>',
            help='If provided only this cell will be searched for new hosts to map.',
        )
        parser.add_argument(
            '--verbose',
            action='store_true',
            help='Provide detailed output when discovering hosts.',
        )
        parser.add_argument(
            '--strict',
            action='store_true',
            help='Considered successful (exit code 0) only when an unmapped host '
            'is discovered. Any other outcome will be considered a failure '
            '(non-zero exit code).',
        )
        parser.add_argument(
            '--by-service',
            action='store_true',
            help='Discover hosts by service instead of compute node',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with ExitStack() as stack:
            api = stack.enter_context(self.app.api())
            with api.read() as connection:
                found = cells.read(connection, self.app.url_defaults)
            wanted = parsed_args.cell_uuid
            if wanted:
                found = [cell for cell in found if cell.uuid == wanted]
            if wanted and not found:
                self.app.LOG.error('Cell %s has no mapping.', wanted)
                return 1

            def open_cell(cell: Cell) -> Database:
                return stack.enter_context(self.app.cell(cell))

            say = self._say if parsed_args.verbose else lambda line: None
            if not wanted:
                say(f'Found {len(found)} cell mappings.')
            discovery = admin.HostDiscovery(api, open_cell, timeutils.utcnow, say)
            outcome = discovery.run(found, parsed_args.by_service)
        return self._code(outcome, parsed_args.strict)

    def _say(self, line: str) -> None:
        self.app.stdout.write(f'{line}\n')

    def _code(self, outcome: admin.Discovered, strict: bool) -> int:
        for problem in outcome.failed:
            self.app.LOG.error('%s', problem)
        for host in outcome.raced:
            self.app.LOG.error("Host '%s' mapping already exists", host)
        if outcome.failed:
            return 1
        if outcome.raced:
            return 2
        return 1 if strict and not outcome.mapped else 0
