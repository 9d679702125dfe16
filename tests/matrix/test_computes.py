# SPDX-License-Identifier: Apache-2.0
"""Computes of the release come, refuse, die and come back."""

from __future__ import annotations

import signal

import pytest

from tests.live.servers.process import wait_until
from tests.matrix.release_cloud import host_of, hosts_of, joined

STEP_S = 120
LATER = 'peer-later'
"""It has 1000 vCPUs, and knows itself again."""
PICKY = 'peer-picky'
"""It is as large, and refuses every server once."""
TRIES = 10


@pytest.fixture
def later(cloud, api):
    """The name of a host that comes later; it is gone in the end."""
    with joined(cloud, api, LATER, 'fake.FakeDriverWithoutFakeNodes'):
        yield LATER


def test_a_host_is_found_dies_and_returns(cloud, api, scheduler, later):
    cloud.wait_mapped()
    (there,), (here,) = api.boot(host=later), api.boot(host='peer-1')
    assert hosts_of(api, [there, here]) == [later, 'peer-1']

    cloud[later].end_by(signal.SIGKILL)
    api.set_service(later, forced_down=True)
    api.act(there, 'evacuate', {})
    wait_until(
        lambda: cloud.instance(there)[0]['host'] != later, STEP_S, 'the evacuation'
    )
    assert host_of(api, there) in ('peer-1', 'peer-2')
    cloud.restart_compute(later)
    wait_until(lambda: later not in cloud.held(there), STEP_S, 'the release')
    wait_until(lambda: cloud.is_told_of_evacuations(later), STEP_S, 'the news')
    api.set_service(later, forced_down=False)

    cloud.stop_program(later)
    api.delete_service('nova-compute', later)
    assert later not in [row['host'] for row in cloud.rows('api', 'host_mappings')]
    # Nova 29 leaves the mark, by which no discovery of any release looks at the node.
    cloud.update('cell1', 'compute_nodes', {'mapped': 0}, host=later)
    cloud.restart_compute(later)
    cloud.wait_mapped()
    assert hosts_of(api, api.boot(host=later)) == [later]


def test_a_refused_server_goes_to_an_alternate(cloud, api, scheduler):
    with joined(cloud, api, PICKY, 'fake.FakeRescheduleDriver'):
        cloud.wait_mapped()
        for _ in range(TRIES):  # the copy of placement follows
            (uuid,) = api.boot()
            host = host_of(api, uuid)
            if uuid in cloud[PICKY].log:
                break
        assert uuid in cloud[PICKY].log
        assert host != PICKY
        assert list(cloud.held(uuid)) == [host]
