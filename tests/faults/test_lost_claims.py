# SPDX-License-Identifier: Apache-2.0
"""A claim that got no answer, and stands once placement answers again, is adopted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched import errors
from novasched.db import tables
from novasched.objects.context import RequestContext
from tests.faults import proxy
from tests.faults.callers import until
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds.fakes import FakeCaller
from tests.support.tables.cases import cases

HOSTS = [Host('h1', memory_mb=9000), Host('h2', memory_mb=8000)]
PATIENT = {'outage_patience': 60, 'host_state_max_age': 0}
CLAIMS, PROBE = '^/allocations', 'uuid=00000000'
AWAY = proxy.answers(503, b'<html>', 'text/html')
DONE = proxy.answers(503, b'<html>', 'text/html', after=True)
ON_HOST = {'VCPU': 1, 'MEMORY_MB': 512}
ENDS_S = 60


class Delivery:
    """One delivery of a request. After ``passed`` of its claims the next ones meet
    ``claim``, and none is read from then on; it waits until it ``goes_on``. Claims of
    others are passed on."""

    def __init__(self, made, uuids, claim=DONE, passed=0, **values):
        self._claim, self._passed = claim, passed
        self._is_back, self._claims_end = threading.Event(), threading.Event()
        for method in ('GET', 'PUT', 'POST'):
            made.proxy.on(method, CLAIMS, self._spoil, times=9999)
        made.proxy.on('GET', PROBE, self._probe, times=9999)
        self._scheduler = made.compose()
        pool = ThreadPoolExecutor(1)
        made.stack.callback(pool.shutdown)
        self._answer = pool.submit(select, made, self._scheduler, uuids, **values)
        until(self._scheduler.outages.now, 'it to wait')
        self._claims_end.set()

    def _spoil(self, exchange):
        is_claim = exchange.asked.method != 'GET'
        self._passed -= is_claim
        if self._claims_end.is_set() or self._passed >= 0:
            return proxy.passed(exchange)
        return (self._claim if is_claim else AWAY)(exchange)

    def _probe(self, exchange):
        (proxy.passed if self._is_back.is_set() else AWAY)(exchange)

    def goes_on(self):
        self._is_back.set()
        return self._answer.result(ENDS_S)


def select(made, scheduler, uuids, **values):
    found = scheduler.manager.select_destinations(
        RequestContext(overwrite=False),
        made.request(**values),
        uuids,
        True,
        False,
        FakeCaller(left_s=60, answer_left_s=600),
    )
    return [[selection.service_host for selection in each] for each in found]


def disable(made, host):
    table = tables.services
    with made.databases['cell1'].cell.begin() as connection:
        connection.execute(
            table.update().where(table.c.host == host).values(disabled=True)
        )


@pytest.mark.scenario('F10', 'I3', 'I4')
@pytest.mark.scenario('F16', 'I4')
@cases(
    'is_fit',
    ('its host is fit still', True),
    ('its host was disabled meanwhile', False),
)
def test_a_delivery_that_waits_leaves_what_another_one_was_answered(cloud, is_fit):
    made = cloud(HOSTS, novasched=PATIENT)
    uuids = new_uuids()
    first = Delivery(made, uuids, claim=proxy.drop)
    assert made.held() == {}
    assert select(made, made.compose(), uuids) == [['h1']]
    if is_fit:
        assert first.goes_on() == [['h1']]
    else:
        disable(made, 'h1')
        with pytest.raises(errors.NoValidHost):
            first.goes_on()
    assert made.held() == {uuids[0]: {'h1'}}


@pytest.mark.scenario('F10', 'I3', 'I4')
@cases(
    'disabled',
    ('its host is fit still', None),
    ('its host was disabled meanwhile', 'h3'),
)
def test_a_moved_server_delivered_twice_holds_one_host(cloud, disabled):
    """Though its request names a host to leave out, and so adds to what it holds."""
    hosts = [Host('h3', memory_mb=7000), Host('h4', memory_mb=6000)]
    made = cloud([*HOSTS, *hosts], novasched=PATIENT)
    uuids = new_uuids()
    first = Delivery(made, uuids, claim=proxy.drop, ignore_hosts=['h1'])
    disable(made, 'h2')
    assert select(made, made.compose(), uuids, ignore_hosts=['h1']) == [['h3']]
    if disabled:
        disable(made, disabled)
    with pytest.raises(errors.AlreadyClaimed):
        first.goes_on()
    assert made.held() == {uuids[0]: {'h3'}}


@pytest.mark.scenario('F16', 'I2', 'I4', 'I6')
@cases(
    'count, method, memory_mb',
    ('one server', 1, 'PUT', 9000),
    ('one that fills its host', 1, 'PUT', 512),
    ('several', 3, 'POST', 9000),
)
def test_an_own_claim_that_stands_is_answered(cloud, count, method, memory_mb):
    made = cloud([Host('h1', memory_mb=memory_mb)], novasched=PATIENT)
    uuids = new_uuids(count)
    waiting = Delivery(made, uuids)
    assert made.held() == {uuid: {'h1'} for uuid in uuids}
    asked = len(made.proxy.asked(method, CLAIMS))
    assert waiting.goes_on() == [['h1']] * count
    assert made.held() == {uuid: {'h1'} for uuid in uuids}
    assert len(made.proxy.asked(method, CLAIMS)) == asked


@pytest.mark.scenario('F16', 'I4', 'I6')
def test_each_of_several_servers_is_answered_with_its_own_host(cloud):
    """Though the order of the hosts is another one meanwhile."""
    made = cloud([Host(f'h{n}', vcpus=1) for n in (1, 2, 3)], novasched=PATIENT)
    uuids = new_uuids(3)
    waiting = Delivery(made, uuids, vcpus=1)
    held = made.held()
    assert sorted(map(str, held.values())) == ["{'h1'}", "{'h2'}", "{'h3'}"]
    assert waiting.goes_on() == [[*held[uuid]] for uuid in uuids]
    assert made.held() == held


@pytest.mark.scenario('F16', 'I4')
def test_claim_that_never_arrived_is_made_again(cloud):
    made = cloud(HOSTS, novasched=PATIENT)
    uuids = new_uuids()
    waiting = Delivery(made, uuids, claim=proxy.drop)
    disable(made, 'h1')
    assert waiting.goes_on() == [['h2']]
    assert made.held() == {uuids[0]: {'h2'}}


@pytest.mark.scenario('F16', 'I4')
@cases(
    'claim, passed, disabled, expected',
    ('the claim stands', DONE, 1, None, 'h2'),
    ('it stands, and its host is fit no more', DONE, 1, 'h2', None),
    ('it never arrived', proxy.drop, 1, None, 'h2'),
    ('it was refused, as the server holds its source', DONE, 0, None, 'h2'),
)
def test_an_evacuated_server_keeps_its_source(cloud, claim, passed, disabled, expected):
    made = cloud([*HOSTS, Host('h3', memory_mb=4000)], novasched=PATIENT)
    uuids = new_uuids()
    made.hold(uuids[0], h1=ON_HOST)
    made.held_long_ago()
    waiting = Delivery(made, uuids, claim, passed, ignore_hosts=['h1'])
    if disabled:
        disable(made, disabled)
    if expected:
        assert waiting.goes_on() == [[expected]]
    else:
        with pytest.raises(errors.NoValidHost):
            waiting.goes_on()
    assert made.held() == {uuids[0]: {'h1', 'h2'}}
