# SPDX-License-Identifier: Apache-2.0
"""``novasched plan boot``, ``plan move`` and ``plan drain``: dry runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched.commands.base import (
    ANSWER_IS_NO,
    DEFAULT_OWNER,
    IN_PART,
    Answer,
    add_flavor_file,
    add_owner,
    positive,
)
from novasched.commands.console_client import ConsoleCommand
from novasched.commands.inspection import InspectionCommand, add_changes, add_seed
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.explain import Explanation
    from novasched.inspection.questions.servers import FoundServer
    from novasched.inspection.session.requests import DryRequest
    from novasched.inspection.session.session import Inspection

POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')
SAID = ('image', 'boot_from_volume', 'availability_zone', 'hint', 'group', 'policy')
"""Options that --like makes useless."""


class PlanCommand(InspectionCommand):
    """A dry run: nothing is claimed, written or notified."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--explain',
            action='store_true',
            help='also show how each was decided, as explain does',
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='show every server, and uuids in full',
        )
        add_seed(parser)
        parser.add_argument(
            '--expect',
            metavar='PLAN_ID',
            help='exit with 4 if the answer depends on something that has changed '
            'since the plan of this id',
        )
        add_changes(parser)
        return parser

    def made(
        self, inspection: Inspection, parsed_args: argparse.Namespace
    ) -> dict[str, Any]:
        """Return the plan."""
        raise AssertionError('overridden by every plan')

    def report(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        what_if = self.what_if(parsed_args)
        with self.inspection(parsed_args.seed, what_if) as inspection:
            # A copy of some seconds ago may not show what has changed since.
            inspection.copies.fresh = parsed_args.expect is not None
            report = self.made(inspection, parsed_args)
            self.end_progress()
            if parsed_args.explain:
                report['explanations'] = explanations(inspection)
            unavailable = inspection.cells_left_out()
        before = report['cells_left_out']
        new = [cell for cell in unavailable if cell not in before]
        report['cells_left_out'] = [*before, *new]
        self.judge(report, parsed_args, new)
        return report

    def judge(
        self,
        report: Mapping[str, Any],
        parsed_args: argparse.Namespace,
        new: Sequence[str] = (),
    ) -> None:
        """Set the exit code of a plan, and warn of what is not in it; ``new`` are
        cells that became unavailable meanwhile."""
        for cell in report['cells_left_out']:
            missing = 'does not answer; its hosts'
            if cell in new:
                missing = 'stopped answering; its servers'
            self.warn(f'{cell} {missing} are not in the plan')
        self.code = IN_PART if new else self.code_of(report, parsed_args)
        expected = parsed_args.expect
        if expected is not None and expected != report['plan_id']:
            self.warn(f'this is plan {report["plan_id"]}: something has changed')
            self.code = IN_PART

    def code_of(
        self, report: Mapping[str, Any], parsed_args: argparse.Namespace
    ) -> int:
        """Return the exit code of a plan."""
        if report['cells_left_out'] and self.may_miss(report, parsed_args):
            return IN_PART
        return self.code if report['fits'] == report['asked'] else ANSWER_IS_NO

    def may_miss(
        self, report: Mapping[str, Any], parsed_args: argparse.Namespace
    ) -> bool:
        """Whether an unavailable cell could change the answer."""
        return bool(report['fits'] != report['asked'])


def explanations(inspection: Inspection) -> list[Explanation]:
    """Return the explanation of each request of a dry run."""
    from novasched.inspection.questions.explain import explanation

    return [explanation(record) for record in inspection.run.log.records]


def add_request(
    parser: argparse.ArgumentParser,
) -> argparse._MutuallyExclusiveGroup:
    """Add the options that say what is asked for; return the group of which one is
    needed."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        '--flavor',
        metavar='FLAVOR',
        help='one of the API database or of --flavor-file, or one in full, such as '
        'vcpus=2,ram=2048,disk=20,hw:cpu_policy=dedicated',
    )
    what.add_argument(
        '--like',
        metavar='DECISION|SERVER',
        help='as the decision of this id was asked for, or this server',
    )
    add_flavor_file(parser)
    parser.add_argument(
        '--count', type=positive, default=1, metavar='N', help='how many (default: 1)'
    )
    parser.add_argument(
        '--image',
        metavar='IMAGE',
        help='an image of --image-file, or properties, such as hw_cpu_policy=dedicated '
        '(default: one without properties)',
    )
    parser.add_argument(
        '--image-file', metavar='FILE', help='images, as TOML tables [[images]]'
    )
    parser.add_argument(
        '--boot-from-volume', action='store_true', help='the root disk is a volume'
    )
    parser.add_argument(
        '--availability-zone',
        metavar='ZONE[:HOST[:NODE]]',
        help='where they go; a host is forced, whatever its filters say',
    )
    parser.add_argument(
        '--hint',
        action='append',
        default=[],
        metavar='KEY=VALUE',
        help='a scheduler hint; may be repeated, also with one key',
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        '--group', metavar='NAME', help='the server group they join, by name or uuid'
    )
    group.add_argument(
        '--policy', choices=POLICIES, help='as a new server group of this policy'
    )
    add_owner(parser)
    return what


def wanted(
    inspection: Inspection, parsed_args: argparse.Namespace, host: str | None = None
) -> DryRequest:
    """Return the request that the options say. Raises errors.OptionError,
    errors.InvalidDemand and errors.StoreFailed."""
    from novasched.inspection.questions import places
    from novasched.inspection.session import catalogue
    from novasched.inspection.session.requests import BootOrder

    if parsed_args.like is not None:
        asked = _like(inspection, parsed_args)
        places.check(inspection.run, None, host)
        return asked if host is None else asked.only_on(host)
    flavor = inspection.flavor(parsed_args.flavor, parsed_args.flavor_file)
    image = catalogue.image_for(flavor, parsed_args.image, parsed_args.image_file)
    places.check(inspection.run, parsed_args.availability_zone, host)
    order = BootOrder(
        flavor=flavor,
        image=image,
        boots_from_volume=parsed_args.boot_from_volume,
        count=parsed_args.count,
        zone=parsed_args.availability_zone,
        host=host,
        hints=catalogue.pairs(parsed_args.hint, '--hint'),
        group=parsed_args.group,
        policy=parsed_args.policy,
        project_id=parsed_args.project_id,
        user_id=parsed_args.user_id,
    )
    return inspection.maker.boot(order)


def _like(inspection: Inspection, parsed_args: argparse.Namespace) -> DryRequest:
    """Return a request like another one. Raises errors.OptionError where an option
    says what that one says already, and errors.DecisionNotFound."""
    said = [f'--{name.replace("_", "-")}' for name in SAID if vars(parsed_args)[name]]
    if said:
        problem = f'the request is known, and {said[0]} is part of it'
        raise errors.OptionError('--like', problem, f'Leave one out: {", ".join(said)}')
    named, count = parsed_args.like, parsed_args.count
    if not named.startswith('d-'):
        server = inspection.finder.one(named)
        return inspection.maker.like_server(server, count)
    from novasched.commands import sources

    with contextlib.closing(sources.sources(inspection.conf)) as decisions:
        record = decisions.read(named)
        unanswered = decisions.unanswered
    if record is None:
        raise errors.DecisionNotFound(named, unanswered)
    if record.body.request is None:
        problem = f'{named}: only its head is kept'
        raise errors.OptionError('--like', problem, 'Give --flavor')
    project = record.head.project_id or None
    return inspection.maker.like(record.body.request, project, count)


class PlanBoot(ConsoleCommand, PlanCommand):
    """Say where new servers would go, or what would have to change.

    It is a dry run: nothing is claimed, written or notified. Exit codes: 0 all fit, 3
    they do not, or --like finds no decision. Exit code 4: not the expected plan, or a
    cell or part of placement that may have hosts does not answer.
    """

    ONLY_HERE = MappingProxyType(
        {
            name: f'--{name.replace("_", "-")}'
            for name in (
                *('explain', 'seed', 'flavor_file', 'image_file', 'boot_from_volume'),
                *('group', 'policy', 'host'),
            )
        }
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_request(parser)
        parser.add_argument(
            '--host', help='the host where they go, if its filters agree'
        )
        return parser

    def made(
        self, inspection: Inspection, parsed_args: argparse.Namespace
    ) -> dict[str, Any]:
        from novasched.inspection.questions import plan

        asked = wanted(inspection, parsed_args, parsed_args.host)
        return plan.boot(inspection.run, asked, inspection.placement.conditions)

    def report(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        if not parsed_args.console:
            return super().report(parsed_args)
        given = [
            ('flavor', parsed_args.flavor or ''),
            ('like', parsed_args.like or ''),
            ('count', str(parsed_args.count)),
            ('image', parsed_args.image or ''),
            ('zone', parsed_args.availability_zone or ''),
            *(('hints', each) for each in parsed_args.hint),
            *(('what_if', each) for each in parsed_args.changes),
        ]
        answer = self.of_console(parsed_args, '/plan', given) or {}
        answer.pop('explanations', None)  # the page shows them; --explain is refused
        if parsed_args.project_id != DEFAULT_OWNER and not parsed_args.like:
            self.warn(
                f'the console plans for {DEFAULT_OWNER}, not {parsed_args.project_id}'
            )
        self.judge(answer, parsed_args)
        return answer

    def text(
        self, answer: Answer, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.inspection.texts import plan as plan_text

        return plan_text.boot_as_text(answer, style)


def add_move(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--evacuate',
        action='store_true',
        help='the hosts that they leave are down',
    )


class PlanMove(PlanCommand):
    """Say where migrated, resized or evacuated servers would go.

    It is a dry run: nothing is claimed, written or notified. Each server sees the
    servers before it. Exit codes: 0 all can move, 3 some cannot. Exit code 4: not the
    expected plan, or a cell or part of placement that may matter does not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'servers', nargs='+', metavar='SERVER', help='names or uuids of servers'
        )
        parser.add_argument('--to', metavar='HOST', help='the host where they go')
        parser.add_argument(
            '--flavor', metavar='FLAVOR', help='resize them; see plan boot'
        )
        add_flavor_file(parser)
        add_move(parser)
        return parser

    def made(
        self, inspection: Inspection, parsed_args: argparse.Namespace
    ) -> dict[str, Any]:
        from novasched.inspection.questions import places, plan

        flavor = parsed_args.flavor and inspection.flavor(
            parsed_args.flavor, parsed_args.flavor_file
        )
        places.check(inspection.run, None, parsed_args.to, '--to')
        found = [inspection.finder.one(name) for name in parsed_args.servers]
        leaves: Sequence[str] = ()
        if parsed_args.evacuate:
            leaves = sorted({each.row.host for each in found if each.row.host})

        def make(server: FoundServer) -> DryRequest:
            return inspection.maker.move(server, leaves, flavor, parsed_args.to)

        conditions = inspection.placement.conditions
        return plan.move(inspection.run, found, make, conditions)

    def may_miss(
        self, report: Mapping[str, Any], parsed_args: argparse.Namespace
    ) -> bool:
        """A server stays in its cell, but one that is named could have a namesake in
        an unavailable cell."""
        from oslo_utils import uuidutils

        return not all(map(uuidutils.is_uuid_like, parsed_args.servers))

    def text(
        self, answer: Answer, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.inspection.texts import plan as plan_text

        return plan_text.move_as_text(answer, style)


class PlanDrain(PlanCommand):
    """Say where all servers of some hosts would go, the largest first.

    It is a dry run: nothing is claimed, written or notified. No server goes to these
    hosts. Exit codes: 0 all have a place, 3 some have none. Exit code 4: not the
    expected plan, or a cell or part of placement that may matter does not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        scope = parser.add_mutually_exclusive_group(required=True)
        scope.add_argument(
            'hosts', nargs='*', default=[], metavar='HOST', help='names of hosts'
        )
        scope.add_argument(
            '--aggregate', metavar='NAME', help='all hosts of this aggregate'
        )
        scope.add_argument('--zone', help='all hosts of this availability zone')
        scope.add_argument('--cell', metavar='NAME', help='all hosts of this cell')
        parser.add_argument(
            '--one-of',
            action='store_true',
            help='each of the hosts alone, as when any one of them fails',
        )
        add_move(parser)
        return parser

    def made(
        self, inspection: Inspection, parsed_args: argparse.Namespace
    ) -> dict[str, Any]:
        from novasched.inspection.questions import places, plan

        run, maker = inspection.run, inspection.maker
        hosts = places.within(
            run,
            parsed_args.hosts,
            aggregate=parsed_args.aggregate,
            zone=parsed_args.zone,
            cell=parsed_args.cell,
        )
        servers = inspection.finder.on(hosts)
        self.hosts, conditions = hosts, inspection.placement.conditions
        if parsed_args.one_of and hosts:
            return plan.drain_one_of(
                run, maker, servers, hosts, conditions, self.progress
            )
        return plan.drain(run, maker, servers, hosts, conditions, self.progress)

    def may_miss(
        self, report: Mapping[str, Any], parsed_args: argparse.Namespace
    ) -> bool:
        """An unavailable cell may have hosts of a zone or an aggregate."""
        return not (parsed_args.hosts or parsed_args.cell)

    def text(
        self, answer: Answer, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.inspection.texts import plan as plan_text

        return plan_text.drain_as_text(answer, style, self.hosts)
