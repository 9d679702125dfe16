# SPDX-License-Identifier: Apache-2.0
"""The report of a process: made when it is asked for, whatever holds others up."""

import os
import threading

import pytest

from novasched import errors
from novasched.process import guru_meditation
from tests.support.clouds.configuration import make_conf
from tests.support.suite.waiting import eventually

LIMIT_S = 20


@pytest.fixture
def conf(tmp_path):
    made = make_conf()
    made.set_override('log_dir', str(tmp_path), 'oslo_reports')
    return made


@pytest.fixture
def report():
    """A report class of its own, as sections are kept by the class."""
    return type('Report', (guru_meditation.Meditation,), {'persistent_sections': []})


def test_section_shows_an_answer_in_time():
    told = guru_meditation.asked(lambda: {'hosts': 7})()
    assert dict(told) == {'hosts': 7}


def test_late_section_does_not_delay_the_report():
    release = threading.Event()
    told = guru_meditation.asked(
        lambda: release.wait(LIMIT_S) and {}, patience_s=0.01
    )()
    release.set()
    assert dict(told) == {'no answer within seconds': 0.01}


def test_a_report_is_a_file_of_its_process(report, tmp_path):
    report.handle_signal(
        guru_meditation.Version(), 'novasched-scheduler', str(tmp_path), None
    )
    eventually(lambda: any(each.stat().st_size for each in tmp_path.iterdir()))
    (path,) = tmp_path.iterdir()
    assert path.name.startswith(f'novasched-scheduler-{os.getpid()}_gurumeditation_')
    assert 'product = novasched-scheduler' in path.read_text()


def test_a_file_to_watch_that_is_missing_is_named(conf, report):
    conf.set_override('file_event_handler', '/no/such/file', 'oslo_reports')
    with pytest.raises(errors.OptionError, match='file_event_handler'):
        guru_meditation.arrange(conf, dict, report)


def test_nothing_is_watched_unless_the_options_say_so(conf, report):
    before = set(threading.enumerate())
    guru_meditation.watch(conf, report)
    assert set(threading.enumerate()) <= before
