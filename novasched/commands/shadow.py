# SPDX-License-Identifier: Apache-2.0
"""``novasched shadow``: what a shadow of nova-scheduler has found."""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from novasched.commands.base import (
    ANSWER_IS_NO,
    ReportCommand,
    add_options,
    order_of,
)
from novasched.commands.console_client import ConsoleCommand
from novasched.inspection.session.orders import ShadowOrder
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.shadow import ShadowReport


class ReportShadow(ConsoleCommand, ReportCommand):
    """Report how a shadow decided beside nova-scheduler.

    Reads the decision log of this machine, where the shadow runs. What is
    systematically different comes first. See docs/reference/shadow.md for the words.

    Exit codes: 0 answered, 1 error, 2 usage, 3 something is systematically different,
    or nothing was compared.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_options(parser, ShadowOrder)
        parser.add_argument(
            '--long',
            action='store_true',
            help='every difference of the report; ids in full',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> ShadowReport:
        from novasched.inspection.questions.shadow import ShadowReport

        order = order_of(ShadowOrder, parsed_args)
        if parsed_args.console:
            answer = self.answered(parsed_args, '/shadow', order, ShadowReport)
        else:
            with contextlib.closing(self.sources(local_only=True)) as decisions:
                answer = decisions.shadow(order)
        if answer.findings or not answer.servers:
            self.code = ANSWER_IS_NO
        return answer

    def text(self, answer: ShadowReport, style: Style) -> str:
        from novasched.inspection.texts.shadow import as_text

        return as_text(answer, style)
