# SPDX-License-Identifier: Apache-2.0
"""Base of the programs that have several commands."""

from __future__ import annotations

import argparse

from cliff.app import App


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
        return [each for each in super().get_fuzzy_matches(cmd) if each != 'complete']
