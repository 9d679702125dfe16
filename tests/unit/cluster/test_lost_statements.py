# SPDX-License-Identifier: Apache-2.0
"""A read that broke off at once is made once more; one that took its time is not."""

import time

import pytest

from novasched import errors
from novasched.cluster.cells import FAILURES
from novasched.runtime.executor import FAST_S, retry_once
from tests.support.tables.cases import cases

LOST = errors.StoreInterrupted('a cell', 'Lost connection to server during query')
REFUSED = errors.StoreFailed('a cell', 'no such table')


def failing(*problems):
    """What raises one problem after the other, then is still."""
    left = list(problems)

    def fail(name):
        if left:
            raise left.pop(0)

    return fail


def test_a_statement_that_is_lost_in_all_cells_costs_no_host(cloud, caplog):
    for store in (cloud.a, cloud.b):
        store.on_call = failing(LOST)
    assert cloud.shown() == ['h1', 'h2', 'h3']
    assert caplog.messages == []


@cases(
    'problems, shown',
    ('once', [LOST], ['h1', 'h2', 'h3']),
    ('twice', [LOST, LOST], ['h3']),
    ('what another try does not mend', [REFUSED], ['h3']),
)
def test_how_often_a_cell_is_asked(cloud, problems, shown):
    cloud.a.on_call = failing(*problems)
    assert cloud.shown() == shown
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_a_cell_that_keeps_losing_connections_is_left_out(cloud):
    cloud.a.on_call = failing(*[LOST] * 99)
    for _ in range(FAILURES):
        cloud.view.refresh()
    assert [cell.uuid for cell in cloud.view.cells.unavailable()] == ['a']


def test_slow_failure_is_not_tried_again():
    tries = []

    def read():
        tries.append(1)
        time.sleep(FAST_S + 0.05)
        raise LOST

    with pytest.raises(errors.StoreInterrupted):
        retry_once(read)
    assert len(tries) == 1
