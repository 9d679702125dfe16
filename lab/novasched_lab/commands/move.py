# SPDX-License-Identifier: Apache-2.0
"""``novasched move``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from novasched_lab.commands.command import (
    ServerList,
    add_flavor,
    add_waiting,
    flavor_of,
    wait,
)
from novasched_lab.commands.progress import bar

if TYPE_CHECKING:
    from novasched_lab.api.move import Move as Task
    from novasched_lab.api.move import Way

COLUMNS = ('ID', 'Name', 'Status', 'From', 'To', 'Move', 'Fault')
DONE = 'confirmed'


class Move(ServerList):
    """Move a server to another host, or resize it.

    Exit codes: 0 it has moved, 1 it has not.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument('name', help='the name or the uuid of the server')
        parser.add_argument(
            '--to', metavar='HOST', help='the host where it goes, if its filters agree'
        )
        add_flavor(parser, None)
        add_waiting(parser, 'it has moved')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Move; return the server as it is then."""
        from novasched_lab.api import move
        from novasched_lab.api.servers import Servers

        with self.parts() as parts:
            servers = Servers(parts, self.warn)
            server = servers.one(parsed_args.name)
            flavor = flavor_of(parts, parsed_args) if parsed_args.flavor else None
            task = move.Move(parts, self.context(parsed_args), server)
            task.begin(parsed_args.to, flavor)
            way = self._moved(task, parsed_args)
            now = next(iter(servers.some([server.uuid])), server)
            reason = task.failure()
        if way is None or (not parsed_args.no_wait and way.status != DONE):
            self.code = 1
        found = (
            (None, None, None)
            if way is None
            else (way.source, way.destination, way.status)
        )
        fault = reason if way is not None and way.status == 'error' else None
        return COLUMNS, [(now.uuid, now.name, now.status, *found, fault)]

    def _moved(self, task: Task, parsed_args: argparse.Namespace) -> Way | None:
        """Wait until a move is over; return how far it is."""
        if parsed_args.no_wait:
            return task.way()
        with bar(self.app.stderr, 'moving', 1) as show:

            def look() -> bool:
                way = task.way()
                over = way is not None and way.is_over
                show(int(over))
                return over

            if not wait(look, parsed_args.timeout):
                self.warn(
                    f'It has not moved after {parsed_args.timeout:.0f} s. See '
                    'novasched show, and the logs of conductor and computes.'
                )
        return task.way()
