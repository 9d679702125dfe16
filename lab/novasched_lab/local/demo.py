# SPDX-License-Identifier: Apache-2.0
"""``novasched demo``: its options, and where its output goes.

All that runs the cloud is imported only when the command runs.
"""

from __future__ import annotations

import argparse
import os
import shutil

from cliff.command import Command

from novasched import errors
from novasched_lab.local.render import as_json, as_text

SET_BY = {
    '[DEFAULT] transport_url': '--broker',
    '[api_database] connection': '--database',
    '[database] connection': '--database',
}


class Demo(Command):
    """Schedule a server on a made-up cloud, and show why it went where it went.

    The cloud has the 16 hosts of a published log. It needs no server and no
    privileges, lives in this process while the command runs, and leaves
    nothing behind.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
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
            help='use the placement service at this URL, which must take the token '
            '"admin" (auth_strategy = noauth2), instead of one in the process; '
            'what was made there is deleted in the end',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the demo; return 1 if no host was found."""
        if parsed_args.numa:
            return self._show_nodes(parsed_args.format)
        from novasched_lab.local import walkthrough

        servers = walkthrough.Servers(
            parsed_args.broker, parsed_args.database, parsed_args.placement
        )
        try:
            report = walkthrough.run(servers, walkthrough.Progress(self.app.stderr))
        except errors.OptionError as error:
            option = SET_BY.get(error.option, error.option)
            raise errors.OptionError(option, error.problem, error.remedy) from error
        out = self.app.stdout
        if parsed_args.format == 'json':
            out.write(as_json(report))
        else:
            colour = out.isatty() and 'NO_COLOR' not in os.environ
            width = shutil.get_terminal_size().columns
            out.write(as_text(report, width, colour))
        return 0 if report.selected else 1

    def _show_nodes(self, form: str) -> int:
        """Print which nodes take the server; nothing of a cloud is made."""
        from novasched_lab.local import nodes

        render = nodes.as_json if form == 'json' else nodes.as_text
        self.app.stdout.write(render(nodes.scenes()))
        return 0
