# SPDX-License-Identifier: Apache-2.0
"""Which test files a module has, by its name and by imports."""

import ast
import re

TIERS = ('unit', 'properties', 'golden', 'functional', 'live', 'faults')
ROW = re.compile(r'^\| `(novasched/[\w/]+\.py)` \| (.+) \|$', re.MULTILINE)

HEAD = '| module | tested by |\n|---|---|\n'


def unmirrored(root):
    """Return the modules of novasched without tests/unit/<room>/test_<module>*.py."""
    modules = (
        path.relative_to(root / 'novasched')
        for path in sorted((root / 'novasched').rglob('*.py'))
        if path.name != '__init__.py'
    )
    return [
        f'novasched/{path}'
        for path in modules
        if not any((root / 'tests/unit' / path.parent).glob(f'test_{path.stem}*.py'))
    ]


def table_rows(root):
    """Return the rows of the table in docs/testing.md: tests by module."""
    rows = ROW.findall((root / 'docs/testing.md').read_text())
    return {module: re.findall('`(.+?)`', tests) for module, tests in rows}


class Imports:
    """Imports between the files of a checkout, each way."""

    def __init__(self, root):
        self._known = {
            str(path.relative_to(root)): path
            for top in ('novasched', 'lab/novasched_lab', 'tests', 'lab/tests')
            for path in sorted((root / top).rglob('*.py'))
        }
        self._importers = {name: set() for name in self._known}
        self._imports = {
            name: set(self._imported(name, path)) for name, path in self._known.items()
        }
        for name, imports in self._imports.items():
            for imported in imports:
                self._importers[imported].add(name)

    def _imported(self, name, path):
        """Yield the files that a file needs; a test also needs each conftest above."""
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from self._files(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                inner = [f'{node.module}.{alias.name}' for alias in node.names]
                yield from self._files(inner) or self._files([node.module])
        parts = name.split('/')[:-1]
        above = (
            '/'.join([*parts[:end], 'conftest.py']) for end in range(len(parts) + 1)
        )
        if 'tests' in parts and not name.endswith('/conftest.py'):
            yield from (conftest for conftest in above if conftest in self._known)

    def _files(self, modules):
        return [
            file
            for module in modules
            for top in ('', 'lab/')
            for end in ('.py', '/__init__.py')
            if (file := f'{top}{module.replace(".", "/")}{end}') in self._known
        ]

    def nearest(self, name):
        """Return the test files with the fewest imports up to a file.

        What tests share counts as the tests themselves. The cheapest tier is first, and
        in each tier the tests that import least.
        """
        reached, level = {name}, {name}
        while level:
            level = self._next(level) - reached
            reached |= level
            tests = [each for each in level if '/test_' in each]
            if tests:
                return sorted(tests, key=self._cost)
        return []

    def _next(self, names):
        """Return the importers of files, and the importers of shared files of tests."""
        found, shared = set(), set(names)
        while shared:
            importers = set().union(*(self._importers[each] for each in shared))
            shared = {
                each
                for each in importers - found
                if 'tests' in each.split('/')
                and not each.rpartition('/')[2].startswith(('test_', 'conftest'))
            }
            found |= importers
        return found

    def _cost(self, name):
        tier = name.split('/')[1]
        order = TIERS.index(tier) if tier in TIERS else len(TIERS)
        return order, len(self._imports[name]), name
