# SPDX-License-Identifier: Apache-2.0
"""Lists as nova-manage prints them, and with -f in other formats."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import prettytable
from cliff import lister
from cliff.formatters import base
from stevedore import ExtensionManager

from novasched.manage.program import Action


class CentredTable(base.ListFormatter):
    """The table of nova-manage: centred, as wide as it needs, never without head."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add no options: the table has one form."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        table = prettytable.PrettyTable(list(column_names))
        for row in data:
            table.add_row(list(row))
        stdout.write(f'{table}\n')


class Listing(Action, lister.Lister):
    """A command that lists."""

    def _load_formatter_plugins(self) -> ExtensionManager[base.ListFormatter]:
        found = super()._load_formatter_plugins()
        found['table'].obj = CentredTable()
        return found
