# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import oslo_messaging
import pytest

from novasched import errors
from novasched_lab.compute.demands import Demand
from novasched_lab.compute.fleet import Host
from novasched_lab.compute.station import Station, tell


class Rows:
    """Takes down usage; fails as often as it is told to."""

    def __init__(self, failures=0):
        self.failures = failures
        self.written = []

    def write_usage(self, node_id, usage):
        if self.failures:
            self.failures -= 1
            raise errors.StoreFailed('cell', 'away')
        self.written.append(usage['vcpus_used'])


def station(rows):
    return Station(Host('h1'), None, rows, None)


def test_only_changes_are_published():
    rows = Rows()
    host = station(rows)
    host.wrote(host.book.usage())
    host.publish()
    assert rows.written == []
    host.book.claim('u1', Demand(2, 512, 1))
    host.publish()
    host.publish()
    assert rows.written == [2]
    host.release('u1')
    assert rows.written == [2, 0]


def test_what_could_not_be_published_is_published_later():
    rows = Rows(failures=1)
    host = station(rows)
    host.book.claim('u1', Demand(2, 512, 1))
    host.publish()
    assert rows.written == []
    host.publish()
    assert rows.written == [2]


def test_what_is_worked_on_is_busy():
    host = station(Rows())
    with host.working_on('u1'), host.working_on('u1'):
        assert host.busy() == {'u1'}
    assert host.busy() == frozenset()


@pytest.mark.parametrize(
    'problem',
    [
        pytest.param(oslo_messaging.MessageDeliveryFailure('away'), id='no broker'),
        pytest.param(oslo_messaging.MessagingTimeout('late'), id='no answer'),
    ],
)
def test_schedulers_that_hear_nothing(problem, caplog):
    def fail(news):
        raise problem

    tell(object(), fail, 'u1')
    assert any('not told' in record.getMessage() for record in caplog.records)


def test_nobody_is_to_be_told():
    tell(None, lambda news: pytest.fail('told'), 'u1')
