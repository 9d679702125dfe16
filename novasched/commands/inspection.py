# SPDX-License-Identifier: Apache-2.0
"""The base of the commands on what could be decided now."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from novasched import errors, printable
from novasched.commands.base import ReportCommand
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Deadline

if TYPE_CHECKING:
    from novasched.inspection.session.session import Inspection
    from novasched.inspection.session.what_if import WhatIf

WITHIN_S = 3600.0
"""How long a command may work; then it is ended."""
QUIET_S = 2.0
"""Seconds that something may take before its progress is shown."""


class InspectionCommand(ReportCommand):
    """A report on what could be decided now; it reads databases and placement."""

    @contextlib.contextmanager
    def inspection(
        self, seed: int | None = None, what_if: WhatIf | None = None
    ) -> Iterator[Inspection]:
        """Read the cloud that the configuration names, or what it would be. Raises
        errors.SetupError and errors.StoreFailed; what takes longer than WITHIN_S
        raises deadline.TookTooLong."""
        from novasched.inspection.session import session

        conf = self.configuration(session.options())
        check = Deadline(WITHIN_S, SYSTEM_CLOCK.monotonic).check
        opening = session.opened(conf, seed=seed, what_if=what_if, check=check)
        with opening as inspection:
            yield inspection

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().take_action(parsed_args)
        except errors.StoreFailed as problem:
            said = f'{problem.problem}. {errors.CONNECTIONS}'
            raise type(problem)(problem.store, said) from problem

    @staticmethod
    def what_if(parsed_args: argparse.Namespace) -> WhatIf:
        """Return the changes that are asked for. Raises errors.OptionError."""
        from novasched.inspection.session.what_if import WhatIf

        return WhatIf.of(parsed_args.changes)

    def progress(self, text: str) -> None:
        """Show what is being done, on a terminal, once it takes long."""
        stderr = self.app.stderr
        self._since = getattr(self, '_since', SYSTEM_CLOCK.monotonic())
        if stderr.isatty() and SYSTEM_CLOCK.monotonic() - self._since > QUIET_S:
            shown = printable.line(text)
            printable.unescaped(stderr).write(f'\r{shown} ...\033[K')
            stderr.flush()
            self._is_shown = True

    def end_progress(self) -> None:
        """Take the line of the progress away."""
        if getattr(self, '_is_shown', False):
            printable.unescaped(self.app.stderr).write('\r\033[K')


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add the option that repeats what is random."""
    parser.add_argument(
        '--seed',
        type=int,
        metavar='N',
        help='random seed, to repeat an earlier plan',
    )


def add_changes(parser: argparse.ArgumentParser) -> None:
    """Add the option that changes what is read."""
    parser.add_argument(
        '--what-if',
        action='append',
        default=[],
        dest='changes',
        metavar='CHANGE',
        help='answer as if the cloud were another; may be repeated: disable, enable or '
        'remove HOST; add N like HOST; trait HOST +T or -T; aggregate A +HOST or '
        '-HOST; property A key=value; ratio CLASS=NUMBER [A|HOST]; option '
        'GROUP.NAME=VALUE. HOST may be a pattern such as rack1-*',
    )
