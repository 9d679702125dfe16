# SPDX-License-Identifier: Apache-2.0
"""What the workers say becomes one answer."""

import pytest

from novasched.observability.health import FAIL, PASS, WARN, Check
from novasched.observability.host import WorkerReport, Workers, merged, not_ready
from tests.support.tables.cases import cases

WELL = Check(PASS, '12:00')


def report(pid, **checks):
    return WorkerReport(pid, checks)


@cases(
    ('workers', 'expected'),
    ('nobody says anything', [], {}),
    (
        'all are well: the oldest news',
        [report(1, api_db=WELL), report(2, api_db=Check(PASS, '11:00'))],
        {'api_db': Check(PASS, '11:00')},
    ),
    (
        'one warns',
        [report(1, api_db=WELL), report(2, api_db=Check(WARN, '11:00', 'odd'))],
        {'api_db': Check(WARN, '11:00', 'worker 2: odd')},
    ),
    (
        'two fail',
        [
            report(1, api_db=Check(FAIL, '12:01', 'gone')),
            report(2, api_db=Check(WARN, '11:00', 'odd')),
            report(3, api_db=Check(FAIL, '12:02', 'away')),
        ],
        {'api_db': Check(FAIL, '12:01', 'worker 1: gone; worker 3: away')},
    ),
    (
        'each knows of another component',
        [report(1, b=WELL), report(2, a=WELL)],
        {'a': WELL, 'b': WELL},
    ),
)
def test_the_worst_that_a_worker_says_counts(workers, expected):
    assert merged(workers) == expected


@pytest.mark.parametrize(
    ('workers', 'expected'),
    [
        pytest.param([report(1), report(2)], Check(PASS, 'now'), id='all'),
        pytest.param([report(1)], Check(WARN, 'now', '1 of 2 workers are there')),
        pytest.param(
            [report(1), WorkerReport(2, problem='worker 2 does not answer within 2 s')],
            Check(FAIL, 'now', 'worker 2 does not answer within 2 s'),
            id='one hangs',
        ),
    ],
)
def test_workers_that_are_missing_or_hang_are_seen(workers, expected):
    assert Workers('/nowhere', 2).check(workers, 'now') == expected


@cases(
    ('workers', 'expected'),
    ('none has a socket yet', [], 'no worker is there'),
    (
        'none serves yet',
        [report(1, ready=Check(WARN, 'now', 'starting')), report(2)],
        'worker 1: starting; worker 2: starting',
    ),
    (
        'one serves',
        [report(1, ready=Check(WARN, 'now', 'starting')), report(2, ready=WELL)],
        None,
    ),
    (
        'the only one hangs',
        [WorkerReport(2, problem='worker 2 does not answer within 2 s')],
        'worker 2 does not answer within 2 s',
    ),
)
def test_the_service_is_ready_when_one_worker_is(workers, expected):
    assert not_ready(workers) == expected


def test_without_workers_the_service_starts_at_first_and_has_failed_later():
    workers = Workers('/nowhere', 1)
    assert workers.check([], 'now') == Check(WARN, 'now', 'starting')
    assert workers.check([report(1)], 'now').status == PASS
    assert workers.check([], 'now') == Check(FAIL, 'now', '0 of 1 workers are there')
