# SPDX-License-Identifier: Apache-2.0
"""Commands about cells; arguments and exit codes are those of nova-manage."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack

import sqlalchemy as sa

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.cluster.discovery import Discovered
from novasched.db import admin, cells, engines
from novasched.db.transactions import Database, mask
from novasched.manage.program import FAILED, Action, Ended, Listing
from novasched.manage.urls import check_transport, concealed
from novasched.ports import Cell

TWIN = (
    'The specified transport_url and/or database_connection combination already '
    'exists for another cell with uuid {}.'
)
RACED = (
    'ERROR: Duplicate host mapping was encountered. This command should be run once '
    'after all compute hosts have been deployed and should not be run in parallel. '
    'When run in parallel, the commands will collide with each other trying to map '
    "the same hosts in the database at the same time. Error: Host '{}' mapping "
    'already exists'
)


class MapCell0(Action):
    """Add the mapping of cell0, where instances go that no host could take.

    Nothing is changed where cell0 is mapped already. Exit codes: 0 cell0 is mapped,
    255 a database could not be used.
    """

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
            if not admin.map_cell0(api, url, SYSTEM_CLOCK.utcnow()):
                self.say('Cell0 is already setup')
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


class CreateCell(Action):
    """Add the mapping of a cell; URLs not given are taken from the configuration.

    URLs may be templates, such as mysql://{username}:{password}@{hostname}/cell1, that
    are filled from the configured URLs whenever they are read. Exit codes: 0 the cell
    is made, 1 a URL is missing or makes no sense, 2 another cell has one of the URLs,
    255 the API database could not be used.
    """

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
        self._check(transport)
        database = parsed_args.database_connection or self._configured(
            '--database_connection', '[database]/connection', conf.database.connection
        )
        with self.app.api() as api:
            uuid, made = admin.create_cell(
                api,
                parsed_args.name,
                transport,
                database,
                parsed_args.disabled,
                SYSTEM_CLOCK.utcnow(),
            )
        if not made:
            raise Ended(TWIN.format(uuid), 2)
        if parsed_args.verbose:
            self.say(uuid)
        return 0

    def _check(self, transport: str) -> None:
        filled = cells.fill(transport, self.app.url_defaults.transport_url)
        if problem := check_transport(filled or ''):
            raise Ended(f'Invalid transport URL: {problem}', 1)

    def _configured(self, argument: str, option: str, value: str | None) -> str:
        if not value:
            raise Ended(
                f'Must specify {argument} if {option} is not set in the configuration '
                'file.',
                1,
            )
        self.say(
            f'{argument} not provided in the command line, '
            f'using the value {option} from the configuration file'
        )
        return value


class ListCells(Listing):
    """List the cells, with the templates in their URLs filled in.

    Passwords are shown with --verbose only. Exit codes: 0 done, 255 the API database
    could not be used.
    """

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
        show: Callable[[str], str] = mask
        if parsed_args.verbose:
            show = str
        elif parsed_args.formatter == 'table':
            show = concealed
        return columns, [_row(cell, show) for cell in found]


def _row(cell: Cell, show: Callable[[str], str]) -> tuple[object, ...]:
    urls = (cell.transport_url or '', cell.database_connection or '')
    return (cell.name or '', cell.uuid, *map(show, urls), cell.disabled)


class ListHosts(Listing):
    """List the compute hosts that are mapped to cells, by name.

    Exit codes: 0 done, 1 there is no such cell, 255 the API database could not be used.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--cell_uuid',
            metavar='<cell_uuid>',
            help='List the hosts of this cell only.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        wanted = parsed_args.cell_uuid
        with self.app.api() as api, api.read() as connection:
            found = cells.read(connection, self.app.url_defaults)
            hosts = cells.hosts_by_cell(connection)
        if wanted and wanted not in {cell.uuid for cell in found}:
            raise Ended(f'Cell with uuid {wanted} was not found.', 1)
        rows: list[tuple[object, ...]] = [
            (cell.name, cell.uuid, host)
            for cell in found
            if wanted in (None, cell.uuid)
            for host in hosts.get(cell.uuid, ())
        ]
        rows.sort(key=lambda row: str(row[2]))
        return ('Cell Name', 'Cell UUID', 'Hostname'), rows


class DiscoverHosts(Action):
    """Map the compute hosts that the databases of the cells show to their cells.

    A host gets instances only when it is mapped. A cell whose database is away does not
    keep the others from being searched. Exit codes: 0 done, 1 nothing was found and
    --strict is given, 2 another discovery mapped a host meanwhile, so run it again, 255
    a cell is unknown or a database could not be used.
    """

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
                return FAILED

            def open_cell(cell: Cell) -> Database:
                return stack.enter_context(self.app.cell(cell))

            say = self.say if parsed_args.verbose else lambda line: None
            if not wanted:
                say(f'Found {len(found)} cell mappings.')
            discovery = admin.HostDiscovery(api, open_cell, say)
            outcome = discovery.run(found, parsed_args.by_service)
        return self._code(outcome, parsed_args.strict)

    def _code(self, outcome: Discovered, strict: bool) -> int:
        for problem in outcome.failed:
            self.app.LOG.error('%s', problem)
        if outcome.raced:
            self.say(RACED.format(outcome.raced[0]))
        if outcome.failed:
            return FAILED
        if outcome.raced:
            return 2
        return 1 if strict and not outcome.mapped else 0
