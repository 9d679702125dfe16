# SPDX-License-Identifier: Apache-2.0
"""``novasched list``, ``show``, ``move``, ``boot`` and ``delete``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cliff.columns import FormattableColumn
from cliff.show import ShowOne

from novasched import errors
from novasched.commands.base import Rows, positive
from novasched.inspection.session.orders import POLICIES
from novasched_lab.commands.command import (
    COLUMNS,
    ServerCommand,
    ServerLister,
    add_flavor,
    add_waiting,
    flavor_of,
    row,
    wait,
)

if TYPE_CHECKING:
    from novasched.objects.context import RequestContext
    from novasched_lab.api.boot import Order
    from novasched_lab.api.servers import (
        DeleteRequest,
        MoveProgress,
        MoveRequest,
        Servers,
        ServerSummary,
    )
    from novasched_lab.api.service import ApiContext

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
MOVE_COLUMNS = ('ID', 'Name', 'Status', 'From', 'To', 'Move', 'Fault')
MOVED = 'confirmed'
DELETE_COLUMNS = ('ID', 'Name', 'Host', 'Outcome')
UNCONFIRMED = 2


class ListServers(ServerLister):
    """List the servers of all projects and cells, the oldest first.

    A table has the most important columns, and is cut to the width of the terminal.
    --long and the other formats have all columns in full.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for name in ('host', 'status', 'cell'):
            parser.add_argument(
                f'--{name}', metavar=name.upper(), help=f'servers of one {name} only'
            )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from novasched_lab.api.servers import Servers

        with self.api() as api:
            found = Servers(api, self.say).all()
        status = parsed_args.status and parsed_args.status.upper()
        columns = COLUMNS if self.is_short(parsed_args) else tuple(FIELDS)
        return columns, [
            tuple(getattr(each, FIELDS[column]) for column in columns)
            for each in found
            if parsed_args.host in (None, each.host)
            and status in (None, each.status)
            and parsed_args.cell in (None, each.cell)
        ]


class Lines(FormattableColumn[Any]):
    """A list, of which people see one line each."""

    def human_readable(self) -> str:
        return '\n'.join(_line(each) for each in self._value) or '-'

    def machine_readable(self) -> Any:
        return self._value


def _line(entry: dict[str, Any]) -> str:
    return ' '.join(
        ', '.join(f'{name} {value[name]}' for name in value)
        if isinstance(value, dict)
        else str(value)
        for value in entry.values()
        if value is not None
    )


class ShowServer(ServerCommand, ShowOne):
    """Show all of a server: its fault, what it holds, what was done to it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', help='the name or the uuid of the server')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        from novasched_lab.api.servers import details

        with self.api() as api:
            found = details(api, self.context(parsed_args), parsed_args.name, self.say)
        for name, value in found.items():
            if isinstance(value, list):
                found[name] = Lines(value)
            elif value is None and parsed_args.formatter == 'table':
                found[name] = '-'
        return self.dict2columns(found)


class MoveServer(ServerLister):
    """Move a server to another host, or resize it.

    Exit codes: 0 it has moved, 1 it has not.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('name', help='the name or the uuid of the server')
        parser.add_argument(
            '--to', metavar='HOST', help='the host where it goes, if its filters agree'
        )
        add_flavor(parser, None)
        add_waiting(parser, 'it has moved')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from novasched_lab.api.servers import MoveRequest, Servers

        with self.api() as api:
            servers = Servers(api, self.say)
            server = servers.one(parsed_args.name)
            flavor = flavor_of(api, parsed_args) if parsed_args.flavor else None
            task = MoveRequest(api, self.context(parsed_args), server)
            task.begin(parsed_args.to, flavor)
            progress = self._moved(task, parsed_args)
            now = next(iter(servers.some([server.uuid])), server)
            reason = task.failure()
        if progress is None or (not parsed_args.no_wait and progress.status != MOVED):
            self.code = 1
        status, source, destination = progress or (None, None, None)
        fault = reason if status == 'error' else None
        found = (now.uuid, now.name, now.status, source, destination, status, fault)
        return MOVE_COLUMNS, [found]

    def _moved(
        self, task: MoveRequest, parsed_args: argparse.Namespace
    ) -> MoveProgress | None:
        """Wait until a move is over; return how far it is."""
        if not parsed_args.no_wait and not wait(task.is_over, parsed_args.timeout):
            self.say(
                f'It has not moved after {parsed_args.timeout:.0f} s. See '
                'novasched show, and the logs of conductor and computes.'
            )
        return task.progress()


