# SPDX-License-Identifier: Apache-2.0
"""Base classes and options of the commands on servers."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import (
    ConfiguredCommand,
    TableCommand,
    add_flavor_file,
    add_owner,
)

if TYPE_CHECKING:
    from novasched.objects.context import RequestContext
    from novasched.objects.flavor import Flavor
    from novasched_lab.api.servers import ServerSummary
    from novasched_lab.api.service import ApiContext

WAIT_S = 300.0
POLL_S = 0.5
COLUMNS = ('ID', 'Name', 'Status', 'Host', 'Fault')


class ServerCommand(ConfiguredCommand):
    """A command that asks databases, placement or the broker of a cloud."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_owner(parser)
        return parser

    @contextlib.contextmanager
    def api(self) -> Iterator[ApiContext]:
        """Open what the configuration names. Raises errors.OptionError."""
        from novasched.db import engines
        from novasched_lab.api import service

        options = self.app.options
        conf = service.configure(options.config_file, options.config_dir)
        try:
            with service.opened(conf) as api:
                yield api
        except errors.OptionError as problem:
            if problem.option != engines.API or conf.api_database.connection:
                raise
            raise errors.OptionError(
                problem.option,
                problem.problem,
                'Give --config-file nova.conf, or set it there',
            ) from problem

    def context(self, parsed_args: argparse.Namespace) -> RequestContext:
        """Return the context of the user and project that ask."""
        from novasched.objects.context import RequestContext

        return RequestContext(
            user_id=parsed_args.user_id,
            project_id=parsed_args.project_id,
            overwrite=False,
        )


class ServerLister(ServerCommand, TableCommand):
    """A command on servers that ends with a table."""


def add_flavor(parser: argparse.ArgumentParser, default: str | None) -> None:
    shown = f' (default: {default})' if default else ''
    parser.add_argument(
        '--flavor',
        metavar='FLAVOR',
        default=default,
        help='a flavor of the API database, of --flavor-file or built in (m1.tiny, '
        'm1.small, m1.medium, m1.large), or one in full, such as '
        f'vcpus=2,ram=2048,disk=20,hw:cpu_policy=dedicated{shown}',
    )
    add_flavor_file(parser)


def flavor_of(api: ApiContext, parsed_args: argparse.Namespace) -> Flavor:
    from novasched.inspection.session import catalogue

    path = parsed_args.flavor_file
    text = catalogue.from_file(parsed_args.flavor, path, 'flavors')
    return catalogue.flavor_of(text, api.database.flavor)


def add_waiting(parser: argparse.ArgumentParser, until: str) -> None:
    parser.add_argument(
        '--no-wait', action='store_true', help=f'do not wait until {until}'
    )
    parser.add_argument(
        '--timeout',
        metavar='SECONDS',
        type=float,
        default=WAIT_S,
        help=f'how long to wait until {until} (default: {WAIT_S:.0f})',
    )


def wait(look: Callable[[], bool], timeout_s: float) -> bool:
    """Look now and then until it is so, or time is up; return whether it is."""
    end = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_S)
    return True


def row(server: ServerSummary) -> tuple[str | None, ...]:
    return server.uuid, server.name, server.status, server.host, server.fault
