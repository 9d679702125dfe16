# SPDX-License-Identifier: Apache-2.0
"""A file fits in a sitting, a function on a screen."""

import ast
import statistics

import pytest

LONGEST_FILE = 500


def lines_of(text):
    return len(text.splitlines())


@pytest.fixture(scope='session')
def functions(package_files):
    """Every function of the package: where it stands, and its lines."""
    return {
        f'{path}:{node.lineno} {node.name}': node.end_lineno - node.lineno + 1
        for path, text in package_files.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_file_is_longer_than_the_longest(python_files):
    too_long = {
        str(path): lines_of(text)
        for path, text in python_files.items()
        if lines_of(text) > LONGEST_FILE
    }
    assert too_long == {}


def test_no_function_has_more_than_80_lines(functions):
    assert {name: size for name, size in functions.items() if size > 80} == {}


def test_nine_functions_in_ten_have_at_most_35_lines(functions):
    sizes = sorted(functions.values())
    assert sizes[int(0.9 * (len(sizes) - 1))] <= 35


def test_half_of_the_functions_have_at_most_12_lines(functions):
    assert statistics.median(functions.values()) <= 12
