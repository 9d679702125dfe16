# SPDX-License-Identifier: Apache-2.0
"""``novasched lab``: what other policies would have done with the same requests."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import ReportCommand, positive
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.policy_lab.results import RunResult
    from novasched.policy_lab.trace import Trace

UNITS_S = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}
_SPAN = re.compile(r'(\d+)([smhd])')


def span(text: str) -> float:
    """Return the seconds of a span such as 30m, 6h or 2d. Raises
    argparse.ArgumentTypeError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f'{text} is no time such as 30m, 6h or 2d')
    return float(found[1]) * UNITS_S[found[2]]


class LabCommand(ReportCommand):
    """Base of the commands that read a history."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'history',
            metavar='HISTORY',
            type=Path,
            help='directory that [novasched] history_dir or novasched lab import wrote',
        )
        return parser


class PolicyCommand(LabCommand):
    """Base of the commands that run policies over a history."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--policy',
            action='append',
            default=[],
            dest='policies',
            metavar='NAME=POLICY',
            help='a policy, such as now=/etc/nova/nova.conf, default= or '
            'pack=cpu:-1,ram:-1; may be repeated. Others are compared with the first '
            'one. See docs/reference/policy-lab.md for the words',
        )
        parser.add_argument(
            '--parts',
            metavar='N',
            type=positive,
            help='run so many parts of the history (default: all of them)',
        )
        add_run_options(parser)
        return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run for long."""
    parser.add_argument(
        '--jobs',
        metavar='N',
        type=positive,
        default=len(os.sched_getaffinity(0)),
        help='run so many processes at once (default: one for each core)',
    )
    parser.add_argument(
        '--hosts',
        metavar='HOSTS',
        help='other hosts than those of the history, such as 24x40:96,24x64:256: '
        'count x vCPUs : GB',
    )


class ImportTrace(ReportCommand):
    """Make a history of a public trace: azure2017 is the arrivals of servers of
    Microsoft Azure in 2017.

    The trace begins without a server. With --warm-up there are servers when it begins,
    modelled from the trace itself. See docs/reference/policy-lab.md.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('kind', choices=['azure2017'], help='form of the file')
        parser.add_argument('file', metavar='FILE', type=Path)
        parser.add_argument(
            '--to', metavar='DIR', type=Path, required=True, help='write it there'
        )
        parser.add_argument(
            '--hosts',
            metavar='HOSTS',
            default='48:144@95%',
            help='such as 24x40:96,24x64:256, or 48:144@95%% for as many as make the '
            'peak 95 %% of the scarcer resource (default: %(default)s)',
        )
        parser.add_argument(
            '--part',
            metavar='N/M',
            default='1/8',
            help='one of so many disjoint parts of the tenants, or several: 1-6/8 '
            '(default: %(default)s)',
        )
        parser.add_argument(
            '--warm-up',
            metavar='TIME',
            type=span,
            default=span('2d'),
            help='model the servers that came so long before (default: 2d)',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> Trace:
        from novasched.policy_lab.azure2017 import import_azure2017

        return import_azure2017(
            parsed_args.file,
            parsed_args.to,
            parsed_args.hosts,
            parsed_args.part,
            parsed_args.warm_up,
        )

    def text(self, answer: Trace, style: Style, parsed_args: argparse.Namespace) -> str:
        from novasched.policy_lab import texts

        return (
            f'{answer.title} is in {parsed_args.to}: {len(answer.parts)} parts, '
            f'hosts {texts.fleet(answer.hosts)}'
        )


class RunPolicies(PolicyCommand):
    """Run policies over a history, and compare what becomes of the servers.

    Each request is decided again by the scheduler itself, on the hosts as they would
    be under that policy. A run that was broken off goes on.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--to', metavar='RUN', type=Path, required=True, help='directory of the run'
        )
        parser.add_argument(
            '--fill',
            metavar='TIME',
            type=span,
            default=span('6h'),
            help='fill the hosts so often, to see the first refusal and what is '
            'stranded (default: 6h)',
        )
        parser.add_argument(
            '--need', action='store_true', help='count the hosts that are needed, too'
        )
        parser.add_argument(
            '--room',
            action='append',
            default=[],
            metavar='FLAVOR',
            help='show the room for a flavor; may be repeated',
        )
        parser.add_argument('--long', action='store_true', help='all figures')
        return parser

    def report(self, parsed_args: argparse.Namespace) -> RunResult:
        from novasched.policy_lab import runs

        return runs.run(RUN_ARGS)

    def text(
        self, answer: RunResult, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.policy_lab import texts

        parts = [texts.as_text(answer, style, parsed_args.room)]
        if parsed_args.long:
            parts.append(texts.all_figures(answer, style))
        parts.append(f'More: novasched lab show {parsed_args.to}')
        return '\n\n'.join(parts)


class ShowRun(ReportCommand):
    """Show a run of policies once more: its table, figures over time, or what was
    refused.

    Series are bars on a terminal; --csv and --svg write them to a file.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('run', metavar='RUN', type=Path, help='directory of a run')
        parser.add_argument(
            '--room',
            action='append',
            default=[],
            metavar='FLAVOR',
            help='show the room for a flavor; may be repeated',
        )
        parser.add_argument(
            '--figure',
            action='append',
            default=[],
            metavar='NAME',
            help='show a figure over time, such as empty_percent; may be repeated',
        )
        parser.add_argument(
            '--over',
            choices=['time'],
            help='show figures over time: those of --room and --figure, else all',
        )
        parser.add_argument(
            '--refused', action='store_true', help='show what was refused, and by what'
        )
        for form in ('csv', 'svg'):
            parser.add_argument(
                f'--{form}',
                metavar='FILE',
                type=Path,
                help=f'write one figure over time as {form.upper()}',
            )
        parser.add_argument('--long', action='store_true', help='all figures')
        return parser

    def report(self, parsed_args: argparse.Namespace) -> RunResult:
        from novasched.policy_lab import charts, texts
        from novasched.policy_lab.run_list import read_run

        run = read_run(parsed_args.run)
        names = self._series(run, parsed_args)
        for form, path in (('csv', parsed_args.csv), ('svg', parsed_args.svg)):
            if path is None:
                continue
            if len(names) != 1:
                raise errors.OptionError(
                    f'--{form}', 'it takes one figure', 'Give one --room or --figure'
                )
            found = texts.series_of(run, names[0])
            made = (
                texts.as_csv(found)
                if form == 'csv'
                else charts.svg(texts.named(names[0]), found)
            )
            try:
                path.write_text(made)
            except OSError as problem:
                raise errors.OptionError(
                    f'--{form}', str(problem), 'Name a file that can be written'
                ) from problem
            self.say(f'{texts.named(names[0])}: {path}')
        return run

    def _series(self, run: RunResult, parsed_args: argparse.Namespace) -> list[str]:
        """Return the names of the series that are asked for. Raises
        errors.OptionError."""
        from novasched.policy_lab import texts
        from novasched.policy_lab.results import SERIES

        flavors = {each.flavor for part in run.parts for each in part.flavors}
        for option, given, known in (
            ('--room', parsed_args.room, flavors),
            ('--figure', parsed_args.figure, SERIES),
        ):
            if unknown := [each for each in given if each not in known]:
                raise errors.OptionError(
                    option,
                    f'{unknown[0]!r} is not known',
                    f'It is one of {", ".join(sorted(known))}',
                )
        return [*parsed_args.figure, *map(texts.of_room, parsed_args.room)]

    def text(
        self, answer: RunResult, style: Style, parsed_args: argparse.Namespace
    ) -> str:
        from novasched.policy_lab import texts
        from novasched.policy_lab.results import SERIES

        if parsed_args.refused:
            return texts.refused(answer, style)
        names = self._series(answer, parsed_args)
        if parsed_args.over or parsed_args.figure:
            return texts.over_time(answer, names or list(SERIES), style)
        parts = [texts.as_text(answer, style, parsed_args.room)]
        if parsed_args.long:
            parts.append(texts.all_figures(answer, style))
        return '\n\n'.join(parts)
