# SPDX-License-Identifier: Apache-2.0
"""Runs of a directory, and one of them."""

import os
from dataclasses import replace

import pytest

from novasched import errors
from novasched.policy_lab.run_list import lab_report
from novasched.policy_lab.runs import RUN
from tests.support.records.lab_runs import run_result


@pytest.fixture
def directory(tmp_path):
    """Two runs, of which ``b`` is the newest, and something else."""
    for at, name in enumerate('ab'):
        (tmp_path / name).mkdir()
        path = tmp_path / name / RUN
        path.write_text(run_result().as_text())
        os.utime(path, (at, at))
    (tmp_path / 'broken-off').mkdir()
    return tmp_path


def test_newest_run_is_shown_unless_another_is_named(directory):
    report = lab_report(str(directory), '')
    assert [each.name for each in report.runs] == ['b', 'a']
    assert (report.name, report.run) == ('b', run_result())
    assert lab_report(str(directory), 'a').name == 'a'


@pytest.mark.parametrize('name', ['c', 'broken-off', '../a', '/etc'])
def test_only_listed_runs_are_read(directory, name):
    with pytest.raises(errors.OptionError, match='is not known'):
        lab_report(str(directory), name)


@pytest.mark.parametrize(
    'text',
    ['{', '[]', '{}', replace(run_result(), parts=[]).as_text()],
)
def test_run_that_cannot_be_read_leaves_the_others_in_reach(directory, text):
    (directory / 'b' / RUN).write_text(text)
    report = lab_report(str(directory), 'b')
    assert len(report.runs) == 2
    assert report.run is None
    assert report.problem


def test_directory_without_runs_has_none(tmp_path):
    assert lab_report(str(tmp_path), '').runs == []
    assert lab_report('', '').runs == []
