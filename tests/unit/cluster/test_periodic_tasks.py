# SPDX-License-Identifier: Apache-2.0
"""Chores are done when they are due, whatever becomes of one of them."""

import threading

import pytest

from novasched import errors
from novasched.cluster.periodic import PeriodicTasks
from tests.support.tables.cases import cases

DEADLINE_S = 30


class Chores:
    """Counts what it is told to do, in the place of a view; ``raises`` by name."""

    def __init__(self):
        self.done = []
        self.raises = {}
        self.checked = threading.Event()

    def _do(self, name):
        self.done.append(name)
        if name in self.raises:
            raise self.raises[name]

    def retry_unavailable(self):
        self._do('retry')

    def check(self):
        self.checked.set()
        self._do('check')

    def read_public_flavors(self):
        self._do('flavors')

    def read_services(self):
        self._do('services')

    def check_instances(self):
        self._do('instances')

    def reconcile(self):
        self._do('reconcile')


@pytest.fixture
def chores():
    return Chores()


@pytest.fixture
def upkeep(chores, clock):
    made = PeriodicTasks(chores, clock, check_interval_s=60, reconcile_interval_s=600)
    yield made
    made.stop()


def test_the_first_check_is_at_once(upkeep, chores):
    upkeep.run_due()
    assert chores.done == ['check']


@cases(
    'after_s, done',
    ('nothing is due', 0.5, []),
    ('a retry', 1, ['retry']),
    ('a check', 60, ['retry', 'check', 'flavors', 'services', 'instances']),
    ('all', 600, ['retry', 'check', 'flavors', 'services', 'instances', 'reconcile']),
)
def test_chores_are_done_when_they_are_due(upkeep, chores, clock, after_s, done):
    upkeep.run_due()
    chores.done.clear()
    clock.advance(after_s)
    upkeep.run_due()
    upkeep.run_due()
    assert chores.done == done


def test_other_chores_are_due_at_once_and_again(chores, clock):
    told = []
    others = [(30, lambda: told.append('tasks'))]
    made = PeriodicTasks(chores, clock, others=others)
    made.run_due()
    assert told == ['tasks']
    clock.advance(29)
    made.run_due()
    assert told == ['tasks']
    clock.advance(1)
    made.run_due()
    assert told == ['tasks', 'tasks']


@cases(
    'problem',
    ('a database is away', errors.StoreFailed('the API', 'refused')),
    ('a defect', LookupError('a defect')),
)
def test_a_chore_that_fails_is_done_again_and_holds_up_no_other(
    upkeep, chores, clock, problem, caplog
):
    chores.raises['check'] = problem
    for _ in range(2):
        chores.done.clear()
        clock.advance(600)
        upkeep.run_due()
        assert chores.done == [
            'retry',
            'check',
            'flavors',
            'services',
            'instances',
            'reconcile',
        ]
    assert f'check failed, trying again: {problem}' in caplog.messages


def test_the_thread_does_what_is_due_until_it_is_stopped(upkeep, chores):
    upkeep.start()
    assert chores.checked.wait(DEADLINE_S)
    upkeep.stop()


def test_a_full_read_that_hangs_does_not_keep_cells_from_coming_back(chores, clock):
    end, retried = threading.Event(), threading.Event()
    hangs = threading.Event()

    def check():
        hangs.set()
        end.wait(2 * DEADLINE_S)

    chores.check, chores.retry_unavailable = check, retried.set
    made = PeriodicTasks(chores, clock, retry_interval_s=0.1)
    made.start()
    assert hangs.wait(DEADLINE_S)
    clock.advance(1)
    assert retried.wait(DEADLINE_S)
    assert not end.is_set()
    end.set()
    made.stop()


def test_hung_task_delays_no_other_task(chores, clock):
    end, done = threading.Event(), threading.Event()
    others = [(30, lambda: end.wait(DEADLINE_S)), (30, done.set)]
    made = PeriodicTasks(chores, clock, others=others)
    made.start()
    assert done.wait(DEADLINE_S)
    assert chores.checked.wait(DEADLINE_S)
    assert not end.is_set()
    end.set()
    made.stop()
