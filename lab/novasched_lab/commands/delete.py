# SPDX-License-Identifier: Apache-2.0
"""``novasched delete``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched_lab.commands.command import ServerList, add_waiting, wait

if TYPE_CHECKING:
    from novasched_lab.api.delete import DeleteRequest
    from novasched_lab.api.servers import Server, Servers

UNCONFIRMED = 2
COLUMNS = ('ID', 'Name', 'Host', 'Outcome')


class NotConfirmed(errors.RequestError):
    """Servers were about to be deleted, and no person and no option agreed."""

    def __str__(self) -> str:
        return 'Nothing is deleted: give --yes, or type yes at a terminal.'


class Delete(ServerList):
    """Delete servers, and all that they hold, after a yes.

    Without --yes, the word is to be typed at a terminal. Only servers of the project
    that asks are deleted, unless --all-projects is given.

    Exit codes: 0 all are gone, 1 some are not, 2 nothing was confirmed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'names', nargs='*', metavar='NAME', help='names or uuids of servers'
        )
        parser.add_argument(
            '--all', action='store_true', help='all servers of the project'
        )
        parser.add_argument(
            '--all-projects',
            action='store_true',
            help='also servers of other projects; with --all, every server there is',
        )
        parser.add_argument(
            '--yes', action='store_true', help='ask no confirmation, as for scripts'
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='list the servers that would be deleted, and delete none',
        )
        parser.add_argument(
            '--force',
            action='store_true',
            help='do not ask their hosts: for those whose host is gone for good',
        )
        add_waiting(parser, 'their hosts have deleted them')
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; return its exit code."""
        try:
            return super().run(parsed_args)
        except NotConfirmed as problem:
            self.warn(str(problem))
            return UNCONFIRMED

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Delete; return what became of each."""
        from novasched_lab.api.delete import DeleteRequest
        from novasched_lab.api.servers import Servers

        if bool(parsed_args.names) == parsed_args.all:
            raise errors.OptionError(
                'NAME', 'no servers are named, or all as well', 'Name some, or --all'
            )
        with self.api() as api:
            found = _chosen(Servers(api, self.warn), parsed_args)
            self.warn(_how_many(found, parsed_args))
            if parsed_args.dry_run or not found:
                return COLUMNS, _rows(found, lambda uuid: 'would be deleted')
            self._confirm(parsed_args)
            task = DeleteRequest(api, self.context(parsed_args), parsed_args.force)
            pending = self._delete(task, found, parsed_args)
        return COLUMNS, _rows(
            found, lambda uuid: 'deleting' if uuid in pending else 'deleted'
        )

    def _confirm(self, parsed_args: argparse.Namespace) -> None:
        """Have a person type yes, unless an option says it. Raises NotConfirmed."""
        if parsed_args.yes:
            return
        stdin, stderr = self.app.stdin, self.app.stderr
        if not stdin.isatty():
            raise NotConfirmed
        stderr.write('Type yes to delete them: ')
        stderr.flush()
        if stdin.readline().strip().lower() != 'yes':
            raise NotConfirmed

    def _delete(
        self,
        task: DeleteRequest,
        found: Sequence[Server],
        parsed_args: argparse.Namespace,
    ) -> set[str]:
        """Delete servers; return those that their hosts have not deleted yet."""
        from novasched_lab.api.delete import Outcome

        outcomes = {each.uuid: task.run(each.uuid) for each in found}
        pending = {uuid for uuid in outcomes if outcomes[uuid] is Outcome.TOLD}
        if pending and not parsed_args.no_wait:
            self._wait(task, pending, parsed_args.timeout)
        return pending

    def _wait(self, task: DeleteRequest, pending: set[str], timeout_s: float) -> None:
        """Wait until hosts have deleted servers; those are removed from ``pending``."""

        def look() -> bool:
            pending.difference_update([uuid for uuid in pending if task.is_done(uuid)])
            return not pending

        if not wait(look, timeout_s):
            self.code = 1
            self.warn(
                f'After {timeout_s:.0f} s, {len(pending)} are not deleted by their '
                'hosts, which do so when they are back. If one never will be: '
                'novasched delete --force.'
            )


def _chosen(servers: Servers, parsed_args: argparse.Namespace) -> list[Server]:
    """Return the servers that are meant, each once. Raises errors.OptionError."""
    project = None if parsed_args.all_projects else parsed_args.project_id
    if parsed_args.all:
        found = servers.all()
        return [each for each in found if project in (None, each.project_id)]
    named = (servers.one(name, project) for name in parsed_args.names)
    return list({each.uuid: each for each in named}.values())


def _how_many(servers: Sequence[Server], parsed_args: argparse.Namespace) -> str:
    """Say how many servers of which projects are to be deleted."""
    if not servers and parsed_args.all_projects:
        return 'There are no servers.'
    if not servers:
        return f'There are no servers of project {parsed_args.project_id}.'
    projects = Counter(each.project_id for each in servers)
    listed = ', '.join(f'{n} of project {p}' for p, n in projects.most_common())
    return f'To be deleted: {listed}.'


def _rows(
    servers: Sequence[Server], outcome: Callable[[str], str]
) -> list[tuple[str | None, ...]]:
    return [(s.uuid, s.name, s.host, outcome(s.uuid)) for s in servers]
