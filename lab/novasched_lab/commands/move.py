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

if TYPE_CHECKING:
    from novasched_lab.api.move import MoveProgress, MoveRequest

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

        with self.api() as api:
            servers = Servers(api, self.warn)
            server = servers.one(parsed_args.name)
            flavor = flavor_of(api, parsed_args) if parsed_args.flavor else None
            task = move.MoveRequest(api, self.context(parsed_args), server)
            task.begin(parsed_args.to, flavor)
            progress = self._moved(task, parsed_args)
            now = next(iter(servers.some([server.uuid])), server)
            reason = task.failure()
        if progress is None or (not parsed_args.no_wait and progress.status != DONE):
            self.code = 1
        status, source, destination = progress or (None, None, None)
        fault = reason if status == 'error' else None
        found = (now.uuid, now.name, now.status, source, destination, status, fault)
        return COLUMNS, [found]

    def _moved(
        self, task: MoveRequest, parsed_args: argparse.Namespace
    ) -> MoveProgress | None:
        """Wait until a move is over; return how far it is."""
        if parsed_args.no_wait:
            return task.progress()

        if not wait(task.is_over, parsed_args.timeout):
            self.warn(
                f'It has not moved after {parsed_args.timeout:.0f} s. See '
                'novasched show, and the logs of conductor and computes.'
            )
        return task.progress()
