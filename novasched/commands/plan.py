# SPDX-License-Identifier: Apache-2.0
"""``novasched plan boot``, ``plan move`` and ``plan drain``: dry runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from novasched.commands.base import ANSWER_IS_NO, IN_PART, add_flavor_file, add_options
from novasched.commands.console_client import ConsoleCommand
from novasched.commands.inspection import InspectionCommand
from novasched.inspection.session.orders import (
    AnyPlanOrder,
    DrainOrder,
    MoveOrder,
    PlanOrder,
)
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.reports import AnyPlan


class PlanCommand(ConsoleCommand, InspectionCommand):
    """A dry run: nothing is claimed, written or notified. ``PATH`` is its place in a
    console."""

    ORDER: ClassVar[type[AnyPlanOrder]]
    PATH: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--long',
            action='store_true',
            help='show every server, and uuids in full',
        )
        parser.add_argument(
            '--expect',
            metavar='PLAN_ID',
            help='exit with 4 if the answer depends on something that has changed '
            'since the plan of this id',
        )
        add_options(parser, self.ORDER)
        return parser

    def report(self, parsed_args: argparse.Namespace) -> AnyPlan:
        fresh = parsed_args.expect is not None
        order = self.order(self.ORDER, parsed_args, fresh=fresh)
        new: Sequence[str] = ()
        if parsed_args.console:
            report = self._of_console(parsed_args, order)
        else:
            report, new = self._planned(order)
        self._judge(report, parsed_args, new)
        return report

    def _of_console(
        self, parsed_args: argparse.Namespace, order: AnyPlanOrder
    ) -> AnyPlan:
        from novasched.inspection.questions.reports import PLANS

        kind = PLANS[self.PATH]
        report: AnyPlan = self.answered(parsed_args, self.PATH, order, kind)
        # A page shows how the first was decided.
        return report if order.explain else replace(report, explanations=None)

    def _planned(self, order: AnyPlanOrder) -> tuple[AnyPlan, Sequence[str]]:
        """Return a plan, and the cells that became unavailable meanwhile."""
        from novasched.inspection.questions import plan

        with self.inspection_of(order, order.seed) as inspection:
            read = self.reader(inspection)
            report = plan.answer(inspection, order, read, self.progress)
            self.end_progress()
            known = inspection.run.reader.view.unavailable_cells()
        return report, [cell for cell in report.cells_left_out if cell not in known]

    def _judge(
        self, report: AnyPlan, parsed_args: argparse.Namespace, new: Sequence[str]
    ) -> None:
        """Set the exit code of a plan, and warn of what is not in it."""
        self.warn_of(report.cells_left_out, stopped=new)
        may_miss = report.cells_left_out and self.may_miss(report, parsed_args)
        if new or may_miss:
            self.code = IN_PART
        elif not report.all_fit:
            self.code = ANSWER_IS_NO
        expected = parsed_args.expect
        if expected is not None and expected != report.plan_id:
            self.warn(f'this is plan {report.plan_id}: something has changed')
            self.code = IN_PART

    def may_miss(self, report: AnyPlan, parsed_args: argparse.Namespace) -> bool:
        """Whether an unavailable cell could change the answer."""
        return not report.all_fit

    def text(self, answer: AnyPlan, style: Style) -> str:
        from novasched.inspection.texts.plan import as_text

        return as_text(answer, style, self.scope(self.parsed_args))

    def scope(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """Return the hosts that servers leave, or what they are in."""
        return ()


def add_request_files(parser: argparse.ArgumentParser) -> None:
    """Add the options that name files of flavors and images."""
    add_flavor_file(parser)
    parser.add_argument(
        '--image-file', metavar='FILE', help='images, as TOML tables [[images]]'
    )


class PlanBoot(PlanCommand):
    """Say where new servers would go, or what would have to change.

    It is a dry run: nothing is claimed, written or notified. Exit codes: 0 all fit, 3
    they do not, or --like finds no decision. Exit code 4: not the expected plan, or a
    cell or part of placement that may have hosts does not answer.
    """

    ORDER, PATH = PlanOrder, '/plan'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_request_files(parser)
        return parser


class PlanMove(PlanCommand):
    """Say where migrated, resized or evacuated servers would go.

    It is a dry run: nothing is claimed, written or notified. Each server sees the
    servers before it. Exit codes: 0 all can move, 3 some cannot. Exit code 4: not the
    expected plan, or a cell or part of placement that may matter does not answer.
    """

    ORDER, PATH = MoveOrder, '/plan/move'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_flavor_file(parser)
        return parser

    def may_miss(self, report: AnyPlan, parsed_args: argparse.Namespace) -> bool:
        """A server stays in its cell, but one that is named could have a namesake in
        an unavailable cell."""
        from oslo_utils import uuidutils

        return not all(map(uuidutils.is_uuid_like, parsed_args.servers))


class PlanDrain(PlanCommand):
    """Say where all servers of some hosts would go, the largest first.

    It is a dry run: nothing is claimed, written or notified. No server goes to these
    hosts. Exit codes: 0 all have a place, 3 some have none. Exit code 4: not the
    expected plan, or a cell or part of placement that may matter does not answer.
    """

    ORDER, PATH = DrainOrder, '/plan/drain'

    def may_miss(self, report: AnyPlan, parsed_args: argparse.Namespace) -> bool:
        """An unavailable cell may have hosts of a zone or an aggregate."""
        return not (parsed_args.hosts or parsed_args.cell)

    def scope(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        given = parsed_args
        return given.hosts or [given.aggregate or given.zone or given.cell]
