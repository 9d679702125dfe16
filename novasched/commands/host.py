# SPDX-License-Identifier: Apache-2.0
"""``novasched host``: resources of a host, what is free, and the servers on the
rest."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import IN_PART
from novasched.commands.console_client import ConsoleCommand, of_host
from novasched.commands.inspection import InspectionCommand
from novasched.inspection.texts.lines import Style
from novasched.runtime.typed_json import of_json

if TYPE_CHECKING:
    from novasched.inspection.questions.reports import HostReport

HOLDING = ('pages', 'pcpu', 'pci')


class ShowHost(ConsoleCommand, InspectionCommand):
    """Show a host: its state, what is free of it, and which servers hold the rest.

    Decisions come from all schedulers. Exit codes: 0 answered, 4 a cell or a scheduler
    does not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST', help='name of a compute host')
        parser.add_argument(
            '--holders',
            choices=HOLDING,
            help='show only servers that hold memory pages, CPUs of their own or '
            'devices',
        )
        parser.add_argument(
            '--long', action='store_true', help='show traits, and uuids in full'
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> HostReport:
        ask = self._of_console if parsed_args.console else self._read
        answer = ask(parsed_args)
        is_in_part = self.warn_of(answer.cells_left_out, unanswered=answer.unanswered)
        if is_in_part or answer.placement_problems:
            self.code = IN_PART
        return replace(answer, unanswered=None)

    def _of_console(self, parsed_args: argparse.Namespace) -> HostReport:
        from novasched.inspection.questions.reports import HostReport

        host, holding = parsed_args.host, parsed_args.holders
        found = self.of_console(parsed_args, of_host(host))
        if found is None:
            remedy = 'See all in its page of hosts'
            raise errors.OptionError('HOST', f'the console knows no {host}', remedy)
        answer = of_json(HostReport, found)
        if holding is None:
            return answer
        holders = [each for each in answer.holders if each.held(holding)]
        return replace(answer, holders=holders)

    def _read(self, parsed_args: argparse.Namespace) -> HostReport:
        from novasched.commands import sources
        from novasched.inspection.questions import host

        with (
            self.inspection() as inspection,
            contextlib.closing(sources.sources(inspection.conf, warn=self.warn)) as log,
        ):
            answer = host.report(inspection, parsed_args.host, log, parsed_args.holders)
        self.say_what_is_missing(log)
        return answer

    def text(self, answer: HostReport, style: Style) -> str:
        from novasched.inspection.texts.host import as_text

        return as_text(answer, style)
