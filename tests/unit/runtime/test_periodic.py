# SPDX-License-Identifier: Apache-2.0
"""The periodic runner outlives what its chores raise, and says so once."""

import logging
import threading

from novasched import errors
from novasched.runtime.periodic import PeriodicRunner
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

DEADLINE_S = 30
DEFECT = AssertionError('Protocol error, expecting EOF')
AWAY = errors.StoreFailed('the cell', 'refused')


class Task:
    """Raises one problem after the other; None: it succeeds."""

    __name__ = 'chore'

    def __init__(self, *problems):
        self.problems = list(problems)
        self.done = 0
        self.enough = threading.Event()

    def __call__(self):
        self.done += 1
        if self.done > 3:
            self.enough.set()
        problem = self.problems.pop(0) if self.problems else None
        if problem is not None:
            raise problem


def run(chore, times):
    clock = FakeClock()
    runner = PeriodicRunner('test', [(10.0, chore)], [0.0], clock)
    for _ in range(times):
        runner.run_due()
        runner.run_due()
        clock.advance(10)


@cases(
    'problems, told',
    ('a defect, time and again', [DEFECT] * 3, [(DEFECT, True)]),
    ('a database that is away', [AWAY] * 3, [(AWAY, False)]),
    ('two', [AWAY, DEFECT], [(AWAY, False), (DEFECT, True)]),
    ('in between', [DEFECT, None, DEFECT], [(DEFECT, True), (DEFECT, True)]),
)
def test_failure_is_logged_once_until_it_is_over(caplog, problems, told):
    caplog.set_level(logging.WARNING)
    chore = Task(*problems)
    run(chore, 5)
    assert chore.done == 5
    assert [(r.getMessage(), bool(r.exc_info)) for r in caplog.records] == [
        (f'chore failed, trying again: {problem}', traced) for problem, traced in told
    ]


def test_end_of_a_failure_is_logged(caplog):
    caplog.set_level(logging.INFO)
    run(Task(AWAY, AWAY), 4)
    assert caplog.messages[1:] == ['chore succeeds again']


def test_a_thread_goes_on_after_defects():
    chore = Task(*[DEFECT] * 99)
    runner = PeriodicRunner('test', [(0.01, chore)], [0.0])
    runner.start()
    assert chore.enough.wait(DEADLINE_S)
    runner.stop()
    runner.join(DEADLINE_S)
    assert not runner.thread.is_alive()
