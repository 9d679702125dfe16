# SPDX-License-Identifier: Apache-2.0
"""``novasched top``: what all schedulers decide, as it happens."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from novasched import printable
from novasched.commands.base import ReportCommand, add_local
from novasched.inspection.texts.lines import Style

if TYPE_CHECKING:
    from novasched.inspection.questions.all_decisions import AllDecisions
    from novasched.inspection.questions.reports import Overview

WINDOW_S = 60
EVERY_S = 2.0
HEAD_LINES = 8
"""Lines of a screen that the sums may take."""
QUIT, PAUSE = 'q', 'p'
ENTER, LEAVE = '\033[?1049h\033[?25l\033[?7l', '\033[?7h\033[?25h\033[?1049l'
"""Another screen, without a cursor and without wrapped lines; and the one before."""
HOME, REST_OF_LINE, REST_OF_SCREEN = '\033[H', '\033[K', '\033[J'
"""The place of the first letter; and what is erased."""

Key = Callable[[float | None], str]
"""Waits for a key so many seconds, or for ever if None; returns it, or ''."""


class WatchSchedulers(ReportCommand):
    """Show requests, results, times and blockers of all schedulers.

    A terminal shows the last minute, drawn every two seconds; p pauses, q ends it. A
    pipe, --once or another format prints it once. in flight is the mean of the minute;
    cells are as last seen.

    Exit codes: 0 answered, 1 error, 2 usage, 4 a scheduler did not answer.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--once', action='store_true', help='print it once and end')
        add_local(parser)
        return parser

    def report(self, parsed_args: argparse.Namespace) -> Overview:
        with contextlib.closing(self.sources(parsed_args.local)) as decisions:
            found = decisions.overview(WINDOW_S)
        self.say_what_is_missing(decisions)
        return found

    def text(self, answer: Overview, style: Style) -> str:
        from novasched.inspection.texts import top

        return top.frame(answer, style)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        is_watched = self.app.stdout.isatty() and sys.stdin.isatty()
        if parsed_args.once or parsed_args.formatter != 'text' or not is_watched:
            return super().take_action(parsed_args)
        with (
            contextlib.closing(self.sources(parsed_args.local)) as decisions,
            _keys(sys.stdin.fileno()) as key,
        ):
            self._watch(decisions, key)
        return self.code

    def _watch(self, decisions: AllDecisions, key: Key) -> None:
        """Draw until q is pressed."""
        from novasched.inspection.texts import top

        has_colour = 'NO_COLOR' not in os.environ
        text, pressed, is_paused = '', '', False
        with _screen(printable.unescaped(self.app.stdout)) as draw:
            while pressed != QUIT:
                if not is_paused:
                    found = printable.values(decisions.overview(WINDOW_S))
                    width, height = shutil.get_terminal_size()
                    rows = max(1, height - HEAD_LINES)
                    text = top.frame(found, Style(width, has_colour), rows)
                draw(f'{text}  paused\n' if is_paused else text)
                pressed = key(None if is_paused else EVERY_S)
                is_paused ^= pressed == PAUSE


@contextlib.contextmanager
def _screen(terminal: TextIO) -> Iterator[Callable[[str], None]]:
    """Let texts be drawn over each other, on a screen that leaves no trace."""

    def draw(text: str) -> None:
        lines = text.splitlines()[: shutil.get_terminal_size().lines]
        terminal.write(HOME + f'{REST_OF_LINE}\n'.join(lines) + REST_OF_SCREEN)
        terminal.flush()

    terminal.write(ENTER)
    try:
        yield draw
    finally:
        terminal.write(LEAVE)
        terminal.flush()


@contextlib.contextmanager
def _keys(terminal: int) -> Iterator[Key]:
    """Let keys be read as they are pressed, without showing them."""
    import termios
    import tty

    def key(within_s: float | None) -> str:
        ready, _, _ = select.select([terminal], [], [], within_s)
        return os.read(terminal, 1).decode('ascii', 'replace') if ready else ''

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
