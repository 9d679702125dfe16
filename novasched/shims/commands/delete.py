# SPDX-License-Identifier: Apache-2.0
"""``novasched delete``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from novasched.shims.commands.command import ServerList, add_waiting, wait
from novasched.shims.commands.progress import bar

COLUMNS = ('ID', 'Name', 'Host', 'Outcome')


class Delete(ServerList):
    """Delete servers, and all that they hold.

    Exit codes: 0 all are gone, 1 some are not.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'names', nargs='*', metavar='NAME', help='names or uuids of servers'
        )
        parser.add_argument('--all', action='store_true', help='all servers there are')
        parser.add_argument(
            '--force',
            action='store_true',
            help='do not ask their hosts: for those whose host is gone for good',
        )
        add_waiting(parser, 'their hosts have deleted them')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Delete; return what became of each."""
        from novasched import errors
        from novasched.shims.api.delete import Delete as Task
        from novasched.shims.api.delete import Outcome
        from novasched.shims.api.servers import Servers

        if bool(parsed_args.names) == parsed_args.all:
            raise errors.OptionError(
                'NAME', 'no servers are named, or all besides', 'Name some, or --all'
            )
        with self.parts() as parts:
            servers = Servers(parts, self.warn)
            named = parsed_args.names
            found = (
                servers.all()
                if parsed_args.all
                else list({s.uuid: s for s in map(servers.one, named)}.values())
            )
            task = Task(parts, self.context(parsed_args), parsed_args.force)
            outcomes = {each.uuid: task.run(each.uuid) for each in found}
            told = {uuid for uuid in outcomes if outcomes[uuid] is Outcome.TOLD}
            if told and not parsed_args.no_wait:
                self._wait(task, told, len(found), parsed_args.timeout)
        return COLUMNS, [
            (s.uuid, s.name, s.host, 'deleting' if s.uuid in told else 'deleted')
            for s in found
        ]

    def _wait(self, task: Any, told: set[str], total: int, timeout_s: float) -> None:
        """Wait until hosts have deleted servers; those are taken out of ``told``."""
        with bar(self.app.stderr, 'deleting', total) as show:

            def look() -> bool:
                told.difference_update([uuid for uuid in told if task.is_done(uuid)])
                show(total - len(told))
                return not told

            if not wait(look, timeout_s):
                self.code = 1
                self.warn(
                    f'After {timeout_s:.0f} s, {len(told)} are not deleted by their '
                    'hosts, which do so when they are back. If one never will be: '
                    'novasched delete --force.'
                )
