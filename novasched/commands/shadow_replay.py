# SPDX-License-Identifier: Apache-2.0
"""``novasched shadow replay``: make the decision of a kept request again."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
from typing import TYPE_CHECKING

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, ConfiguredCommand, ReportCommand
from novasched.inspection.texts.lines import BOLD, Style

if TYPE_CHECKING:
    from novasched.decisions.history import Document
    from novasched.inspection.questions.replay import ReplayReport


class ReplayDecision(ReportCommand):
    """Make the decision of a kept request again, and compare it host by host.

    A shadow keeps requests whole as [novasched] shadow_keep says. See
    docs/reference/shadow-replay.md.

    Exit codes: 0 the decision is the same, 1 error, 2 usage, 3 it is another one, or no
    such request is kept.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            'decision',
            metavar='ID',
            nargs='?',
            help='id of a decision of this machine (d-..., 6 characters are enough)',
        )
        what.add_argument(
            '--from', dest='file', metavar='FILE', help='a document, from any machine'
        )
        parser.add_argument(
            '--to', metavar='FILE', help='write the document, such as for a bug report'
        )
        parser.add_argument(
            '--anonymous',
            action='store_true',
            help='hash all names in the document, with a random salt that is not kept',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> ReplayReport:
        from novasched.inspection.questions import replay

        kept = self._document(parsed_args)
        try:
            foreign = replay.foreign_classes(kept['profile'])
            if parsed_args.file and foreign:
                replay.check_trusted(parsed_args.file, foreign, trusted_classes(self))
            if parsed_args.anonymous:
                kept = anonymous_if_equal(kept)
            answer = replay.replay(kept)
        except (LookupError, TypeError, AttributeError, ValueError) as problem:
            raise _unreadable(
                parsed_args, f'{type(problem).__name__}: {problem}'
            ) from (problem)
        if parsed_args.to:
            path = pathlib.Path(parsed_args.to)
            write(kept, path)
            self.say(f'The document is in {path}')
        if not answer.is_equal:
            self.code = ANSWER_IS_NO
        return answer

    def _document(self, parsed_args: argparse.Namespace) -> Document:
        """Return the document that the arguments name. Raises errors.OptionError."""
        from novasched.commands import sources
        from novasched.decisions import files, history
        from novasched.decisions.reading import DecisionFiles

        try:
            if parsed_args.file:
                return history.read(pathlib.Path(parsed_args.file).read_bytes())
            directory = files.existing(self.configuration(sources.OPTIONS))
            kept = DecisionFiles(directory, self.warn).whole(parsed_args.decision)
            if kept is None:
                raise errors.RequestNotKept(
                    parsed_args.decision,
                    'its request is not kept whole',
                    'Requests of a shadow are, as [novasched] shadow_keep says',
                )
            return history.decoded(kept)
        except (OSError, ValueError) as problem:
            raise _unreadable(parsed_args, str(problem)) from problem

    def text(self, answer: ReplayReport, style: Style) -> str:
        return report_text(answer, style)


def report_text(answer: ReplayReport, style: Style) -> str:
    """Return the comparison of a decision for people."""
    from novasched.inspection.texts import shadow

    verdict = 'the same, host by host' if answer.is_equal else 'another one'
    number = len(answer.servers)
    lines = [
        f'Decision {answer.id} of {answer.time[:19]}Z, request {answer.request_id}',
        f'Made again for {number} server{"s" if number > 1 else ""} from '
        f'{answer.hosts} hosts: {style.paint(verdict, BOLD)}',
    ]
    for server in answer.servers:
        lines += ['', f'server    {server.server or "not named"}']
        if server.again != server.recorded:
            lines += _choice('ours', server.recorded, '')
        label = 'ours' if server.again == server.recorded else 'again'
        lines += _choice(label, server.again, server.again_outcome)
        if (compared := server.compared) is not None:
            chosen = shadow.choice(compared.nova)
            lines += _choice('nova', chosen, server.nova_outcome)
            said = shadow.comparison(compared)
            lines += style.wrapped('compared  ', said) if said else []
    if (found := answer.difference) is not None:
        lines += [
            '',
            f'{found.hosts} hosts have another outcome. The first is {found.host}, '
            f'for server {found.server}:',
            *_choice('recorded', found.recorded, '; '.join(found.recorded_steps)),
            *_choice('again', found.again, '; '.join(found.again_steps)),
        ]
    return '\n'.join(lines)


def _choice(label: str, what: str | None, became: str) -> list[str]:
    """Return the lines on a host, or on an outcome, under a label."""
    lines = [f'{label:<10}{what or "no host"}']
    return [*lines, f'{"":<10}{became}'] if became else lines


def _unreadable(parsed_args: argparse.Namespace, problem: str) -> errors.OptionError:
    return errors.OptionError(
        parsed_args.file or parsed_args.decision,
        problem,
        'Replay it with the release that wrote it',
    )


def trusted_classes(command: ConfiguredCommand) -> set[str]:
    """Return the classes of others that a configuration of this machine names."""
    from novasched import plugins
    from novasched.compat import driver_loading
    from novasched.inspection.questions import replay

    with contextlib.suppress(errors.OptionError):  # none that can be read
        conf = command.configuration({**plugins.OPTS, **driver_loading.OPTS})
        return replay.named_classes(conf)
    return set()


def anonymous_if_equal(kept: Document) -> Document:
    """Return the document without names. Raises errors.OptionError if the decision
    depends on them."""
    from novasched.decisions.anonymous import anonymous
    from novasched.inspection.questions import replay

    hidden = anonymous(kept)
    if replay.replay(kept).is_equal and not replay.replay(hidden).is_equal:
        raise errors.OptionError(
            '--anonymous',
            'the decision depends on the names that would be hashed',
            'Leave it out',
        )
    return hidden


def write(kept: Document, path: pathlib.Path) -> None:
    """Write a document. Raises errors.OptionError."""
    try:
        path.write_text(json.dumps(kept, indent=1) + '\n')
    except OSError as problem:
        raise errors.OptionError(
            '--to', str(problem), 'Name a file that can be written'
        ) from problem
