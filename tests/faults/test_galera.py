# SPDX-License-Identifier: Apache-2.0
"""Placement on three Galera nodes, one of which is killed while claims are made."""

from __future__ import annotations

import itertools

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host
from tests.live.servers.galera import Galera
from tests.live.servers.placement import Placement

ALL = ('I1', 'I2', 'I3', 'I4', 'I7', 'I8')
CLAIM = '^/allocations/'
REQUESTS = 12
KILLED_AT = 4
LATENCY_S = 60
# As operators have it who know of Galera; the pool is emptied by the lost connections.
OPTIONS = 'max_retries = -1\n[placement]\nallocation_conflict_retry_count = 1'


@pytest.fixture(scope='module')
def galera():
    cluster = Galera()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope='module')
def placement(tmp_path_factory, galera):
    """Placement by way of the relay, in the place of the one on SQLite."""
    directory = tmp_path_factory.mktemp('on-galera')
    server = Placement(directory, galera.create_database('placement'), OPTIONS)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.mark.scenario('F34', 'I1', 'I4')
def test_a_node_that_is_killed_amid_claims_costs_no_claim_that_was_answered(
    cloud, galera, callers, audit, record_property
):
    made = cloud([Host('h1', memory_mb=9000, vcpus=6), Host('h2', vcpus=8)])
    made.serve()
    count = itertools.count(1)

    def killing(exchange):
        """Kill the node when placement has been asked, and before it answers."""
        if next(count) == KILLED_AT:
            galera.kill(0, successor=1)
        proxy.passed(exchange)

    made.proxy.on('PUT', CLAIM, killing, times=999)
    audit.bounds = Bounds(latency_s=LATENCY_S)
    clients = callers(made)
    before = [clients.boot() for _ in range(REQUESTS // 2)]
    clients.wait()
    after = [clients.boot() for _ in range(REQUESTS // 2)]
    clients.wait()
    audit.check(*ALL)
    assert galera.nodes[1].status('wsrep_cluster_size') == '2'
    assert all(call.nodes for call in after)
    record_property('requests that failed', sum(not call.nodes for call in before))
