# SPDX-License-Identifier: Apache-2.0
"""Base of the programs that have several commands."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, cast

from cliff.app import App
from cliff.lister import Lister

from novasched import printable

ALIKE = 0.5
LOSSLESS = ('json', 'yaml')


class CommandLine(App):
    """A program of cliff whose commands read configurations.

    Its output, its errors and its log show control characters.
    """

    def __init__(
        self,
        *,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        **given: Any,
    ) -> None:
        printable.in_logs()
        super().__init__(
            stdout=cast(TextIO, printable.Stream(stdout or sys.stdout)),
            stderr=cast(TextIO, printable.Stream(stderr or sys.stderr)),
            **given,
        )

    @staticmethod
    def add_configurations(parser: argparse.ArgumentParser, text: str) -> None:
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
        """Return commands that may have been meant; the shell's is none of them."""
        return [
            each
            for each in super().get_fuzzy_matches(cmd)
            if each != 'complete' and _is_like(cmd, each)
        ]


class PrintableLister(Lister):
    """A command that lists rows; for people, each cell is one line."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Print the rows; JSON and YAML escape in their own way, and lose nothing."""
        if parsed_args.formatter not in LOSSLESS:
            data = printable.values(list(data))
        return super().produce_output(parsed_args, column_names, data)


def _is_like(typed: str, command: str) -> bool:
    """Return whether a command begins as what was typed, or has most letters of it."""
    alike = difflib.SequenceMatcher(None, typed, command).ratio()
    return command.startswith(typed) or alike >= ALIKE
