# SPDX-License-Identifier: Apache-2.0
"""One line for all workers, whichever of them is the last."""

import contextlib
import logging

import pytest

from novasched.process.workers import Announcement


@pytest.fixture
def announced(caplog):
    """Make the announcement of so many workers; its lines are kept."""
    caplog.set_level(logging.INFO)
    with contextlib.ExitStack() as stack:

        def make(workers):
            made = Announcement('1.2', workers, lambda state: f'{state["hosts"]} hosts')
            return stack.enter_context(contextlib.closing(made))

        yield make


def state(hosts):
    return lambda: {'hosts': hosts}


@pytest.mark.parametrize('workers', [1, 2, 300])
def test_the_last_worker_to_start_says_it_for_all(announced, caplog, workers):
    made = announced(workers)
    for number in range(1, workers + 1):
        assert caplog.messages == []
        made.started(state(number))
    line = f'Starting scheduler node (version 1.2): {workers} hosts'
    assert caplog.messages == [line]
    made.started(state(0))  # in the place of one that died
    assert caplog.messages == [line]


def test_each_reload_is_one_line(announced, caplog):
    made = announced(2)
    for _ in range(2):
        made.reloading()
        made.reloaded(state(1))
        made.reloaded(state(2))
    assert (
        caplog.messages
        == ['Reloaded the configuration, the cells and the plugins: 2 hosts'] * 2
    )


def test_a_reload_that_failed_in_one_worker_leaves_the_next_in_order(announced, caplog):
    made = announced(2)
    made.reloading()
    made.reloaded(state(1))
    made.reloading()
    made.reloaded(state(2))
    assert caplog.messages == []
    made.reloaded(state(3))
    assert len(caplog.messages) == 1


def test_one_process_that_is_its_own_worker_says_each_reload(announced, caplog):
    made = announced(1)
    made.reloaded(state(1))
    made.reloaded(state(1))
    assert len(caplog.messages) == 2


def test_the_requests_of_all_workers_are_added_up_at_the_stop(announced, caplog):
    made = announced(2)
    made.finished(3)
    made.finished(2**40)
    made.stopped()
    assert caplog.messages == [
        'Stopped scheduler node (version 1.2): 1099511627779 requests were finished'
    ]
