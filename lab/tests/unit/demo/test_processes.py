# SPDX-License-Identifier: Apache-2.0
"""Programs beside the demo."""

import sys

import pytest

from novasched import errors
from novasched_lab.demo.cloud import ChildProgram, program
from tests.support.tables.cases import cases

SLEEP = 'import time; print("up", flush=True); time.sleep(600)'


def python(tmp_path, code):
    return ChildProgram('it', [sys.executable, '-c', code], tmp_path / 'log')


def test_a_program_is_waited_for_and_stopped(tmp_path):
    log = tmp_path / 'log'
    with python(tmp_path, SLEEP) as process:
        process.wait_until(lambda: log.read_text() == 'up\n')
    assert process._process.returncode == -15


@cases(
    'code, timeout_s, problem',
    ('ended', 'raise SystemExit("no\\nway")', 60, r'it ended with 1: no / way'),
    ('too slow', SLEEP, 0, 'it is not ready after 0 s'),
    ('silent', '', 60, 'ended with 0: it said nothing'),
)
def test_a_program_that_is_not_ready(tmp_path, code, timeout_s, problem):
    with (
        python(tmp_path, code) as process,
        pytest.raises(errors.SetupError, match=problem),
    ):
        process.wait_until(lambda: False, timeout_s)


def test_our_programs_are_started_by_name(tmp_path):
    with (
        program('conductor', tmp_path, '--version') as process,
        pytest.raises(errors.SetupError, match='novasched-conductor ended with 0'),
    ):
        process.wait_until(lambda: False)
