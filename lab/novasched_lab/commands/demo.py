# SPDX-License-Identifier: Apache-2.0
"""``novasched demo``: the walk-through, or with --hosts a whole cloud."""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cliff.command import Command

from novasched import errors
from novasched_lab.commands.command import COLUMNS

if TYPE_CHECKING:
    from novasched.inspection.texts.lines import Style
    from novasched_lab.demo.run import DemoResult
    from novasched_lab.local.databases import GivenServers

MOST_HOSTS = 2000
SET_BY = {
    '[DEFAULT] transport_url': '--broker',
    '[api_database] connection': '--database',
    '[database] connection': '--database',
    'cell_mappings.database_connection': '--database',
}


class RunDemo(Command):
    """Schedule a server on a made-up cloud, and show why it went where it went.

    The cloud has the 16 hosts of a published log. It lives in this process and leaves
    nothing behind.

    With --hosts, and its own virtual host of RabbitMQ, it is a whole cloud.
    Scheduler, conductor and computes are programs, and servers come and go.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '-f',
            '--format',
            choices=['text', 'json'],
            default='text',
            help='how to print what happened (default: text)',
        )
        parser.add_argument(
            '--numa',
            action='store_true',
            help='instead, show which NUMA cell of each host takes a server with '
            'pages of 1 GiB, and what the others say',
        )
        parser.add_argument(
            '--broker',
            metavar='URL',
            help='send the request through this broker, such as '
            'rabbit://user:password@host/vhost, instead of within the process',
        )
        parser.add_argument(
            '--database',
            metavar='URL',
            help='use this empty database, such as '
            'mysql+pymysql://user:password@host/name, instead of SQLite files; '
            'the tables are dropped in the end',
        )
        parser.add_argument(
            '--placement',
            metavar='URL',
            help='use the placement service at this URL instead of one in the process. '
            'It must take the token "admin" (auth_strategy = noauth2). All that was '
            'made there is deleted in the end',
        )
        parser.add_argument(
            '--hosts',
            type=int,
            metavar='N',
            help='run a whole cloud with this many hosts through the broker, on SQLite '
            'files without --database, and a placement of its own without --placement',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the demo; return 1 if it did not go as it must."""
        if self.app.options.config_file or self.app.options.config_dir:
            raise errors.OptionError(
                '--config-file', 'the demo reads no configuration', 'Leave it out'
            )
        if parsed_args.numa:
            return self._show_cells(parsed_args.format)
        try:
            if parsed_args.hosts is None:
                return self._schedule_one(parsed_args)
            return self._run_cloud(parsed_args)
        except errors.OptionError as error:
            option = SET_BY.get(error.option, error.option)
            raise errors.OptionError(option, error.problem, error.remedy) from error

    def _show_cells(self, form: str) -> int:
        from novasched_lab.local import numa

        render = numa.as_json if form == 'json' else numa.as_text
        self.app.stdout.write(render(numa.scenes()))
        return 0

    def _schedule_one(self, parsed_args: argparse.Namespace) -> int:
        from novasched.inspection.questions.explain import explanation
        from novasched.inspection.texts.lines import Style
        from novasched.inspection.texts.render import as_text
        from novasched.runtime.typed_json import to_json
        from novasched_lab.local import walkthrough

        progress = walkthrough.Progress(self.app.stderr)
        found = walkthrough.run(_servers(parsed_args), progress)
        made = explanation(found.record)
        out = self.app.stdout
        if parsed_args.format == 'json':
            shown = {**to_json(made), 'allocations': found.allocations}
            out.write(json.dumps(shown, indent=2) + '\n')
        else:
            has_colour = out.isatty() and 'NO_COLOR' not in os.environ
            style = Style(shutil.get_terminal_size().columns, has_colour, True)
            out.write(as_text(made, style) + held_as_text(found.allocations, style))
        return 0 if made.is_scheduled else 1

    def _run_cloud(self, parsed_args: argparse.Namespace) -> int:
        """Run a whole cloud of programs, and print what became of its servers."""
        if not 1 <= parsed_args.hosts <= MOST_HOSTS:
            raise errors.OptionError(
                '--hosts', f'not from 1 to {MOST_HOSTS}', 'Try --hosts 200'
            )
        if parsed_args.broker is None:
            raise errors.OptionError(
                '--hosts',
                'programs need a broker between them',
                'Give --broker rabbit://user:password@host/vhost, too, with a virtual '
                'host that nobody uses',
            )
        from novasched_lab.demo import run
        from novasched_lab.local.walkthrough import Progress

        progress = Progress(self.app.stderr, after_s=-1)
        result = run.run(_servers(parsed_args), parsed_args.hosts, progress)
        text = result_as_text(result)
        if parsed_args.format == 'json':
            text = json.dumps(result.as_dict(), indent=2) + '\n'
        self.app.stdout.write(text)
        return 0 if result.is_good else 1


def _servers(parsed_args: argparse.Namespace) -> GivenServers:
    from novasched_lab.local.databases import GivenServers

    return GivenServers(parsed_args.broker, parsed_args.database, parsed_args.placement)


def held_as_text(allocations: Mapping[str, Mapping[str, int]], style: Style) -> str:
    """Return the allocations of the instance in placement."""
    lines = []
    for provider, amounts in allocations.items():
        held = ', '.join(f'{name} {amount}' for name, amount in amounts.items())
        lines += style.labelled('Holds', f'{held} on {provider}')
    return ''.join(f'{line}\n' for line in lines)


def result_as_text(result: DemoResult) -> str:
    """Return a table of the servers, and what is to be said of all of them."""
    import prettytable

    table = prettytable.PrettyTable(COLUMNS)
    table.align = 'l'
    for each in result.servers:
        fields = ('uuid', *(name.lower() for name in COLUMNS[1:]))
        table.add_row([each[field] or '-' for field in fields])
    statuses = ', '.join(f'{n} {name}' for name, n in sorted(result.statuses.items()))
    lines = [
        str(table),
        f'{len(result.servers)} servers on {result.hosts} hosts: {statuses}; booted in '
        f'{result.boot_seconds} s',
        f'{result.hosts_agree} are where placement has them; those of the group web '
        f'are on {result.group_hosts} hosts',
    ]
    if moved := result.moved:
        lines.append(
            f'{moved["name"]} moved from {moved["source"]} to {moved["destination"]}: '
            f'{moved["status"]}'
        )
    lines.append(
        f'After all were deleted, {result.left_in_placement} allocations were left; '
        f'all of it took {result.total_seconds} s'
    )
    return '\n'.join(lines) + '\n'
