# SPDX-License-Identifier: Apache-2.0
"""``novasched demo``: the walk-through, or with --hosts a whole cloud."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from novasched import errors
from novasched_lab.commands.command import COLUMNS
from novasched_lab.local import demo

if TYPE_CHECKING:
    from novasched_lab.demo.run import Result

MOST_HOSTS = 2000


class Demo(demo.Demo):
    """Schedule a server on a made-up cloud, and show why it went where it went.

    The cloud has the 16 hosts of a published log. It needs no server and no
    privileges, lives in this process while the command runs, and leaves
    nothing behind.

    With --hosts, and a virtual host of RabbitMQ that nobody else uses, it is a whole
    cloud: scheduler, conductor and computes run as programs of their own, servers are
    built, refused, moved and deleted, and in the end nothing is left.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--hosts',
            type=int,
            metavar='N',
            help='run a whole cloud with this many hosts through the broker; without '
            '--database, on a MariaDB of its own if that is installed, else on SQLite '
            'files; without --placement, with one in this process',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the demo; return 1 if it did not go as it must."""
        if self.app.options.config_file or self.app.options.config_dir:
            raise errors.OptionError(
                '--config-file', 'the demo reads no configuration', 'Leave it out'
            )
        if parsed_args.hosts is None:
            return super().take_action(parsed_args)
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
        try:
            from novasched_lab.demo import cloud, run
        except ModuleNotFoundError as error:
            raise errors.SetupError(
                f'{error.name} is missing: pip install novasched[mysql]'
            ) from error
        wanted = cloud.Wanted(
            parsed_args.broker,
            parsed_args.database,
            parsed_args.placement,
            parsed_args.hosts,
        )
        try:
            result = run.run(wanted, self._say)
        except errors.OptionError as error:
            option = demo.SET_BY.get(error.option, error.option)
            raise errors.OptionError(option, error.problem, error.remedy) from error
        out = self.app.stdout
        if parsed_args.format == 'json':
            out.write(json.dumps(result.as_dict(), indent=2) + '\n')
        else:
            out.write(as_text(result))
        return 0 if result.is_good else 1

    def _say(self, text: str) -> None:
        self.app.stderr.write(f'{text} ...\n')
        self.app.stderr.flush()


def as_text(result: Result) -> str:
    """Return a table of the servers, and what is to be said of all of them."""
    import prettytable

    table = prettytable.PrettyTable(COLUMNS)
    table.align = 'l'
    for each in result.servers:
        fields = ('uuid', *(name.lower() for name in COLUMNS[1:]))
        table.add_row([each[field] or '-' for field in fields])
    moved = result.moved or {}
    statuses = ', '.join(f'{n} {name}' for name, n in sorted(result.statuses.items()))
    lines = [
        str(table),
        f'{len(result.servers)} servers on {result.hosts} hosts: {statuses}; booted in '
        f'{result.boot_seconds} s',
        f'{result.hosts_agree} are where placement has them; those of the group web '
        f'are on {result.group_hosts} hosts',
    ]
    if moved:
        lines.append(
            f'{moved["name"]} moved from {moved["source"]} to {moved["destination"]}: '
            f'{moved["status"]}'
        )
    lines.append(
        f'After all were deleted, {result.left_in_placement} allocations were left; '
        f'all of it took {result.total_seconds} s'
    )
    return '\n'.join(lines) + '\n'
