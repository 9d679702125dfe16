# SPDX-License-Identifier: Apache-2.0
"""Every promise has a test among those that `tools/test` runs; see docs/testing.md."""

import ast
import importlib

import pytest

from tests.support.suite.promises import Promise, Suite, promises

FAST = ('tests/unit', 'tests/golden', 'tests/plugins', 'tests/architecture')
"""What costs so little that all of it is in the first tier."""


@pytest.fixture(scope='module')
def suite(root):
    return Suite(root)


def test_every_promise_has_a_test_in_the_first_tier(suite):
    without = [p[:2] for p in promises(suite) if not suite.first(p.tests)]
    assert without == []


def test_a_promise_with_exhaustive_tests_alone_is_found(tmp_path):
    (tmp_path / 'tests').mkdir()
    (tmp_path / 'tests/test_it.py').write_text(
        'import pytest\n'
        '@pytest.mark.exhaustive("long")\n'
        'def test_whole(): pass\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, '
        'marks=pytest.mark.exhaustive("long")), 2])\n'
        'def test_part(x): pass\n'
        'class TestIt:\n'
        '    @pytest.mark.exhaustive("long")\n'
        '    def test_method(self): pass\n'
    )
    (tmp_path / 'tests/test_file.py').write_text(
        'import pytest\npytestmark = pytest.mark.exhaustive("long")\n'
        'def test_of_file(): pass\n'
    )
    found = Suite(tmp_path)
    names = ('test_it.py::test_whole', 'test_it.py::test_part',
             'test_it.py::test_method', 'test_file.py::test_of_file')  # fmt: skip
    promise = Promise('x', 'y', frozenset(f'tests/{each}' for each in names))
    assert found.first(promise.tests) == {'tests/test_it.py::test_part'}
    assert found.first(found.that_say('TestIt')) == {'tests/test_it.py'}


def test_each_mark_has_a_reason(root):
    marks = [
        node
        for path in root.glob('tests/**/*.py')
        if 'mark.exhaustive' in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == 'pytest.mark.exhaustive'
    ]
    assert len(marks) >= 5
    assert [m for m in marks if not (m.args and str(m.args[0].value).strip())] == []


def test_fast_tests_are_in_the_first_tier(suite):
    assert [each for each in suite.exhaustive if each.startswith(FAST)] == []


def test_modules_that_only_the_matrix_runs_can_be_imported(root):
    names = [path.stem for path in root.glob('tests/matrix/test_*.py')]
    assert names
    for name in names:
        importlib.import_module(f'tests.matrix.{name}')
