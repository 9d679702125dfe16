# SPDX-License-Identifier: Apache-2.0
"""Base of the programs that have several commands."""

from __future__ import annotations

import argparse
import difflib

from cliff.app import App

ALIKE = 0.5


class CommandLine(App):
    """A program of cliff whose commands read configurations."""

    def add_configurations(self, parser: argparse.ArgumentParser, text: str) -> None:
        """Add --config-file and --config-dir; ``text`` is their help, about a {}."""
        for kind in ('file', 'dir'):
            parser.add_argument(
                f'--config-{kind}',
                metavar='PATH',
                action='append',
                default=[],
                help=text.format(kind),
            )

    def get_fuzzy_matches(self, cmd: str) -> list[str]:
        """Return commands that may have been meant; that of the shell is none."""
        return [
            each
            for each in super().get_fuzzy_matches(cmd)
            if each != 'complete' and _is_like(cmd, each)
        ]


def _is_like(typed: str, command: str) -> bool:
    """Say whether a command begins as what was typed, or has most letters of it."""
    alike = difflib.SequenceMatcher(None, typed, command).ratio()
    return command.startswith(typed) or alike >= ALIKE
