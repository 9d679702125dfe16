# SPDX-License-Identifier: Apache-2.0
"""Questions about decisions over the wire, with messages in memory."""

import logging
import math
import threading
import time

import oslo_messaging
import pytest

from novasched import errors
from novasched.decisions.primitives import unpacked
from novasched.rpc import inspection_client
from novasched.rpc.inspection import AT_ONCE, InspectionEndpoint
from novasched.rpc.inspection_client import NO_LOG, InspectionClient
from novasched.rpc.server import BaseEndpoint, Dispatcher, StoppableServer
from tests.functional.conftest import Host, new_uuids
from tests.functional.test_messaging import raised_by, until
from tests.unit.inspection.machines import log_of

HOST = 'ctl1'


@pytest.fixture
def made(cloud):
    """A cloud with a scheduler that has placed one server and refused another."""
    made = cloud([Host('h1', memory_mb=9000), Host('h2')], DEFAULT={'host': HOST})
    made.scheduler = made.serve()
    made.server, made.refused = new_uuids(2)
    made.call([made.server])
    with pytest.raises(Exception, match='No valid host'):
        made.call([made.refused], vcpus=99)
    return made


@pytest.fixture
def client(made):
    return InspectionClient(made.transport, 20)


def answer(client, method, host=HOST, **arguments):
    (reply,) = client.ask([host], method, **arguments)
    assert reply.problem == ''
    return reply.answer


@pytest.fixture
def recorded(client):
    """Wait until the records of both requests are there; give their heads."""
    until(lambda: len(answer(client, 'find')) == 2)
    return [head for head, _ in answer(client, 'find')]


class Slow:
    """A log whose questions end when they are let go."""

    def __init__(self):
        self.asked = threading.Semaphore(0)
        self.let_go = threading.Event()

    def find(self, criteria, limit, before):
        self.asked.release()
        assert self.let_go.wait(20)
        return []

    def servers_of(self, ids):
        return {}


@pytest.fixture
def slow(made):
    """A scheduler called slow that has such a log."""
    log = Slow()
    target = oslo_messaging.Target(topic='scheduler', server='slow')
    endpoints = [InspectionEndpoint(log, 'slow:/log')]
    server = StoppableServer(made.transport, target, Dispatcher(endpoints))
    server.start()
    yield log
    log.let_go.set()
    server.stop()
    server.wait()


class TestAnswers:
    def test_heads_have_their_servers_and_hosts(self, made, client, recorded):
        found = answer(client, 'find', criteria={'server': made.server})
        ((head, hosts),) = found
        assert (head['result'], hosts) == ('scheduled', ['h1'])
        assert head['server_uuids'] == [made.server]

    def test_criteria_of_a_shadow_travel(self, client, recorded):
        assert answer(client, 'find', criteria={'differs': True}) == []

    def test_a_record_arrives_whole(self, made, client, recorded):
        found = answer(client, 'read', id=recorded[1]['id'])
        record = unpacked(found['record'])
        assert record.body.servers[0].uuid == made.server
        (whole,) = record.body.decisions
        assert sorted(record.host_lists[whole.host_list]) == ['h1', 'h2']
        assert len(whole.outcomes) == 2
        assert record.body.profile in record.profiles


class TestRefusals:
    @pytest.mark.parametrize(
        ('method', 'arguments'),
        [
            ('find', {'criteria': {'colour': 'red'}}),
            ('find', {'criteria': {'since': 'now'}}),
            ('find', {'criteria': {'differs': 'yes'}}),
            ('find', {'criteria': ['server']}),
            ('find', {'limit': 0}),
            ('find', {'before': 7}),
            ('find', {'before': 'd-' + 20 * 'z'}),
            ('find', {'before': 'd-06f3*'}),
            ('read', {'id': 'web'}),
            ('find', {'criteria': {'since': 10**30}}),
            ('find', {'criteria': {'until': -1}}),
            ('find', {'criteria': {'since': True}}),
            ('read', {}),
            ('count', {'by': 'colour'}),
            ('overview', {'window_s': 'all'}),
            ('overview', {'window_s': math.inf}),
            ('overview', {'window_s': 3601}),
            ('find', {'limit': math.nan}),
            ('find', {'color': 1}),
        ],
    )
    def test_invalid_argument_is_a_typed_error(self, method, arguments):
        endpoint = InspectionEndpoint(log_of(), 'here')
        with pytest.raises(oslo_messaging.ExpectedException) as raised:
            getattr(endpoint, method)({}, **arguments)
        problem = raised.value.exc_info[1].__cause__
        assert isinstance(problem, errors.InvalidRequest)

    def test_invalid_argument_is_one_log_line(self, client, caplog):
        with caplog.at_level(logging.INFO, 'novasched.rpc.server'):
            (reply,) = client.ask([HOST], 'find', limit=0)
        assert reply.problem.startswith('answers ')
        assert 'The request is invalid' in reply.problem
        lines = [r for r in caplog.records if r.name == 'novasched.rpc.server']
        assert [line.exc_info for line in lines] == [None]

    def test_third_question_at_once_is_refused_as_busy(self, made, slow, monkeypatch):
        monkeypatch.setattr(inspection_client, 'BUSY_PAUSE_S', 60)  # no second try
        client = InspectionClient(made.transport, 20)
        asked = [
            threading.Thread(target=lambda: answer(client, 'find', 'slow'))
            for _ in range(AT_ONCE)
        ]
        for thread in asked:
            thread.start()
            assert slow.asked.acquire(timeout=20)
        (reply,) = InspectionClient(made.transport, 20).ask(['slow'], 'find')
        assert reply.problem.startswith('answers Busy: 2 questions')
        slow.let_go.set()
        for thread in asked:
            thread.join()
        assert answer(client, 'find', 'slow') == []

    def test_scheduler_without_this_interface_is_recognised(self, made):
        target = oslo_messaging.Target(topic='scheduler', server='other')
        server = StoppableServer(made.transport, target, Dispatcher([BaseEndpoint()]))
        server.start()
        try:
            (reply,) = InspectionClient(made.transport, 20).ask(['other'], 'find')
        finally:
            server.stop()
            server.wait()
        assert (reply.problem, reply.has_no_log) == (NO_LOG, True)

    def test_hung_scheduler_does_not_delay_the_answer(self, made, recorded, slow):
        started = time.monotonic()
        asked = InspectionClient(made.transport).ask([HOST, 'slow'], 'find')
        replies = {each.host: each for each in asked}
        assert time.monotonic() - started < 10
        assert len(replies[HOST].answer) == 2
        assert replies['slow'].problem == 'did not answer within 2 s'

    def test_novas_interface_is_as_it_was(self, made):
        target = oslo_messaging.Target(topic='scheduler', version='4.5')
        nova = oslo_messaging.get_rpc_client(made.transport, target, timeout=20)
        kind = raised_by(lambda: nova.call({}, 'find'))
        assert kind[:2] == ('oslo_messaging.rpc.dispatcher', 'NoSuchMethod')
