# SPDX-License-Identifier: Apache-2.0
"""``novasched capacity``: how many more servers of each flavor there is room for."""

from __future__ import annotations

import argparse
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from novasched.commands.base import IN_PART, add_flavor_file
from novasched.commands.console_client import ConsoleCommand
from novasched.commands.inspection import InspectionCommand, add_changes
from novasched.inspection.questions.reports import CapacityReport
from novasched.inspection.texts.lines import Style
from novasched.runtime.typed_json import of_json

BY = ('zone', 'aggregate', 'cell', 'host')


class CountCapacity(ConsoleCommand, InspectionCommand):
    """Count how many more servers of each flavor fit.

    Each flavor is counted alone, by the filters of the scheduler. Exit codes: 0
    answered, 4 a cell, or a part of placement, did not answer.
    """

    newly_unavailable: AbstractSet[str] = frozenset()
    """Cells that became unavailable meanwhile."""
    ONLY_HERE = MappingProxyType({'flavor_file': '--flavor-file', 'fresh': '--fresh'})

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--flavor',
            action='append',
            dest='flavors',
            metavar='FLAVOR',
            help='a name, an id, or in full: vcpus=2,ram=2048,disk=20; may be repeated '
            '(default: the flavors in use, 50 at most)',
        )
        add_flavor_file(parser)
        parser.add_argument('--by', choices=BY, help='group by')
        parser.add_argument(
            '--stranded',
            action='store_true',
            help='show what is free but not usable, and why',
        )
        parser.add_argument(
            '--fresh',
            action='store_true',
            help='ask placement now; use nothing read in the last 5 minutes',
        )
        add_changes(parser)
        return parser

    def report(self, parsed_args: argparse.Namespace) -> CapacityReport:
        ask = self._of_console if parsed_args.console else self._counted
        answer = ask(parsed_args)
        for cell, hosts in answer.cells_left_out.items():
            self.warn(f'{cell} {self._missing(cell, hosts)}')
            self.code = IN_PART
        return answer

    def _missing(self, cell: str, hosts: int) -> str:
        """Say what of a cell is not in the answer."""
        from novasched.inspection.texts.lines import counted

        if cell in self.newly_unavailable:
            return 'stopped answering; it is not known which flavors its servers have'
        are = 'is' if hosts == 1 else 'are'
        return f'does not answer; its {counted(hosts, "host")} {are} not counted'

    def _of_console(self, parsed_args: argparse.Namespace) -> CapacityReport:
        given = [('flavors', each) for each in parsed_args.flavors or ()]
        given += [('what_if', each) for each in parsed_args.changes]
        given += [('by', parsed_args.by)] if parsed_args.by else []
        answer = self.of_console(parsed_args, '/capacity', given) or {}
        if not parsed_args.stranded:
            for row in answer['rows']:
                for resource in row['resources'].values():
                    resource.pop('stranded', None)
        return of_json(CapacityReport, answer)

    def _counted(self, parsed_args: argparse.Namespace) -> CapacityReport:
        from novasched.inspection.questions import capacity
        from novasched.placement_copy.on_demand import FRESH_S

        what_if = self.what_if(parsed_args)
        with self.inspection(what_if=what_if) as inspection:
            flavors = capacity.wanted(
                inspection, parsed_args.flavors or (), path=parsed_args.flavor_file
            )
            copies = inspection.copies
            copies.fresh, copies.machine_max_age_s = parsed_args.fresh, FRESH_S
            answer = capacity.report(
                inspection, copies, flavors, parsed_args.by, parsed_args.stranded
            )
            unavailable = inspection.run.reader.view.unavailable_cells()
            self.newly_unavailable = set(answer.cells_left_out) - set(unavailable)
        return answer

    def text(
        self, answer: CapacityReport, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.inspection.texts.capacity import as_text

        return as_text(answer, parsed_args.by, parsed_args.stranded)
