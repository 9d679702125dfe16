# SPDX-License-Identifier: Apache-2.0
"""Texts reach terminals through one place, which shows control characters."""

import importlib
import re

from novasched.commands.base import ReportCommand
from novasched.process.command_line import PrintableLister

LISTER = re.compile(r'cliff(\.lister)? import .*[lL]ister\b')
APP = re.compile(r'cliff(\.app)? import .*\b[aA]pp\b')
PRINTED = re.compile(r'\bprint\(|\bsys\.std(?:out|err)\.write\(')
CURSOR = re.compile(r'\bprintable\.unescaped\(')
MAY = {
    LISTER: {'novasched/process/command_line.py'},
    APP: {'novasched/process/command_line.py'},
    PRINTED: set(),
    CURSOR: {'novasched/commands/base.py', 'novasched/commands/top.py'},
}
"""The files that may do what a pattern finds: make a base of commands or programs,
print past it, move the cursor of a terminal."""


def test_nothing_prints_past_the_base_of_programs(package_files):
    for pattern, may in MAY.items():
        found = {str(p) for p, text in package_files.items() if pattern.search(text)}
        assert found == may, pattern.pattern


def test_every_command_is_a_table_or_a_report_that_shows_controls(entry_points):
    own = set()
    for target in entry_points['novasched.cli'].values():
        module, _, name = target.partition(':')
        if module.startswith('novasched.'):
            own.add(getattr(importlib.import_module(module), name))
    assert own
    for kind in own:
        assert issubclass(kind, ReportCommand | PrintableLister), kind
    lister = {kind for kind in own if issubclass(kind, PrintableLister)}
    assert not any('produce_output' in vars(kind) for kind in lister)