class NotConfirmed(errors.RequestError):
    """Servers were about to be deleted, and no person and no option agreed."""

    def __str__(self) -> str:
        return 'Nothing is deleted: give --yes, or type yes at a terminal.'


class BootServers(ServerLister):
    """Ask for servers, as nova's API does, and wait until they run or have failed.

    Exit codes: 0 all are active, 1 some are not, or nothing could be asked for.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            nargs='?',
            default='server',
            help='the name of the server; of several, -1, -2 and so on are added '
            '(default: server)',
        )
        parser.add_argument(
            '--count',
            type=positive,
            default=1,
            metavar='N',
            help='how many servers (default: 1)',
        )
        add_flavor(parser, 'm1.tiny')
        parser.add_argument(
            '--image',
            default='cirros',
            metavar='IMAGE',
            help='an image of --image-file, or cirros (default)',
        )
        parser.add_argument(
            '--image-file', metavar='FILE', help='images, as TOML tables [[images]]'
        )
        _add_places(parser)
        add_waiting(parser, 'all are built')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from novasched_lab.api import boot
        from novasched_lab.api.servers import Servers, ended

        context = self.context(parsed_args)
        with self.api() as api:
            names = boot.boot(api, context, _order(api, context, parsed_args))
            servers = Servers(api, self.say)
            found = servers.asked_for(names)

            def look() -> bool:
                nonlocal found
                found = servers.asked_for(names)
                return len(ended(found)) == len(found)

            if not parsed_args.no_wait and not wait(look, parsed_args.timeout):
                self.say(
                    f'Not all are built after {parsed_args.timeout:.0f} s. See '
                    'novasched show, and the logs of conductor, scheduler and computes.'
                )
        if not parsed_args.no_wait and any(s.status != 'ACTIVE' for s in found):
            self.code = 1
        return COLUMNS, [row(server) for server in found]


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--group', metavar='NAME', help='the server group they join, by name or uuid'
    )
    parser.add_argument(
        '--policy', choices=POLICIES, help='make the group with this policy'
    )
    parser.add_argument(
        '--max-per-host',
        type=positive,
        metavar='N',
        help='how many of the group a host may have, under anti-affinity',
    )
    parser.add_argument(
        '--hint',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='a scheduler hint; may be repeated, also with one key',
    )
    parser.add_argument(
        '--availability-zone',
        metavar='ZONE[:HOST[:NODE]]',
        help='where they go; a host is forced, whatever its filters say',
    )
    parser.add_argument('--host', help='the host where they go, if its filters agree')


def _order(
    api: ApiContext, context: RequestContext, parsed_args: argparse.Namespace
) -> Order:
    """Return the request; a new group is made. Raises errors.OptionError."""
    from novasched.inspection.session import catalogue
    from novasched_lab.api import boot

    if parsed_args.group is None and (parsed_args.policy or parsed_args.max_per_host):
        raise errors.OptionError(
            '--policy', 'there is no group that has it', 'Give --group NAME, too'
        )
    flavor = flavor_of(api, parsed_args)
    image_file = parsed_args.image_file
    picture = catalogue.from_file(parsed_args.image or '', image_file, 'images')
    image = catalogue.image_for(flavor, picture)
    hints = catalogue.pairs(parsed_args.hint, '--hint')
    boot.check_places(api, parsed_args.availability_zone, parsed_args.host)
    group = parsed_args.group and boot.group_for(
        api, context, parsed_args.group, parsed_args.policy, parsed_args.max_per_host
    )
    return boot.Order(
        name=parsed_args.name,
        flavor=flavor,
        image=image,
        count=parsed_args.count,
        zone=parsed_args.availability_zone,
        hints=hints,
        host=parsed_args.host,
        group=group,
    )


class DeleteServers(ServerLister):
    """Delete servers, and all that they hold, after a yes.

    Without --yes, the word is to be typed at a terminal. Only servers of the project
    that asks are deleted, unless --all-projects is given.

    Exit codes: 0 all are gone, 1 some are not, 2 nothing was confirmed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'names', nargs='*', metavar='NAME', help='names or uuids of servers'
        )
        for name, text in (
            ('all', 'all servers of the project'),
            (
                'all-projects',
                'also servers of other projects; with --all, every server there is',
            ),
            ('yes', 'ask no confirmation, as for scripts'),
            (
                'dry-run',
                'list the servers that would be deleted, and delete none',
            ),
            (
                'force',
                'do not ask their hosts: for those whose host is gone for good',
            ),
        ):
            parser.add_argument(f'--{name}', action='store_true', help=text)
        add_waiting(parser, 'their hosts have deleted them')
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args)
        except NotConfirmed as problem:
            self.say(str(problem))
            return UNCONFIRMED

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from novasched_lab.api.servers import DeleteRequest, Servers

        if bool(parsed_args.names) == parsed_args.all:
            raise errors.OptionError(
                'NAME', 'no servers are named, or all as well', 'Name some, or --all'
            )
        with self.api() as api:
            found = _chosen(Servers(api, self.say), parsed_args)
            self.say(_how_many(found, parsed_args))
            outcomes = dict.fromkeys((each.uuid for each in found), 'would be deleted')
            if found and not parsed_args.dry_run:
                self._confirm(parsed_args)
                task = DeleteRequest(api, self.context(parsed_args), parsed_args.force)
                outcomes = self._delete(task, found, parsed_args)
        rows = [
            (each.uuid, each.name, each.host, outcomes[each.uuid]) for each in found
        ]
        return DELETE_COLUMNS, rows

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
        found: Sequence[ServerSummary],
        parsed_args: argparse.Namespace,
    ) -> dict[str, str]:
        """Delete servers; return what became of each, by uuid."""
        pending = {each.uuid for each in found if not task.run(each.uuid)}

        def look() -> bool:
            pending.difference_update([uuid for uuid in pending if task.is_done(uuid)])
            return not pending

        timeout_s = parsed_args.timeout
        if pending and not parsed_args.no_wait and not wait(look, timeout_s):
            self.code = 1
            self.say(
                f'After {timeout_s:.0f} s, {len(pending)} are not deleted by their '
                'hosts, which do so when they are back. If one never will be: '
                'novasched delete --force.'
            )
        uuids = [each.uuid for each in found]
        return {uuid: 'deleting' if uuid in pending else 'deleted' for uuid in uuids}


def _chosen(servers: Servers, parsed_args: argparse.Namespace) -> list[ServerSummary]:
    """Return the servers that are meant, each once. Raises errors.OptionError."""
    project = None if parsed_args.all_projects else parsed_args.project_id
    if parsed_args.all:
        found = servers.all()
        return [each for each in found if project in (None, each.project_id)]
    named = (servers.one(name, project) for name in parsed_args.names)
    return list({each.uuid: each for each in named}.values())


def _how_many(servers: Sequence[ServerSummary], parsed_args: argparse.Namespace) -> str:
    """Say how many servers of which projects are to be deleted."""
    if not servers and parsed_args.all_projects:
        return 'There are no servers.'
    if not servers:
        return f'There are no servers of project {parsed_args.project_id}.'
    projects = Counter(each.project_id for each in servers)
    listed = ', '.join(f'{n} of project {p}' for p, n in projects.most_common())
    return f'To be deleted: {listed}.'
