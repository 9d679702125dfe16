# SPDX-License-Identifier: Apache-2.0
"""``novasched boot``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from novasched_lab.commands.command import (
    COLUMNS,
    ServerList,
    add_flavor,
    add_waiting,
    flavor_of,
    row,
    wait,
)

if TYPE_CHECKING:
    from novasched.objects.context import RequestContext
    from novasched_lab.api.boot import Order
    from novasched_lab.api.servers import Server, Servers
    from novasched_lab.api.service import ApiContext

POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')


class Boot(ServerList):
    """Ask for servers, as nova's API does, and wait until they run or have failed.

    Exit codes: 0 all are active, 1 some are not, or nothing could be asked for.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
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
            type=_positive,
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

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Boot; return the servers."""
        from novasched_lab.api import boot
        from novasched_lab.api.servers import Servers

        context = self.context(parsed_args)
        with self.api() as api:
            order = _order(api, context, parsed_args)
            names = boot.boot(api, context, order)
            servers = Servers(api, self.warn)
            found = self._built(servers, names, parsed_args)
        if not parsed_args.no_wait and any(s.status != 'ACTIVE' for s in found):
            self.code = 1
        return COLUMNS, [row(server) for server in found]

    def _built(
        self, servers: Servers, names: dict[str, str], parsed_args: argparse.Namespace
    ) -> list[Server]:
        """Wait until servers are built; return how they are then, all of them."""
        from novasched_lab.api.servers import ended

        found = servers.asked_for(names)
        if parsed_args.no_wait:
            return found

        def look() -> bool:
            nonlocal found
            found = servers.asked_for(names)
            return len(ended(found)) == len(found)

        if not wait(look, parsed_args.timeout):
            self.warn(
                f'Not all are built after {parsed_args.timeout:.0f} s. See novasched '
                'show, and the logs of conductor, scheduler and computes.'
            )
        return found


def _add_places(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where servers are to go."""
    parser.add_argument(
        '--group', metavar='NAME', help='the server group they join, by name or uuid'
    )
    parser.add_argument(
        '--policy', choices=POLICIES, help='make the group with this policy'
    )
    parser.add_argument(
        '--max-per-host',
        type=_positive,
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


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text} is no number from 1 up')
    return number


def _order(
    api: ApiContext, context: RequestContext, parsed_args: argparse.Namespace
) -> Order:
    """Return what is asked for; a new group is made. Raises errors.OptionError."""
    from novasched import errors
    from novasched_lab.api import boot, catalogue

    if parsed_args.group is None and (parsed_args.policy or parsed_args.max_per_host):
        raise errors.OptionError(
            '--policy', 'there is no group that has it', 'Give --group NAME, too'
        )
    flavor = flavor_of(api, parsed_args)
    image = catalogue.image_of(parsed_args.image, parsed_args.image_file)
    catalogue.check_fit(flavor, image)
    hints = catalogue.pairs(parsed_args.hint, '--hint')
    boot.check_places(api, parsed_args.availability_zone, parsed_args.host)
    group = None
    if parsed_args.group is not None:
        named = parsed_args.group, parsed_args.policy, parsed_args.max_per_host
        group = boot.group_for(api, context, *named)
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
