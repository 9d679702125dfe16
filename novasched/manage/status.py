# SPDX-License-Identifier: Apache-2.0
"""The program novasched-status: may a scheduler take over here?"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping

import prettytable
from oslo_config import cfg

from novasched import opts
from novasched.db import cells
from novasched.manage import readiness
from novasched.manage.program import Action, Program
from novasched.ports import Cell

TITLE = 'Upgrade Check Results'
WIDTH = 60


class Status(Program):
    """Reads the whole configuration of the scheduler and looks at what it names."""

    NAME = 'novasched-status'
    DESCRIPTION = 'Tell whether novasched-scheduler can run in this cloud.'
    CONSOLE_MESSAGE_FORMAT = f'{NAME}: %(message)s'
    CONFIGURED_AS = 'nova-scheduler'

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register every option of the scheduler."""
        opts.register(conf)

    def cells(self) -> list[Cell]:
        """Return all cells, cell0 included. Raises errors.NovaschedError."""
        with self.api() as api, api.read() as connection:
            return cells.read(connection, self.url_defaults)


class UpgradeCheck(Action):
    """Look at the cells, placement, the services, the databases and the options.

    Exit codes are those of nova-status: 0 all is well, 1 there are warnings, 2 there
    are failures, which stop an upgrade, and 255 something unexpected happened.
    """

    app: Status

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json'),
            default='table',
            help='The output format, defaults to table.',
        )
        parser.add_argument(
            '--json', dest='format', action='store_const', const='json', help='-f json'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        verdicts = readiness.judge(self.app)
        self.say((_json if parsed_args.format == 'json' else _table)(verdicts))
        return max(verdict.code for verdict in verdicts.values())


def _table(verdicts: Mapping[str, readiness.Verdict]) -> str:
    table = prettytable.PrettyTable([TITLE], hrules=prettytable.HRuleStyle.ALL)
    table.align = 'l'
    for name, (code, details) in verdicts.items():
        shown = details and '\n'.join(
            textwrap.wrap(details, WIDTH, subsequent_indent='  ')
        )
        table.add_row([f'Check: {name}\nResult: {code.name.title()}\nDetails: {shown}'])
    return str(table)


def _json(verdicts: Mapping[str, readiness.Verdict]) -> str:
    checks = [
        {'check': name, 'result': int(code), 'details': details}
        for name, (code, details) in verdicts.items()
    ]
    return json.dumps({'name': TITLE, 'checks': checks})
