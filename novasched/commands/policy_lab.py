# SPDX-License-Identifier: Apache-2.0
"""``novasched lab``: what other policies would have done with the same requests."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from novasched import errors
from novasched.commands.base import ReportCommand, positive
from novasched.commands.lab import HistoryCommand
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.policy_lab.advice import Advice
    from novasched.policy_lab.results import FleetGroup, RunResult
    from novasched.policy_lab.runs import Progress, RunOrder
    from novasched.policy_lab.trace import Trace

Answer = TypeVar('Answer')
UNITS_S = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400}
_SPAN = re.compile(r'(\d+)([smhd])')


def span(text: str) -> float:
    """Return the seconds of a span such as 30m, 6h or 2d. Raises
    argparse.ArgumentTypeError."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f'{text} is no time such as 30m, 6h or 2d')
    return float(found[1]) * UNITS_S[found[2]]


class LabCommand(HistoryCommand):
    """Base of the commands that try policies on a history."""

    history_is = 'directory that [novasched] history_dir or novasched lab import wrote'


class PolicyCommand(LabCommand):
    """Base of the commands that run policies over a history."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--parts',
            metavar='N',
            type=positive,
            help='run so many parts of the history (default: all)',
        )
        parser.add_argument(
            '--hosts',
            metavar='HOSTS',
            help='other hosts than the history has, count x vCPUs : GB, such as '
            '24x40:96,24x64:256',
        )
        parser.add_argument(
            '--jobs',
            metavar='N',
            type=positive,
            help='run so many processes at once (default: one for each core)',
        )
        parser.add_argument(
            '--to',
            metavar='RUN',
            type=Path,
            help='directory that keeps the results: a run that is broken off goes on '
            '(default: none is kept)',
        )
        return parser

    def add_policies(self, parser: argparse.ArgumentParser) -> None:
        """Add the option that names policies."""
        parser.add_argument(
            '--policy',
            action='append',
            required=True,
            dest='policies',
            metavar='NAME=POLICY',
            help='a policy, such as now=/etc/nova/nova.conf, default= or '
            'pack=cpu:-1,ram:-1; may be repeated: others are compared with the first',
        )

    def add_fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the option that says how often hosts are filled."""
        parser.add_argument(
            '--fill',
            metavar='TIME',
            type=span,
            default=span('6h'),
            help='fill the hosts so often, to find the first refusal and what is '
            'stranded (default: 6h)',
        )

    def run_policies(
        self,
        parsed_args: argparse.Namespace,
        run: Callable[[RunOrder], Answer],
        **more: Any,
    ) -> Answer:
        """Return the answer of a function to the order that was given; ``more`` are
        fields of it. Raises errors.OptionError."""
        from novasched.commands.shadow_replay import trusted_classes
        from novasched.policy_lab import runs, sources
        from novasched.policy_lab.trace import parse_hosts

        hosts: Sequence[FleetGroup] = ()
        if parsed_args.hosts:
            part = sources.parts_of(parsed_args.history)[0]
            load = runs.offered_peak(parsed_args.history, part)
            hosts = parse_hosts(parsed_args.hosts, load)
        with tempfile.TemporaryDirectory(prefix='novasched-lab-') as made:
            order = runs.RunOrder(
                history=parsed_args.history,
                directory=parsed_args.to or Path(made),
                parts=parsed_args.parts,
                hosts=hosts,
                processes=parsed_args.jobs,
                trusted=trusted_classes(self),
                report=self._report,
                **more,
            )
            answer = run(order)
        self.end_progress()
        return answer

    def compare(self, parsed_args: argparse.Namespace, **more: Any) -> RunResult:
        """Return a run of the policies that were named; see run_policies()."""
        from novasched.policy_lab import policy, runs

        policies = list(map(policy.parse, parsed_args.policies))
        return self.run_policies(
            parsed_args, lambda order: runs.run(order, policies), **more
        )

    def _report(self, step: Progress) -> None:
        done = 'known' if step.was_there else f'{step.took_s:.0f} s'
        text = f'{step.what} {step.policy}, part {step.part} ({done})'
        self.progress(f'{step.done} of {step.of} steps; the last: {text}')


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
            help='such as 24x40:96,24x64:256; 48:144@95%% for as many as make the peak '
            '95 %% of the scarcer resource; 48:144:2 of two NUMA nodes (default: '
            '%(default)s)',
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

    def text(self, answer: Trace, style: Style) -> str:
        from novasched.policy_lab import texts

        return (
            f'{answer.title} is in {self.parsed_args.to}: {len(answer.parts)} parts, '
            f'hosts {texts.fleet(answer.hosts)}'
        )


