# SPDX-License-Identifier: Apache-2.0
"""``novasched why-not``: which conditions of a request a host meets, and which not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, IN_PART, add_options
from novasched.commands.console_client import ConsoleCommand
from novasched.commands.inspection import InspectionCommand
from novasched.commands.plan import add_request_files
from novasched.inspection.session.orders import WhyNotOrder
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.reports import WhyNotReport


class WhyNot(ConsoleCommand, InspectionCommand):
    """Say which conditions of a request a host meets now, and which it does not.

    All are asked, not only the first that fails. It is a dry run: nothing is claimed,
    written or notified. Exit codes: 0 it fits, 3 it does not. Exit code 4: no cell that
    answers has it, or part of placement does not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--long', action='store_true', help='show uuids in full')
        add_options(parser, WhyNotOrder)
        add_request_files(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().take_action(parsed_args)
        except errors.UnknownHost as problem:
            if not problem.cells_left_out:
                raise
            self.say(str(problem))
            return IN_PART

    def report(self, parsed_args: argparse.Namespace) -> WhyNotReport:
        from novasched.inspection.questions.reports import WhyNotReport

        order = self.order(WhyNotOrder, parsed_args)
        if parsed_args.console:
            answer = self.answered(parsed_args, '/why-not', order, WhyNotReport)
            ranked_without: Sequence[str] = answer.cells_left_out
        else:
            from novasched.inspection.questions import why_not

            with self.inspection_of(order, order.seed) as inspection:
                answer = why_not.answer(inspection, order, self.reader(inspection))
                ranked_without = inspection.run.reader.view.unavailable_cells()
        cells = answer.cells_left_out
        self.warn_of(cells, stopped=set(cells).difference(ranked_without))
        if not answer.fits:
            self.code = ANSWER_IS_NO
        return answer

    def text(self, answer: WhyNotReport, style: Style) -> str:
        from novasched.inspection.texts import plan as plan_text

        return plan_text.why_not_as_text(answer, style)
