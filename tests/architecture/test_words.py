# SPDX-License-Identifier: Apache-2.0
"""Words that are left out of the code, and words that stand in every file."""

from __future__ import annotations

import ast
import collections
import pathlib
import re

UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX|raise NotImplementedError)\b')
PATCHING = re.compile(r'\b(monkeypatch|unittest\.mock|mocker)\b')
NO_SUBJECT = {'utils', 'helpers', 'common', 'misc'}
GONE = {
    'adoption', 'agreement', 'answers', 'asking', 'assuming', 'attempts', 'booking',
    'doors', 'exchange', 'facts', 'foreign', 'guests', 'lanes', 'ledger', 'lending',
    'meditation', 'milestones', 'mirrored', 'observed', 'observing', 'offers',
    'old_names', 'overlay', 'pauses', 'picks', 'question', 'refused', 'reported',
    'room', 'scope', 'seat', 'serving', 'shims', 'sight', 'silence', 'surviving',
    'taking_back', 'undoing', 'upkeep', 'watch',
}  # fmt: skip
"""Names that files had before they got the field's terms."""
KEPT = {'novasched/rpc/answers.py', 'novasched/observability/serving.py'}
MANNERED = re.compile(r'\b(lest|whoever|besides|homeless|twins)\b')
"""Words that no manual of the field has."""
HERE = pathlib.Path(__file__).name


def files_with(pattern, files):
    return [
        f'{path}: {found.group()}'
        for path, text in files.items()
        if path.name != HERE and (found := pattern.search(text))
    ]


def test_nothing_is_left_unfinished(python_files):
    assert files_with(UNFINISHED, python_files) == []


def test_unit_tests_patch_nothing(python_files):
    unit = {
        path: text
        for path, text in python_files.items()
        if path.parts[:2] == ('tests', 'unit')
    }
    assert files_with(PATCHING, unit) == []


def test_every_file_is_named_after_a_subject(python_files):
    assert [path for path in python_files if path.stem in NO_SUBJECT] == []


def test_prose_is_plain(package_files):
    assert files_with(MANNERED, package_files) == []


def test_files_have_the_names_of_the_field(package_files):
    found = {
        str(path)
        for path in package_files
        if path.parts[0] == 'novasched' and GONE.intersection([*path.parts, path.stem])
    }
    assert found == KEPT


def test_every_file_starts_with_the_licence(python_files):
    line = '# SPDX-License-Identifier: Apache-2.0\n'
    without = [path for path, text in python_files.items() if not text.startswith(line)]
    assert [path for path in without if python_files[path]] == []


def test_every_module_says_what_it_is(package_files):
    silent = [
        path
        for path, text in package_files.items()
        if text.count('\n') > 1 and not ast.get_docstring(ast.parse(text))
    ]
    assert silent == []


NOVAS = {'Aggregate', 'FilterScheduler', 'NoValidHost', 'Scheduler', 'Service'}
"""Classes that bear nova's name on the wire, or for plugins of nova."""


def test_a_class_name_stands_for_one_class(package_files):
    names = collections.Counter(
        node.name.lstrip('_')
        for path, text in package_files.items()
        if path.parts[0] == 'novasched'
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} <= NOVAS
