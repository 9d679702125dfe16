# SPDX-License-Identifier: Apache-2.0
"""Each module has its tests: by name, or by a row of docs/testing.md."""

import sys

import pytest

from tests.live.servers.process import completed
from tests.support.suite.mirrors import table_rows, unmirrored


def run_tool(root, *arguments):
    return completed([sys.executable, root / 'tools/tests-of', *arguments], cwd=root)


def test_each_module_has_a_mirror_or_a_row(root):
    missing = sorted(set(unmirrored(root)) - table_rows(root).keys())
    assert missing == [], 'run tools/tests-of --table'


def test_rows_name_modules_without_mirror_and_tests_that_exist(root):
    rows = table_rows(root)
    assert sorted(rows.keys() - set(unmirrored(root))) == []
    assert [
        each for tests in rows.values() for each in tests if not (root / each).is_file()
    ] == []


@pytest.mark.parametrize(
    ('module', 'test'),
    [
        ('novasched/commands/top.py', 'tests/functional/test_top.py'),
        ('tests/support/suite/mirrors.py', 'tests/architecture/test_mirrors.py'),
    ],
    ids=['by its row', 'by imports'],
)
def test_tool_names_the_tests_of_a_module(root, module, test):
    done = run_tool(root, module)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == test


@pytest.mark.parametrize(
    ('arguments', 'code', 'text'),
    [
        (['--help'], 0, 'Print the test files of a module'),
        ([], 2, 'Print the test files of a module'),
        (['novasched/nothing.py'], 2, 'no file of this checkout'),
    ],
    ids=['help', 'no argument', 'no such file'],
)
def test_tool_explains_itself(root, arguments, code, text):
    done = run_tool(root, *arguments)
    assert (done.returncode, text in done.stdout + done.stderr) == (code, True)
