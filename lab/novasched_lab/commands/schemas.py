# SPDX-License-Identifier: Apache-2.0
"""Commands that make the tables of a cloud of our own."""

from __future__ import annotations

import argparse

from novasched.db import cells, engines
from novasched.manage.program import Action, CommandProgram
from novasched.ports import CELL0_UUID, Cell
from novasched_lab.db import schema


class ApiDbSync(Action):
    """Make the tables of the API database that are missing.

    Nova's tables are left alone. Exit codes: 0 done, 255 the database failed.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with self.app.api() as api:
            made = schema.create_api(api, engines.API)
            _say(self.app, api.name, made)
        return 0


class DbSync(Action):
    """Make the tables of the main database, and of cell0, that are missing.

    Nova's tables are left alone. Exit codes: 0 done, 1 a database could not be used.
    """

    failed = 1

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--local_cell',
            action='store_true',
            help='Only sync the database of [database] connection, not cell0.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        with self.app.main() as main:
            made = schema.create_cell(main, engines.MAIN)
            _say(self.app, main.name, made)
        cell0 = None if parsed_args.local_cell else self._cell0()
        if cell0 is not None:
            with self.app.cell(cell0) as database:
                made = schema.create_cell(database, engines.CELL)
                _say(self.app, database.name, made)
        return 0

    def _cell0(self) -> Cell | None:
        """Return cell0, if an API database is configured and has mapped it."""
        if not self.app.conf.api_database.connection:
            return None
        with self.app.api() as api, api.read() as connection:
            found = cells.read(connection, self.app.url_defaults)
        return next((cell for cell in found if cell.uuid == CELL0_UUID), None)


def _say(program: CommandProgram, name: str, made: list[str]) -> None:
    tables = ', '.join(made) or 'nothing was missing'
    program.stdout.write(f'{name}: {tables}\n')
