# SPDX-License-Identifier: Apache-2.0
"""Requests that race for the last room, and for the NUMA cells of hosts."""

from __future__ import annotations

import pytest

from novasched import errors
from tests.faults.audit import Bounds
from tests.faults.callers import until
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.clouds.factories import pinned
from tests.support.tables.examples import scaled

ALL = ('I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8')
REQUESTS = scaled(24, fewest=12)
SLOTS = 5
LATENCY_S = 60
CLAIMS = '^/allocations'


def failures(calls):
    return [call.failure.name for call in calls if call.failure]


@pytest.mark.scenario('F1', 'I1', 'I2', 'I3', 'I4')
def test_the_last_slots_are_given_away_once_each(cloud, url, daemons, callers, audit):
    hosts = [Host('h1', vcpus=3), Host('h2', vcpus=SLOTS - 3)]
    made = cloud(hosts, DEFAULT={'transport_url': url})
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


def cells(number):
    """Hosts with one NUMA cell each."""
    topology = factories.numa_topology(factories.numa_cell(0, range(4)))
    return [Host(f'h{n}', numa_topology=topology) for n in range(number)]


@pytest.mark.scenario('F2')
def test_numa_cells_are_given_away_once_each_by_several_processes(
    cloud, url, daemons, callers, audit
):
    hosts = cells(8)
    made = cloud(hosts, DEFAULT={'transport_url': url})
    daemons(made, filter_scheduler={'enabled_filters': 'NUMATopologyFilter'}).start(2)
    clients = callers(made)
    calls = [clients.boot(**pinned()) for _ in range(8)]
    clients.wait()
    audit.check(*ALL)
    assert failures(calls) == []
    nodes = [node for call in calls for node in call.nodes.values()]
    assert sorted(nodes) == sorted(host.uuid for host in hosts)


@pytest.fixture
def schedulers(cloud, url):
    """Two NUMA cells, two schedulers of them, and the picks that each knows."""
    made = cloud(
        cells(2),
        DEFAULT={'transport_url': url},
        filter_scheduler={'enabled_filters': ['NUMATopologyFilter']},
    )
    both = [made.serve() for _ in range(2)]
    known = [each.manager.driver.context.assumed for each in both]
    return made, both, known


@pytest.mark.scenario('F2')
def test_a_scheduler_sees_what_another_one_picks_and_undoes(schedulers):
    made, (one, two), known = schedulers
    (uuid,) = new_uuids()
    (first,) = made.ask(one, [uuid], **pinned())
    until(lambda: len(known[1]) == 1, 'the pick')
    (second,) = made.ask(two, new_uuids(), **pinned())
    assert {*first, *second} == {'h0', 'h1'}
    until(lambda: len(known[0]) == 2, 'the pick of the other')
    with pytest.raises(errors.NoValidHost):
        made.ask(one, new_uuids(), **pinned())
    known[0].remove_instances([uuid])
    until(lambda: len(known[1]) == 1, 'the undo')
    assert made.ask(two, new_uuids(), **pinned()) == [first]


@pytest.mark.scenario('F10')
def test_redelivered_request_elsewhere_keeps_first_pick(schedulers):
    made, (one, two), known = schedulers
    uuids = new_uuids()
    (first,) = made.ask(one, uuids, **pinned())
    until(lambda: len(known[1]) == 1, 'the pick')
    with pytest.raises(errors.AlreadyClaimed):
        made.ask(two, uuids, **pinned())
    (second,) = made.ask(two, new_uuids(), **pinned())
    until(lambda: len(known[0]) == 2, 'the pick of the other')
    assert {*first, *second} == {'h0', 'h1'}
    with pytest.raises(errors.NoValidHost):
        made.ask(one, new_uuids(), **pinned())


def picked(assumed):
    return [one.pick.host for one in assumed._all(lambda one: True)]


@pytest.mark.scenario('F2')
def test_request_that_is_granted_elsewhere_ends_the_former_pick(schedulers):
    made, (one, two), known = schedulers
    uuids = new_uuids()
    (first,) = made.ask(one, uuids, **pinned())
    until(lambda: len(known[1]) == 1, 'the pick')
    made.adapter.delete(f'/allocations/{uuids[0]}')
    (second,) = made.ask(two, uuids, ignore_hosts=first, **pinned())
    assert {*first, *second} == {'h0', 'h1'}

    until(lambda: picked(known[0]) == second, 'the end of the former pick')
    assert made.ask(one, new_uuids(), **pinned()) == [first]
