# SPDX-License-Identifier: Apache-2.0
"""An export has the history as it was when the export began, and no name of it."""

import contextlib

import pytest

from novasched.history import export, reading
from novasched.inspection.questions.history_check import check
from tests.support.records.histories import RecordedHistory


@pytest.fixture
def directory(tmp_path):
    return tmp_path / 'history'


@pytest.fixture
def workers(directory):
    """Two workers that record in the directory."""
    with contextlib.ExitStack() as stack:
        found = [RecordedHistory(directory, name) for name in ('rack1', 'rack2')]
        for each in found:
            stack.callback(each.recorder.close)
        yield found


def times(path):
    return [item.at for item in reading.read(path)]


def test_workers_of_an_export_are_merged_by_time(workers, directory, tmp_path):
    for place in (0, 1, 1, 0, 1):
        workers[place].record()
        for each in workers:
            each.clock.advance(10)
    path = tmp_path / 'one.jsonl.gz'
    assert export.export(directory, path, True, lambda requests: None) == 5
    assert times(path) == times(directory) == sorted(times(directory))


def test_names_that_come_during_an_export_are_not_in_it(workers, directory, tmp_path):
    for each in workers:
        each.record()
    path = tmp_path / 'one.jsonl.gz'

    def progress(requests):
        if requests < 5:
            workers[1].record(project_id='newcomer')

    assert export.export(directory, path, True, progress) == 2
    assert b'newcomer' not in b''.join(reading.Lines(path))
    assert len(times(directory)) == 4


def test_names_that_are_keys_of_the_form_leave_them(workers, directory, tmp_path):
    names = ['compute', 'columns', 'free_ram_mb']
    for name in names:
        workers[0].record(project_id=name)
    path = tmp_path / 'one.jsonl.gz'
    export.export(directory, path, True, lambda requests: None)
    report = check(path, 1, lambda read, requests: None)
    assert (report.requests, report.is_equal, report.gaps) == (len(names), True, [])
    assert all(
        item.spec['nova_object.data']['project_id'] not in names
        for item in reading.read(path)
    )
