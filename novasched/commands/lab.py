# SPDX-License-Identifier: Apache-2.0
"""``novasched lab``: histories, which a scheduler records, and what they tell."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, ReportCommand, positive
from novasched.inspection.texts.lines import BOLD, Style

if TYPE_CHECKING:
    from novasched.inspection.questions.history_check import HistoryReport


class HistoryCommand(ReportCommand):
    """A report on a history."""

    history_is = (
        'directory that [novasched] history_dir names, one of its files, or the '
        'document of one request'
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'history',
            metavar='HISTORY',
            type=pathlib.Path,
            help=self.history_is,
        )
        return parser

    @contextlib.contextmanager
    def reading(self, parsed_args: argparse.Namespace) -> Iterator[None]:
        """Name the history in what is raised while it is read."""
        try:
            yield
        except (OSError, LookupError, TypeError, AttributeError, ValueError) as problem:
            raise errors.OptionError(
                str(parsed_args.history),
                f'{type(problem).__name__}: {problem}',
                'Name a history, or read it with the release that wrote it',
            ) from problem
        finally:
            self.end_progress()


class CheckHistory(HistoryCommand):
    """Make every decision of a history again, and compare it host by host.

    A scheduler records a history in [novasched] history_dir. See
    docs/reference/history.md.

    Exit codes: 0 all decisions are the same, 1 error, 2 usage, 3 a decision is another
    one.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--jobs',
            type=positive,
            metavar='N',
            help='processes that decide (default: one for each CPU)',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> HistoryReport:
        from novasched.commands.shadow_replay import trusted_classes
        from novasched.inspection.questions import history_check

        def progress(read: float, requests: int) -> None:
            self.progress(f'{read:4.0%}  {requests:,} requests checked')

        with self.reading(parsed_args):
            answer = history_check.check(
                parsed_args.history, parsed_args.jobs, progress, trusted_classes(self)
            )
        if not answer.requests:
            raise errors.OptionError(
                str(parsed_args.history),
                '; '.join(answer.gaps) or 'it has no requests',
                'Name the directory of [novasched] history_dir',
            )
        if not answer.is_equal:
            self.code = ANSWER_IS_NO
        return answer

    def text(self, answer: HistoryReport, style: Style) -> str:
        verdict = 'all equal' if answer.is_equal else 'one is different'
        lines = [
            f'{_counted(answer.requests, "request")}, '
            f'{_counted(answer.decisions, "decision")}: '
            f'{style.paint(verdict, BOLD)}'
        ]
        if answer.refused:
            refused = _counted(answer.refused, 'request')
            lines.append(f'{refused} had nothing to decide.')
        for gap in answer.gaps:
            lines += style.wrapped('', gap)
        if answer.foreign:
            lines.append(f'May ask outside of the request: {", ".join(answer.foreign)}')
        if answer.difference is not None:
            from novasched.commands import shadow_replay

            difference = shadow_replay.report_text(answer.difference, style)
            lines += ['', f'The first is in {answer.file}:', difference]
        return '\n'.join(lines)


@dataclass(frozen=True)
class HistoryExport:
    """A file that was written."""

    file: str
    requests: int
    bytes: int


class ExportHistory(HistoryCommand):
    """Write a history into one file, or one of its requests as a document.

    The file, and the document, are read by novasched lab check on any machine. See
    docs/reference/history.md.

    Exit codes: 0 it is written, 1 error, 2 usage, 3 the history has no such request.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--to', metavar='FILE', type=pathlib.Path, required=True)
        parser.add_argument(
            '--request',
            metavar='ID',
            help='the first request with this id, this id of its decision (d-...), or '
            'this server, as a document',
        )
        parser.add_argument(
            '--anonymous',
            action='store_true',
            help='hash all names, with a random salt that is not kept',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> HistoryExport:
        from novasched.history import export

        history, to = parsed_args.history, parsed_args.to
        with self.reading(parsed_args):
            if history.resolve() in (to.resolve(), to.resolve().parent):
                raise ValueError(f'{to} would become a file of the history')
            if parsed_args.request:
                return self._export_request(parsed_args)
            requests = export.export(
                history,
                to,
                parsed_args.anonymous,
                lambda requests: self.progress(f'{requests:,} requests'),
            )
        return HistoryExport(str(to), requests, to.stat().st_size)

    def _export_request(self, parsed_args: argparse.Namespace) -> HistoryExport:
        from novasched.commands import shadow_replay
        from novasched.history import export

        to = parsed_args.to
        kept = export.request(parsed_args.history, parsed_args.request)
        if kept is None:
            raise errors.DecisionNotFound(parsed_args.request)
        if parsed_args.anonymous:
            kept = shadow_replay.anonymous_if_equal(kept)
        shadow_replay.write(kept, to)
        return HistoryExport(str(to), 1, to.stat().st_size)

    def text(self, answer: HistoryExport, style: Style) -> str:
        requests = _counted(answer.requests, 'request')
        return f'{requests} in {answer.file}, {answer.bytes:,} bytes'


def _counted(number: int, noun: str) -> str:
    return f'{number:,} {noun}{"s" if number != 1 else ""}'
