# SPDX-License-Identifier: Apache-2.0
"""``novasched list``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from novasched_lab.commands.command import COLUMNS, ServerList

FIELDS = {
    'ID': 'uuid',
    'Name': 'name',
    'Status': 'status',
    'Task': 'task',
    'Host': 'host',
    'Zone': 'zone',
    'Cell': 'cell',
    'Project': 'project_id',
    'Fault': 'fault',
}


class List(ServerList):
    """List the servers of all projects and cells, the oldest first.

    A table has the most important columns, and is cut to the width of the terminal;
    --long and the other formats have all columns in full.
    """

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
        from novasched_lab.api.servers import Servers

        with self.api() as api:
            found = Servers(api, self.warn).all()
        status = parsed_args.status and parsed_args.status.upper()
        is_short = parsed_args.formatter == 'table' and not parsed_args.long
        columns = COLUMNS if is_short and not parsed_args.columns else tuple(FIELDS)
        return columns, [
            tuple(getattr(each, FIELDS[column]) for column in columns)
            for each in found
            if parsed_args.host in (None, each.host)
            and status in (None, each.status)
            and parsed_args.cell in (None, each.cell)
        ]
