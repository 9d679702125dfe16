# SPDX-License-Identifier: Apache-2.0
"""``novasched capacity``: how many more servers of each flavor there is room for."""

from __future__ import annotations

import argparse
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from novasched.commands.base import IN_PART, add_flavor_file, add_options
from novasched.commands.console_client import ConsoleCommand
from novasched.commands.inspection import InspectionCommand
from novasched.inspection.session.orders import CapacityOrder
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.reports import CapacityReport


class CountCapacity(ConsoleCommand, InspectionCommand):
    """Count how many more servers of each flavor fit.

    Each flavor is counted alone, by the filters of the scheduler. Exit codes: 0
    answered, 4 a cell, or a part of placement, did not answer.
    """

    newly_unavailable: AbstractSet[str] = frozenset()
    """Cells that became unavailable meanwhile."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_options(parser, CapacityOrder)
        add_flavor_file(parser)
        parser.add_argument(
            '--stranded',
            action='store_true',
            help='show what is free but not usable, and why',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> CapacityReport:
        ask = self._of_console if parsed_args.console else self._counted
        answer = ask(parsed_args)
        if self.warn_of(answer.cells_left_out, self.newly_unavailable):
            self.code = IN_PART
        return answer

    def _of_console(self, parsed_args: argparse.Namespace) -> CapacityReport:
        from novasched.inspection.questions.reports import CapacityReport

        order = self.order(CapacityOrder, parsed_args)
        answer = self.answered(parsed_args, '/capacity', order, CapacityReport)
        if parsed_args.stranded:
            return answer
        return replace(answer, rows=[row.without_stranded() for row in answer.rows])

    def _counted(self, parsed_args: argparse.Namespace) -> CapacityReport:
        from novasched.inspection.questions import capacity
        from novasched.inspection.session.copy_on_demand import FRESH_S

        order = self.order(CapacityOrder, parsed_args)
        with self.inspection_of(order) as inspection:
            inspection.copies.machine_max_age_s = FRESH_S
            answer = capacity.answer(inspection, order, parsed_args.stranded)
            unavailable = inspection.run.reader.view.unavailable_cells()
            self.newly_unavailable = set(answer.cells_left_out) - set(unavailable)
        return answer

    def text(self, answer: CapacityReport, style: Style) -> str:
        from novasched.inspection.texts.capacity import as_text

        return as_text(answer, self.parsed_args.by or None, self.parsed_args.stranded)
