# SPDX-License-Identifier: Apache-2.0
"""A history is written in files of a size; what is not in it is counted."""

import contextlib
import json
import logging
import stat

import pytest

from novasched.history import files, reading
from novasched.history.encoding import StateEncoder, text_of
from novasched.history.reading import (
    EndedInstance,
    Gap,
    HistoryState,
    RecordedRequest,
    StartedInstance,
)
from novasched.inspection.questions.history_check import check
from novasched.objects.instance import KnownInstance
from tests.support.clouds import factories
from tests.support.clouds.factories import INSTANCE
from tests.support.records.histories import RecordedHistory


@pytest.fixture
def directory(tmp_path):
    return tmp_path / 'history'


@pytest.fixture
def recording(directory):
    """Make a recorder in the directory; it is closed in the end."""
    with contextlib.ExitStack() as stack:

        def made(*args, **settings):
            recorded = RecordedHistory(directory, *args, **settings)
            stack.callback(recorded.recorder.close)
            return recorded

        yield made


@pytest.fixture
def recorded(recording):
    return recording()


def checked(directory):
    return check(directory, 1, lambda read, requests: None)


def kinds(directory):
    """Return the first keys of all lines."""
    found = [
        line for file in reading.files_of(directory) for line in reading.Lines(file)
    ]
    return [line.split(b'"')[1].decode() for line in found]


def test_later_requests_have_changed_rows_alone(recorded, directory):
    recorded.record(3)
    recorded.recorder.close()
    assert kinds(directory) == [
        *('history', 'profile', 'state', 'order', 'request'),
        *('rows', 'order', 'request') * 2,
    ]
    first, second, third = reading.read(directory)
    assert [item.line['request'] for item in (first, second, third)] == [1, 2, 3]
    assert recorded.counted == {'written': 3}


def test_only_its_user_reads_the_history(recorded, directory):
    recorded.record()
    (file,) = reading.files_of(directory)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_requests_are_read_while_the_file_is_in_use(recorded, directory):
    recorded.record(2)
    report = checked(directory)
    assert (report.requests, report.is_equal, report.gaps) == (2, True, [])


def test_each_file_is_checked_without_the_others(recording, directory):
    recorded = recording(file_bytes=1)
    recorded.record()
    recorded.record()
    recorded.record()
    recorded.recorder.close()
    found = reading.files_of(directory)
    assert len(found) == 3
    for file in found:
        report = checked(file)
        assert (report.requests, report.is_equal, report.gaps) == (1, True, [])


def test_oldest_files_go_and_files_in_use_stay(recording, directory):
    other = recording('other')
    other.record()
    (in_use,) = reading.files_of(directory)
    recorded = recording(max_bytes=9000, file_bytes=1500)
    for _ in range(12):
        recorded.record(3)
    left = reading.files_of(directory)
    assert in_use in left
    assert sum(file.stat().st_size for file in left) < 9000 + 1500
    numbers = [int(file.name.split('-')[-1].split('.')[0]) for file in left[1:]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[0] > 1
    assert checked(directory).is_equal


def test_foreign_files_end_no_recording(recorded, directory):
    (directory / 'other.jsonl.gz').mkdir(parents=True)
    recorded.record(2)
    assert (recorded.recorder.writer.problem, recorded.counted) == (
        None,
        {'written': 2},
    )


@pytest.mark.scenario('F53')
def test_unwritable_directory_costs_requests_and_one_warning(
    recorded, directory, caplog
):
    directory.write_text('')
    with caplog.at_level(logging.INFO):
        recorded.record(2)
        recorded.record(2)
        assert str(directory) in str(recorded.recorder.writer.problem)
        directory.unlink()
        recorded.clock.advance(files.RETRY_S)
        recorded.record(2)
    recorded.recorder.close()
    assert recorded.counted == {'dropped': 4, 'written': 2}
    assert recorded.recorder.writer.problem is None
    assert [r.levelname for r in caplog.records if 'history' in r.message] == [
        'WARNING',
        'INFO',
    ]
    report = checked(directory)
    assert (report.requests, report.is_equal) == (2, True)
    (gap,) = report.gaps
    assert gap.endswith('4 requests were dropped while it was recorded')


def test_requests_beyond_what_may_wait_are_dropped(recording, directory):
    recorded = recording(waiting_bytes=5_000)
    for _ in range(20):
        recorded.recorder.add(recorded.request())
    recorded.recorder.flush()
    recorded.record(2)
    recorded.recorder.close()
    report = checked(directory)
    assert report.is_equal
    assert recorded.counted['dropped'] > 0
    assert report.requests == recorded.counted['written']
    assert report.requests + recorded.counted['dropped'] == 22
    (gap,) = [item for item in reading.read(directory) if isinstance(item, Gap)]
    assert gap.requests == recorded.counted['dropped']


def test_request_without_a_form_in_json_costs_no_other(recorded, directory, caplog):
    recorded.record()
    broken = [recorded.request() for _ in range(2)]
    for each in broken:
        each.turns = [None]
        recorded.recorder.add(each)
    recorded.record(2)
    report = checked(directory)
    assert (report.requests, report.is_equal) == (3, True)
    (gap,) = report.gaps
    assert gap.endswith('2 requests were dropped while it was recorded')
    assert kinds(directory).count('history') == 1
    assert kinds(directory).count('state') == 2
    messages = [r.message for r in caplog.records if r.levelname == 'ERROR']
    assert messages == [f'Request {broken[0].id} is not in the history']


def test_request_of_which_too_little_is_known_is_counted(recorded, directory):
    recorded.recorder.drop()
    recorded.record()
    request, gap = reading.read(directory)
    assert (gap.requests, request.line['request']) == (1, 2)


def test_instances_that_come_and_go_are_recorded(recorded, directory):
    recorded.recorder.saw('compute-1', INSTANCE, KnownInstance(INSTANCE, 'h', 7))
    recorded.record()
    recorded.recorder.saw('compute-1', INSTANCE, None)
    recorded.recorder.flush()
    at = recorded.clock.time()
    request, started, ended = reading.read(directory)
    assert started == StartedInstance(at, 'compute-1', INSTANCE, 7)
    assert isinstance(request, RecordedRequest)
    assert ended == EndedInstance(at, 'compute-1', INSTANCE)


def test_history_is_read_as_far_as_it_went_at_a_time(recorded, directory):
    recorded.record(2)
    until = reading.extent(directory)
    for _ in range(2):
        found = [item.line['request'] for item in reading.read(directory, until)]
        assert found == [1, 2]
        recorded.record(2)
        recorded.recorder.close()


@pytest.mark.parametrize(
    ('column', 'changes'),
    [
        ('recent_failed_builds', [[3, 1], [0, 1]]),
        ('is_source', [[True, False], [False, True]]),
    ],
)
def test_columns_of_weighers_follow_their_rows(column, changes):
    encoder, state = StateEncoder(), HistoryState()
    for values in changes:
        for line in encoder.lines(factories.hosts(**{column: values})):
            line = json.loads(text_of([line]))
            (state.begin if 'state' in line else state.change)(line)
        assert state.hosts().snapshot.column(column).tolist() == values
    assert state.view == 2