class RunPolicies(PolicyCommand):
    """Run policies over a history, and compare what becomes of its servers.

    The scheduler itself decides each request again, on the hosts as they would be under
    that policy.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_policies(parser)
        self.add_fill(parser)
        parser.add_argument(
            '--need', action='store_true', help='find the hosts that are needed, too'
        )
        add_shown(parser)
        return parser

    def report(self, parsed_args: argparse.Namespace) -> RunResult:
        return self.compare(
            parsed_args, fill_s=parsed_args.fill, needs=parsed_args.need
        )

    def text(self, answer: RunResult, style: Style) -> str:
        text, to = shown(answer, style, self.parsed_args), self.parsed_args.to
        return f'{text}\n\nMore: novasched lab show {to}' if to else text


class FindNeededHosts(PolicyCommand):
    """Find the fewest hosts that hold a history under each policy.

    They refuse at most one server in 10,000.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_policies(parser)
        return parser

    def report(self, parsed_args: argparse.Namespace) -> RunResult:
        return self.compare(parsed_args, measures=False, needs=True)

    def text(self, answer: RunResult, style: Style) -> str:
        from novasched.policy_lab import texts

        return texts.needed_hosts(answer, style)


class ListFlavors(LabCommand):
    """Print the flavors of a history as the option keep_room_flavors has them."""

    def report(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        from novasched.policy_lab import sources
        from novasched.policy_lab.advice import flavors_line

        part = sources.parts_of(parsed_args.history)[0]
        found = sources.flavor_shares(sources.workload(parsed_args.history, part))
        return {'flavors': found, 'line': flavors_line(found)}

    def text(self, answer: dict[str, Any], style: Style) -> str:
        return f'[filter_scheduler]\n{answer["line"]}'


class AdvisePolicies(PolicyCommand):
    """Run the policies that are known to matter, and print what each would have
    changed, with the lines of nova.conf that make it.

    They are compared with the configuration that the cloud has now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self.add_fill(parser)
        parser.add_argument(
            '--now',
            metavar='POLICY',
            default='',
            help='the policy now: a configuration file of nova, or words as for '
            '--policy (default: as recorded; of a trace, what nova defaults to)',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> Advice:
        from novasched.policy_lab.advice import advise

        return self.run_policies(
            parsed_args,
            lambda order: advise(order, parsed_args.now),
            fill_s=parsed_args.fill,
        )

    def text(self, answer: Advice, style: Style) -> str:
        from novasched.policy_lab.advice import as_text

        return as_text(answer, style)


def add_shown(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what of a run is shown."""
    parser.add_argument(
        '--room',
        action='append',
        default=[],
        metavar='FLAVOR',
        help='show the room for a flavor; may be repeated',
    )
    parser.add_argument('--long', action='store_true', help='show all figures, too')


def shown(run: RunResult, style: Style, parsed_args: argparse.Namespace) -> str:
    """Return the table of a run, with all figures if they are asked for."""
    from novasched.policy_lab import texts

    text = texts.as_text(run, style, parsed_args.room)
    more = f'\n\n{texts.all_figures(run, style)}' if parsed_args.long else ''
    return text + more


class ShowRun(ReportCommand):
    """Show a run of policies once more: its table, figures over time, or what was
    refused.

    Series are bars on a terminal; --csv and --svg write them to a file.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('run', metavar='RUN', type=Path, help='directory of a run')
        add_shown(parser)
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
            help='show figures over time, such as --room and --figure name; else all',
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
        return parser

    def report(self, parsed_args: argparse.Namespace) -> RunResult:
        from novasched.policy_lab import charts, runs, texts

        run = runs.read(parsed_args.run)
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
                else charts.svg(charts.chart(texts.named(names[0]), found))
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

    def text(self, answer: RunResult, style: Style) -> str:
        from novasched.policy_lab import texts
        from novasched.policy_lab.results import SERIES

        if self.parsed_args.refused:
            return texts.refused(answer, style)
        names = self._series(answer, self.parsed_args)
        if self.parsed_args.over or self.parsed_args.figure:
            return texts.over_time(answer, names or list(SERIES), style)
        return shown(answer, style, self.parsed_args)
