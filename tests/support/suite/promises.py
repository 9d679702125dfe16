# SPDX-License-Identifier: Apache-2.0
"""What novasched promises, and the tests of each promise by tier; docs/testing.md.

`tools/promises` prints the table. Faults and differences name their tests.
For commands, option groups, filters and weighers the files count that name them.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from novasched.cmd import manage, status
from novasched.process import opts
from tests.browser.addresses import PAGES
from tests.faults.scenarios import marked

ROOT = Path(__file__).parents[3]
MARK = 'pytest.mark.exhaustive('
NAMED = re.compile(r'`((?:lab/)?tests/[\w/]+\.py)::(?:\w+::)?(\w+)`')
OF_LIBRARIES = {f'oslo_messaging_{name}' for name in ('kafka', 'metrics', 'tracing')}
"""Groups of options that nothing of ours reads."""
ENTRY_POINTS = {
    'filter': 'novasched.scheduler.filters',
    'weigher': 'novasched.scheduler.weighers',
    'command': 'novasched.cli',
}


class Promise(NamedTuple):
    """A promise, and its tests, as paths or as paths and names."""

    kind: str
    name: str
    tests: frozenset[str]


class Suite:
    """The test functions of all files, and which are exhaustive as a whole."""

    def __init__(self, root: Path) -> None:
        self.texts: dict[str, str] = {}
        self.exhaustive: set[str] = set()
        for path in sorted([*root.glob('tests/**/test_*.py'),
                            *root.glob('lab/tests/**/test_*.py')]):  # fmt: skip
            name = path.relative_to(root).as_posix()
            self.texts[name] = text = path.read_text()
            if MARK in text:
                self.exhaustive.update(_exhaustive(name, ast.parse(text)))

    def that_say(self, *texts: str) -> frozenset[str]:
        """Return the files that say one of these texts."""
        return frozenset(
            name
            for name, text in self.texts.items()
            if any(each in text for each in texts)
        )

    def first(self, tests: frozenset[str]) -> set[str]:
        """Return those of the tests that `tools/test` runs."""
        return {each for each in tests
                if not {each, each.partition('::')[0]} & self.exhaustive}  # fmt: skip


def _exhaustive(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield a file, or its tests, of which no case is in the first tier."""
    for node in tree.body:
        said = ast.unparse(node) if isinstance(node, ast.Assign) else ''
        if said.startswith('pytestmark') and MARK in said:
            yield name
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        above = [ast.unparse(each) for each in getattr(node, 'decorator_list', ())]
        for function in inner:
            own = [ast.unparse(d) for d in getattr(function, 'decorator_list', ())]
            if any(each.startswith(MARK) for each in [*above, *own]):
                yield f'{name}::{function.name}'


def promises(suite: Suite, root: Path = ROOT) -> Iterator[Promise]:
    for name, found in marked(root).items():
        listed = frozenset(
            f'{each.path}::{each.test.split("::")[-1]}' for each in found
        )
        yield Promise('fault', name, listed)
    yield from _differences((root / 'docs/reference/differences.md').read_text())
    for kind, names in _entry_points(root).items():
        for name in names:
            yield Promise(kind, name, suite.that_say(*_said(name)))
    for name in [*manage.COMMANDS, *status.COMMANDS]:
        yield Promise('command', name, suite.that_say(*_said(name)))
    for name, _ in opts.list_opts():
        if name not in OF_LIBRARIES:
            found = suite.that_say(f'{name}=', f"'{name}'", f'[{name}]')
            yield Promise('option group', name, found)
    for name in PAGES:
        yield Promise('page', name, suite.that_say("parametrize('name', PAGES)"))


def _differences(text: str) -> Iterator[Promise]:
    for section in re.split(r'^### ', text, flags=re.M)[1:]:
        found = frozenset('::'.join(each) for each in NAMED.findall(section))
        yield Promise('difference', section.partition(':')[0], found)


def _said(name: str) -> tuple[str, ...]:
    """Return how a test says a name, or a command as one text or as several."""
    return name, "', '".join(name.split())


def _entry_points(root: Path) -> Mapping[str, list[str]]:
    read = configparser.ConfigParser()
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(root / 'setup.cfg')
    listed = read['options.entry_points']
    return {
        kind: re.findall(r'^([\w -]+?) =', listed[group], re.M)
        for kind, group in ENTRY_POINTS.items()
    }
