# SPDX-License-Identifier: Apache-2.0
"""Histories of an earlier form are read as those of today."""

import gzip
from pathlib import Path

import pytest

from novasched.history import export, reading
from novasched.history.reading import ProviderChange, RecordedRequest, StartedInstance
from novasched.inspection.questions.history_check import check

SAMPLES = Path(__file__).parents[2] / 'samples' / 'history'
INVENTORY = {'capacity': 64, 'min_unit': 1, 'max_unit': 16, 'step_size': 1, 'used': 2}
HOSTS = 20


@pytest.fixture
def history(tmp_path):
    """Return the file of a history with two servers at last."""
    path = tmp_path / 'form-1.jsonl.gz'
    path.write_bytes(gzip.compress((SAMPLES / 'form-1.jsonl').read_bytes()))
    return path


def checked(path):
    report = check(path, 1, lambda read, requests: None)
    return report.requests, report.decisions, report.is_equal, report.gaps


def test_history_of_form_1_is_checked(history):
    assert checked(history) == (3, 4, True, [])


def test_history_of_form_1_is_checked_once_it_is_anonymous(history, tmp_path):
    to = tmp_path / 'hidden'
    assert export.export(history, to, True, lambda requests: None) == 3
    assert checked(to) == (3, 4, True, [])


def test_history_of_form_1_has_all_that_was_written(history):
    (providers, *requests, started) = [*reading.read(history)]
    assert isinstance(providers, ProviderChange)
    ((uuid, provider),) = providers.providers.items()
    assert provider == {
        'parent': None,
        'inventories': {'VCPU': INVENTORY},
        'traits': ['CUSTOM_FAST'],
        'aggregates': [uuid.replace('1', '9', 1)],
    }
    assert isinstance(started, StartedInstance)
    assert [type(each) for each in requests] == [RecordedRequest] * 3
    for item in reading.read(history):
        if isinstance(item, RecordedRequest):
            trace = item.document()['requests'][0]['decisions'][0]['trace']
            rejected = [place for _, places in trace['rejected'] for place in places]
            assert sorted([*trace['ranked'], *rejected]) == [*range(HOSTS)]
            assert trace['totals'] == sorted(trace['totals'], reverse=True)
