# SPDX-License-Identifier: Apache-2.0
"""The page of differences is complete, and the tests that it names exist."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

WEAKNESSES = range(1, 37)
NAMED = re.compile(r'`(tests/[\w/]+\.py)::([\w:]+)`')
NOT_YET = '**Not yet'


@pytest.fixture
def page(root):
    return (root / 'docs' / 'reference' / 'differences.md').read_text()


@pytest.fixture
def sections(page):
    """The text under each weakness, by its number."""
    parts = re.split(r'^#+ ', page, flags=re.MULTILINE)
    found = [(re.match(r'W(\d+): ', part), part) for part in parts]
    return {int(match[1]): part for match, part in found if match}


def functions_of(text):
    """Yield the names of the tests of a file, those of classes as Class::test."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (
                f'{node.name}::{inner.name}'
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            )


def test_every_weakness_is_spoken_of_once(page, sections):
    assert sorted(sections) == list(WEAKNESSES)
    assert len(re.findall(r'^### W', page, re.MULTILINE)) == len(WEAKNESSES)


def test_every_weakness_has_a_test_or_is_not_met_yet(sections):
    silent = [
        number
        for number, text in sections.items()
        if not NAMED.search(text) and NOT_YET not in text
    ]
    assert silent == []


def test_every_test_that_is_named_exists(page, python_files):
    named = NAMED.findall(page)
    there = {
        name: set(functions_of(python_files.get(pathlib.Path(name), '')))
        for name in {path for path, _ in named}
    }
    assert [f'{path}::{test}' for path, test in named if test not in there[path]] == []


def test_every_mention_of_a_test_is_understood(page):
    assert page.count('.py::') == len(NAMED.findall(page))
