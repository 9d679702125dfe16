# SPDX-License-Identifier: Apache-2.0
"""The files of a history under faults of their disk and their workers."""

import contextlib
import resource

import pytest

from novasched.history import files, reading
from novasched.inspection.questions.history_check import check
from tests.support.records.histories import RecordedHistory

ROOM = 6000


@pytest.fixture
def recorded(tmp_path):
    made = RecordedHistory(tmp_path / 'history')
    with contextlib.closing(made.recorder):
        yield made


def checked(directory):
    return check(directory, 1, lambda read, requests: None)


@pytest.mark.scenario('F53')
def test_file_that_may_not_grow_costs_requests_of_the_history_alone(recorded, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        for _ in range(40):
            recorded.record()
        assert 'large' in str(recorded.recorder.writer.problem)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    recorded.clock.advance(files.RETRY_S)
    recorded.record(3)
    recorded.recorder.close()
    report = checked(tmp_path / 'history')
    assert report.is_equal
    # Of the request at which the file may not grow, all may be there.
    assert report.requests - recorded.counted['written'] in (0, 1)
    assert recorded.counted['written'] + recorded.counted['dropped'] == 43
    dropped = f'{recorded.counted["dropped"]} requests were dropped'
    assert sum(dropped in gap for gap in report.gaps) == 1


@pytest.mark.scenario('F54')
def test_all_whole_lines_of_a_torn_file_are_checked(recorded, tmp_path):
    sizes = []
    for _ in range(5):
        recorded.record()
        (file,) = reading.files_of(tmp_path / 'history')
        sizes.append(file.stat().st_size)
    recorded.recorder.close()
    whole = file.read_bytes()
    for requests, size in enumerate(sizes, 1):
        for less in (0, 1, 20):
            file.write_bytes(whole[: size - less])
            report = checked(file)
            assert report.is_equal
            assert report.requests >= requests - (less > 0)
            assert report.requests <= requests
            (gap,) = report.gaps
            assert gap.endswith(reading.KILLED)
