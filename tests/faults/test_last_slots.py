# SPDX-License-Identifier: Apache-2.0
"""Requests that race for the last room, and for the hosts of one server group."""

from __future__ import annotations

import pytest

from tests import factories
from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host, new_uuids

ALL = ('I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8')
REQUESTS = 24
SLOTS = 5
LATENCY_S = 60
APART = ['ServerGroupAntiAffinityFilter']
CLAIMS = '^/allocations'


def failures(calls):
    return [call.failure.name for call in calls if call.failure]


@pytest.mark.scenario('F1', 'I1', 'I2', 'I3', 'I4')
def test_the_last_slots_are_given_away_once_each(cloud, url, daemons, callers, audit):
    hosts = [Host('h1', vcpus=3), Host('h2', vcpus=SLOTS - 3)]
    made = cloud(hosts, DEFAULT={'transport_url': url})
    # Placement itself counts wrongly when claims for one provider race.
    serial = proxy.one_at_a_time()
    for method in ('PUT', 'POST'):
        made.proxy.on(method, CLAIMS, serial, times=999)
    audit.bounds = Bounds(latency_s=LATENCY_S)
    daemons(made).start(workers=2)
    clients = callers(made)
    calls = [clients.boot() for _ in range(REQUESTS)]
    clients.wait()
    audit.check(*ALL)
    assert failures(calls) == ['NoValidHost'] * (REQUESTS - SLOTS)
    assert len(made.held()) == SLOTS


@pytest.mark.scenario('F1', 'I1', 'I2', 'I4')
def test_a_claim_that_fills_a_host_beyond_its_capacity_is_undone(cloud):
    """Placement lets another claim through that has raced with it."""
    made = cloud([Host('h1', vcpus=1), Host('h2', memory_mb=4096)])
    uuid, other = new_uuids(2)

    def race(exchange):
        answer = exchange.forward()
        made.resize('h1', 'VCPU', 2)
        made.hold(other, h1={'VCPU': 1})
        made.resize('h1', 'VCPU', 1)
        exchange.answer(answer)

    made.proxy.on('PUT', CLAIMS, race)
    assert made.ask(made.compose(), [uuid], memory_mb=512) == [['h2']]
    assert made.held() == {uuid: {'h2'}, other: {'h1'}}


@pytest.mark.scenario('F2', 'I5')
def test_members_at_once_are_kept_apart_by_one_process(cloud, callers, audit):
    hosts = [Host(f'h{number}') for number in range(8)]
    made = cloud(
        hosts,
        filter_scheduler={'enabled_filters': APART},
        novasched={'assume_picks': True},
    )
    made.serve()
    clients = callers(made)
    uuids = new_uuids(len(hosts))
    audit.group('anti-affinity', uuids)
    calls = [
        clients.boot(
            uuids=[uuid], room=True, instance_group=factories.group(members=[uuid])
        )
        for uuid in uuids
    ]
    clients.wait()
    audit.check(*ALL)
    assert failures(calls) == []
