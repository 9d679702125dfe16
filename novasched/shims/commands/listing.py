# SPDX-License-Identifier: Apache-2.0
"""``novasched list``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from novasched.shims.commands.command import ServerList

FIELDS = {
    'ID': 'uuid',
    'Name': 'name',
    'Status': 'status',
    'Task': 'task',
    'Host': 'host',
    'Zone': 'zone',
    'Cell': 'cell',
    'Fault': 'fault',
}
COLUMNS = tuple(FIELDS)


class List(ServerList):
    """List the servers of all projects and cells, the oldest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        for name in ('host', 'status', 'cell'):
            parser.add_argument(
                f'--{name}', metavar=name.upper(), help=f'those of one {name} only'
            )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the servers."""
        from novasched.shims.api.servers import Servers

        with self.parts() as parts:
            found = Servers(parts, self.warn).all()
        status = parsed_args.status and parsed_args.status.upper()
        return COLUMNS, [
            tuple(getattr(each, FIELDS[column]) for column in COLUMNS)
            for each in found
            if parsed_args.host in (None, each.host)
            and status in (None, each.status)
            and parsed_args.cell in (None, each.cell)
        ]
