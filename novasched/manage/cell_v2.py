# SPDX-License-Identifier: Apache-2.0
"""Commands about cells, with nova-manage's arguments and exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from urllib import parse

import oslo_messaging  # type: ignore[import-untyped]
import sqlalchemy as sa
from oslo_config import cfg

from novasched import errors, printable
from novasched.db import admin, cells, engines
from novasched.db.transactions import Database
from novasched.manage.program import FAILED, Action, ExitEarly, Listing, Rows
from novasched.ports import Cell
from novasched.rpc.transport import HOW_TO_WRITE
from novasched.runtime.clock import SYSTEM_CLOCK

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

    arguments = {
        '--database_connection <database_connection>': 'The database connection url '
        'for cell0. If not provided, that of the main database is used, with _cell0 '
        'added to its name.',
    }

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

    URLs may be templates, such as mysql://{username}:{password}@{hostname}/cell1. They
    are filled from the configured URLs whenever they are read. Exit codes: 0 done, 1 a
    URL is missing or invalid, 2 another cell has it, 255 the API database failed.
    """

    arguments = {
        '--name <cell_name>': 'The name of the cell',
        '--database_connection <database_connection>': 'The database url for the cell '
        'database',
        '--transport-url <transport_url>': 'The transport url for the cell message '
        'queue',
        '--verbose': 'Output the uuid of the created cell',
        '--disabled': 'To create a pre-disabled cell.',
    }

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        conf = self.app.conf
        transport = parsed_args.transport_url or self._configured(
            '--transport-url', '[DEFAULT]/transport_url', conf.transport_url
        )
        filled = cells.fill(transport, self.app.url_defaults.transport_url)
        if problem := check_transport(filled or ''):
            raise ExitEarly(f'Invalid transport URL: {problem}', 1)
        database = parsed_args.database_connection or self._configured(
            '--database_connection', '[database]/connection', conf.database.connection
        )
        with self.app.api() as api:
            given = (parsed_args.name, transport, database, parsed_args.disabled)
            uuid, made = admin.create_cell(api, *given, SYSTEM_CLOCK.utcnow())
        if not made:
            raise ExitEarly(TWIN.format(uuid), 2)
        if parsed_args.verbose:
            self.say(uuid)
        return 0

    def _configured(self, argument: str, option: str, value: str | None) -> str:
        if not value:
            text = f'Must specify {argument} if {option} is not set in the '
            raise ExitEarly(f'{text}configuration file.', 1)
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

    arguments = {'--verbose': 'Show sensitive details, such as passwords'}

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        show: Callable[[str], str] = printable.mask
        if parsed_args.verbose:
            show = str
        elif parsed_args.formatter == 'table':
            show = concealed
        rows = [
            (
                cell.name or '',
                cell.uuid,
                show(cell.transport_url or ''),
                show(cell.database_connection or ''),
                cell.disabled,
            )
            for cell in self.app.all_cells()
        ]
        rows.sort(key=lambda row: row[0])
        columns = ('Name', 'UUID', 'Transport URL', 'Database Connection', 'Disabled')
        return columns, rows


class ListHosts(Listing):
    """List the compute hosts that are mapped to cells, by name.

    Exit codes: 0 done, 1 there is no such cell, 255 the API database could not be used.
    """

    arguments = {'--cell_uuid <cell_uuid>': 'List the hosts of this cell only.'}

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        wanted = parsed_args.cell_uuid
        with self.app.api() as api, api.read() as connection:
            found = cells.read(connection, self.app.url_defaults)
            hosts = cells.hosts_by_cell(connection)
        if wanted and wanted not in {cell.uuid for cell in found}:
            raise ExitEarly(f'Cell with uuid {wanted} was not found.', 1)
        rows = [
            (cell.name, cell.uuid, host)
            for cell in found
            if wanted in (None, cell.uuid)
            for host in hosts.get(cell.uuid, ())
        ]
        rows.sort(key=lambda row: row[2])
        return ('Cell Name', 'Cell UUID', 'Hostname'), rows


class DiscoverHosts(Action):
    """Map the compute hosts in the databases of cells to their cells.

    A host gets instances only when it is mapped. An unavailable cell does not stop the
    search of the others. Exit codes: 0 done, 1 nothing found with --strict, 2 another
    discovery mapped a host meanwhile, so run it again. Exit code 255: unknown cell, or
    database failure.
    """

    arguments = {
        '--cell_uuid <cell_uuid>': 'If provided only this cell will be searched for '
        'new hosts to map.',
        '--verbose': 'Provide detailed output when discovering hosts.',
        '--strict': 'Considered successful (exit code 0) only when an unmapped host '
        'is discovered. Any other outcome will be considered a failure (non-zero '
        'exit code).',
        '--by-service': 'Discover hosts by service instead of compute node',
    }

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        wanted = parsed_args.cell_uuid
        say = self.say if parsed_args.verbose else lambda line: None
        with ExitStack() as stack:
            api = stack.enter_context(self.app.api())
            with api.read() as connection:
                found = cells.read(connection, self.app.url_defaults)
            if wanted:
                found = [cell for cell in found if cell.uuid == wanted]
                if not found:
                    self.app.LOG.error('Cell %s has no mapping.', wanted)
                    return FAILED
            else:
                say(f'Found {len(found)} cell mappings.')

            def open_cell(cell: Cell) -> Database:
                return stack.enter_context(self.app.cell(cell))

            discovery = admin.HostDiscovery(api, open_cell, say)
            outcome = discovery.run(found, parsed_args.by_service)
        for problem in outcome.failed:
            self.app.LOG.error('%s', problem)
        if outcome.raced:
            self.say(RACED.format(outcome.raced[0]))
        if outcome.failed:
            return FAILED
        none_is_wrong = parsed_args.strict and not outcome.mapped
        return 2 if outcome.raced else int(none_is_wrong)


def check_transport(url: str) -> str | None:
    """Return the problem of the URL of a message queue, if there is one."""
    try:
        oslo_messaging.TransportURL.parse(cfg.ConfigOpts(), url)
    except oslo_messaging.InvalidTransportURL as problem:
        return str(problem)
    except ValueError as problem:
        # Where there is a password, the text may hold a part of it.
        return HOW_TO_WRITE if '@' in url else str(problem)
    return None


def concealed(url: str) -> str:
    """Return a URL as nova-manage shows it: put together again, without password.

    So slashes before an absent host are fewer, and of a list of hosts the last
    one is shown. Passwords in its query are masked, too.
    """
    try:
        parts = parse.urlparse(url)
        if parts.password is not None:
            host = parts.netloc.rpartition('@')[2]
            place = f'{parts.username or ""}:****@{host}'
            parts = parts._replace(netloc=place)
        return printable.mask(parts.geturl())
    except ValueError:
        return printable.mask(url)
