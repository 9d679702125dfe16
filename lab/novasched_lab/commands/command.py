# SPDX-License-Identifier: Apache-2.0
"""Base classes and options of the commands on servers."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from cliff.command import Command
from cliff.lister import Lister

from novasched import errors

if TYPE_CHECKING:
    from novasched.objects.context import RequestContext
    from novasched.objects.flavor import Flavor
    from novasched_lab.api.servers import ServerSummary
    from novasched_lab.api.service import ApiContext

NOBODY = 'admin'
WAIT_S = 300.0
POLL_S = 0.5
PIPE_WIDTH = 120
LEAST_WIDTH = 8
COLUMNS = ('ID', 'Name', 'Status', 'Host', 'Fault')

Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]
"""The names of columns, and rows."""


class ServerCommand(Command):
    app: Any

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for kind in ('file', 'dir'):
            # The program itself has read it, wherever it stands.
            parser.add_argument(
                f'--config-{kind}',
                metavar='PATH',
                action='append',
                default=[],
                help=f'read this configuration {kind}, as novasched-scheduler does; '
                'may be repeated (default: those of nova)',
            )
        for who, default in (('project', 'OS_PROJECT_ID'), ('user', 'OS_USER_ID')):
            parser.add_argument(
                f'--{who}-id',
                metavar='ID',
                default=os.environ.get(default) or NOBODY,
                help=f'the {who} that asks (default: {default}, else {NOBODY})',
            )
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
        """Return who asks."""
        from novasched.objects.context import RequestContext

        return RequestContext(
            user_id=parsed_args.user_id,
            project_id=parsed_args.project_id,
            overwrite=False,
        )

    def warn(self, line: str) -> None:
        """Say a line beside the output."""
        self.app.stderr.write(f'{line}\n')


class ServerLister(ServerCommand, Lister):
    """A command that ends with a table; ``code`` is its exit code."""

    code = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--long',
            action='store_true',
            help='print a table with all columns, as wide as it gets',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        super().run(parsed_args)
        return self.code

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Print the rows; a table is cut to the width of the terminal.

        What is not there is a dash in it.
        """
        if parsed_args.formatter == 'table':
            rows = [['-' if v is None else str(v) for v in row] for row in data]
            width = parsed_args.max_width or _width_of(self.app.stdout)
            if width > 0 and not parsed_args.long:
                shown = parsed_args.columns or column_names
                rows = fitted(column_names, rows, width, frozenset(shown))
            data = rows
        return super().produce_output(parsed_args, column_names, data)


def _width_of(stream: Any) -> int:
    """Return the width of a terminal, or that of a table in a pipe or file."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (OSError, ValueError):
        return PIPE_WIDTH


def fitted(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    shown: AbstractSet[str],
) -> list[list[str]]:
    """Return the rows of a table in one line each, cut to fit into a width.

    The widest column is cut first, the ID after all others; none to less than
    LEAST_WIDTH or its name. Only the columns that are shown count.
    """
    lines = [[' '.join(value.split()) for value in row] for row in rows]
    widths = [
        max([len(name), *(len(line[place]) for line in lines)]) if name in shown else 0
        for place, name in enumerate(names)
    ]
    over = sum(widths) + 3 * sum(name in shown for name in names) + 1 - width
    for _ in range(over):
        wide = [
            place
            for place, name in enumerate(names)
            if widths[place] > max(LEAST_WIDTH, len(name))
        ]
        if not wide:
            break
        widest = max(wide, key=lambda place: (names[place] != 'ID', widths[place]))
        widths[widest] -= 1
    return [
        [
            text if not width or len(text) <= width else f'{text[: width - 3]}...'
            for text, width in zip(line, widths, strict=True)
        ]
        for line in lines
    ]


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
    parser.add_argument(
        '--flavor-file', metavar='FILE', help='flavors, as TOML tables [[flavors]]'
    )


def flavor_of(api: ApiContext, parsed_args: argparse.Namespace) -> Flavor:
    from novasched_lab.api import catalogue

    return catalogue.flavor_of(
        parsed_args.flavor, parsed_args.flavor_file, api.database.flavor
    )


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
