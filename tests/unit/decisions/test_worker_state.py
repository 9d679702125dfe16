# SPDX-License-Identifier: Apache-2.0
"""The state of each worker stands beside the records, for all who read them."""

from __future__ import annotations

import json
import os
import pathlib
import time

import pytest

from novasched import errors
from novasched.decisions import overview, worker_state
from novasched.decisions.reading import DecisionFiles
from novasched.decisions.worker_state import FRESH_S, StateFile
from novasched.outages import Outage
from tests.support.records.stored_records import SetClock

AWAY = Outage('placement', '503 Service Unavailable', 12.3, 40, 2)


class Known:
    """Outages of which a test says what they are."""

    def __init__(self, *now):
        self.at = list(now)

    def now(self):
        return self.at


def read(directory, seconds=0.0):
    clock = SetClock(time.time() + seconds)
    states = worker_state.read(directory, clock)
    return [Outage(**each) for state in states for each in state['outages']]


def test_it_is_there_while_it_lasts(tmp_path):
    known = Known(AWAY)
    file = StateFile(tmp_path, known)
    file.write_state()
    assert read(tmp_path) == [AWAY]
    found = overview.summarize(DecisionFiles(tmp_path), 60)
    assert found.outages == [AWAY._asdict()]
    known.at = []
    file.write_state()
    assert os.listdir(tmp_path) == []


def test_picks_are_there_while_some_are_assumed(tmp_path):
    assumed = {'assumed': 2, 'oldest_s': 1.5}
    file = StateFile(tmp_path, Known(), lambda: assumed)
    file.write_state()
    found = overview.summarize(DecisionFiles(tmp_path), 60)
    assert (found.outages, found.picks) == ([], [assumed])
    assumed = {}
    file.write_state()
    assert os.listdir(tmp_path) == []


def test_state_of_a_killed_worker_expires(tmp_path):
    (tmp_path / 'state-1.json').write_text(
        json.dumps({'outages': [AWAY._asdict()], 'picks': {}})
    )
    StateFile(tmp_path, Known(AWAY)).write_state()
    assert read(tmp_path) == [AWAY, AWAY]
    assert read(tmp_path, FRESH_S + 1) == []
    later = SetClock(time.time() + FRESH_S + 1)
    mine = f'state-{os.getpid()}.json'
    assert len(os.listdir(tmp_path)) == 2
    StateFile(tmp_path, Known(AWAY), clock=later).write_state()
    assert os.listdir(tmp_path) == [mine]


def test_where_there_are_no_files_there_is_none():
    StateFile(None, Known(AWAY)).write_state()
    assert worker_state.read(pathlib.Path('/nowhere'), SetClock()) == []


def test_the_directory_is_made_if_no_record_was_written_yet(tmp_path):
    StateFile(tmp_path / 'new', Known(AWAY)).write_state()
    assert read(tmp_path / 'new') == [AWAY]


def test_unwritable_state_file_is_a_failure(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(errors.StoreFailed):
        StateFile(tmp_path / 'file' / 'below', Known(AWAY)).write_state()
