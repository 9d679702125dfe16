# SPDX-License-Identifier: Apache-2.0
from novasched import errors
from novasched_lab.compute.host import FakeComputeHost
from novasched_lab.compute.resource_tracker import Demand
from novasched_lab.host_inventory import SimulatedHost


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


def fake(rows):
    return FakeComputeHost(SimulatedHost('h1'), None, rows, None, None)


def test_only_changes_are_published():
    rows = Rows()
    host = fake(rows)
    host.registered(7)
    host.publish()
    assert rows.written == []
    host.tracker.claim('u1', Demand(2, 512, 1))
    host.publish()
    host.publish()
    assert rows.written == [2]
    host.release('u1')
    assert rows.written == [2, 0]


def test_failed_report_is_repeated():
    rows = Rows(failures=1)
    host = fake(rows)
    host.tracker.claim('u1', Demand(2, 512, 1))
    host.publish()
    assert rows.written == []
    host.publish()
    assert rows.written == [2]
