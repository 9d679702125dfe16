# SPDX-License-Identifier: Apache-2.0
"""Placement on three Galera nodes: one is killed while claims are made, all are
restarted, as is placement itself."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host
from tests.live.servers.galera import Galera
from tests.live.servers.placement import Placement
from tests.live.servers.process import running

ALL = ('I1', 'I2', 'I3', 'I4', 'I7', 'I8')
CLAIM = '^/allocations/'
REQUESTS = 12
KILLED_AT = 2
LATENCY_S = 60
ROOMY = [Host(f'h{n}', memory_mb=900_000, vcpus=999, disk_gb=99_999) for n in range(8)]
PATIENT = {'outage_patience': 30}
EVERY_S, NOTICED_S, ROUNDS = 0.5, 3, 3
# As operators have it who know of Galera; the pool is emptied by the lost connections.
OPTIONS = 'max_retries = -1\n[placement]\nallocation_conflict_retry_count = 1'


@pytest.fixture(scope='module')
def galera():
    with running(Galera()) as cluster:
        yield cluster


@pytest.fixture(scope='module')
def placement(tmp_path_factory, galera):
    """Placement by way of the relay, in the place of the one on SQLite."""
    directory = tmp_path_factory.mktemp('on-galera')
    made = Placement(directory, galera.create_database('placement'), OPTIONS)
    with running(made) as server:
        yield server


@pytest.fixture
def patient(cloud, audit):
    """A cloud whose scheduler waits for what is away; it serves."""
    audit.settle_s = LATENCY_S
    audit.bounds = Bounds(latency_s=LATENCY_S)
    made = cloud(ROOMY, novasched=PATIENT)
    made.serve()
    return made


@pytest.mark.exhaustive('one that is killed is in the first tier, the wait elsewhere')
@pytest.mark.scenario('F34', 'I1', 'I2', 'I4', 'I6')
def test_nodes_that_are_restarted_one_after_the_other_fail_no_request(
    patient, galera, callers, audit
):
    clients = callers(patient)
    with clients.keep_booting(EVERY_S):
        for number, node in enumerate(galera.nodes):
            node.process.stop()
            time.sleep(NOTICED_S)
            galera.relay.turn_to(galera.nodes[number - 1].port)
            node.start()
    clients.wait()
    audit.check(*ALL, 'I6')


@pytest.mark.exhaustive('a placement that answers 503 is in the first tier')
@pytest.mark.scenario('F14', 'I1', 'I2', 'I4', 'I6')
def test_placements_that_are_restarted_one_after_the_other_fail_no_request(
    patient, galera, placement, tmp_path, callers, audit
):
    other = Placement(tmp_path / 'other', placement.database_url, OPTIONS)
    placements = [placement, other]
    fault = proxy.balanced(*(each.url for each in placements))
    for method in ('GET', 'PUT', 'POST', 'DELETE'):
        patient.proxy.on(method, '', fault, times=99999)
    clients = callers(patient)
    other.start()
    try:
        with clients.keep_booting(EVERY_S):
            for each in placements * ROUNDS:
                each.stop()
                time.sleep(NOTICED_S)
                each.start()
                time.sleep(NOTICED_S)
        clients.wait()
        audit.check(*ALL, 'I6')
    finally:
        other.close()


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
    made.proxy.on('POST', '^/allocations$', killing, times=999)
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
