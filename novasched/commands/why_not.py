# SPDX-License-Identifier: Apache-2.0
"""``novasched why-not``: which conditions of a request a host meets, and which not."""

from __future__ import annotations

import argparse
from dataclasses import replace

from novasched import errors
from novasched.commands import plan
from novasched.commands.base import ANSWER_IS_NO, IN_PART
from novasched.commands.inspection import InspectionCommand, add_changes, add_seed
from novasched.inspection.questions.reports import WhyNotReport
from novasched.inspection.texts.lines import Style


class WhyNot(InspectionCommand):
    """Say which conditions of a request a host meets now, and which it does not.

    All are asked, not only the first that fails. It is a dry run: nothing is claimed,
    written or notified. Exit codes: 0 it fits, 3 it does not. Exit code 4: no cell that
    answers has it, or part of placement does not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST', help='name of a compute host')
        what = plan.add_request(parser)
        what.add_argument(
            '--server', metavar='SERVER', help='to move this server, by name or uuid'
        )
        parser.add_argument('--long', action='store_true', help='show uuids in full')
        add_seed(parser)
        add_changes(parser)
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
        from novasched.inspection.questions.why_not import held_by, why_not

        what_if = self.what_if(parsed_args)
        with self.inspection(parsed_args.seed, what_if) as inspection:
            if parsed_args.server is not None:
                server = inspection.finder.one(parsed_args.server)
                asked = inspection.maker.move(server)
            else:
                asked = plan.wanted(inspection, parsed_args)
            answer = why_not(
                inspection.run, parsed_args.host, asked, inspection.placement
            )
            held = held_by(inspection, answer, asked.request)
            unavailable = inspection.cells_left_out()
        for cell in unavailable:
            what = 'does not answer; its hosts are not ranked'
            if cell not in answer.cells_left_out:
                what = 'stopped answering; its servers are not named'
            self.warn(f'{cell} {what}')
        if not answer.fits:
            self.code = ANSWER_IS_NO
        return replace(answer, held_by=held, cells_left_out=unavailable)

    def text(
        self, answer: WhyNotReport, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.inspection.texts import plan as plan_text

        return plan_text.why_not_as_text(answer, style)
