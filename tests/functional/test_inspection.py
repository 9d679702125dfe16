# SPDX-License-Identifier: Apache-2.0
"""Questions about decisions over the wire, with messages in memory."""

from __future__ import annotations

import logging
import math
import threading
import time

import oslo_messaging
import pytest

from novasched import errors
from novasched.decision_log.primitives import unpacked
from novasched.decision_log.reading import Criteria
from novasched.inspection.merged import MergedDecisions
from novasched.inspection.schedulers import OtherSchedulers
from novasched.rpc.inspection import AT_ONCE, InspectionEndpoint
from novasched.rpc.inspection_client import NO_LOG, InspectionClient
from novasched.rpc.server import BaseEndpoint, Dispatcher, StoppableServer
from tests.functional.conftest import Host, new_uuids
from tests.functional.test_messaging import raised_by, until

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
    return InspectionClient(made.transport)


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

    def hosts_of(self, ids):
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
    def test_heads_have_the_hosts_that_were_picked(self, made, client, recorded):
        found = answer(client, 'find', criteria={'server': made.server})
        ((head, hosts),) = found
        assert (head['result'], hosts) == ('scheduled', ['h1'])

    def test_the_newest_come_first_up_to_the_limit(self, client, recorded):
        assert [head['result'] for head in recorded] == ['unschedulable', 'scheduled']
        ((head, _),) = answer(client, 'find', limit=1)
        assert head == recorded[0]
        ((head, _),) = answer(client, 'find', before=head['id'])
        assert head == recorded[1]

    def test_before_may_be_a_decision_of_another_machine(self, client, recorded):
        newest = recorded[0]['id']
        other = newest[:-1] + ('0' if newest[-1] != '0' else '1')
        ids = {head['id'] for head, _ in answer(client, 'find', before=other)}
        assert ids == {head['id'] for head in recorded if head['id'] < other}

    def test_a_record_arrives_whole(self, made, client, recorded):
        found = answer(client, 'read', id=recorded[1]['id'])
        record = unpacked(found['record'])
        assert record.body['servers'][0]['uuid'] == made.server
        (whole,) = record.body['decisions']
        assert sorted(record.host_lists[whole['host_list']]) == ['h1', 'h2']
        assert len(whole['outcomes']) == 2
        assert record.body['profile'] in record.profiles

    def test_no_record_is_none(self, client, recorded):
        absent = {'ids': [], 'record': None}
        assert answer(client, 'read', id='d-0000000000000') == absent

    def test_the_beginning_of_several_ids_names_them(self, client, recorded):
        ids = {head['id'] for head in recorded}
        (common,) = {each[:6] for each in ids}
        found = answer(client, 'read', id=common)
        assert (set(found['ids']), found['record']) == (ids, None)

    def test_counts_have_values_and_reasons(self, client, recorded):
        found = answer(client, 'count', by='result', criteria={})
        assert {value: sum(n.values()) for value, n in found.items()} == {
            'scheduled': 1,
            'unschedulable': 1,
        }

    def test_the_overview_has_the_newest_with_their_servers(
        self, made, client, recorded
    ):
        found = answer(client, 'overview', window_s=600)
        assert found['results'] == {'scheduled': 1, 'unschedulable': 1}
        assert [row['server'] for row in found['newest']][1] == made.server
        assert found['newest'][1]['picked'] == ['h1']
        assert found['view']['left_out'] == []


class TestRefusals:
    @pytest.mark.parametrize(
        ('method', 'arguments'),
        [
            pytest.param('find', {'criteria': {'colour': 'red'}}, id='criterion'),
            pytest.param('find', {'criteria': {'since': 'now'}}, id='type of it'),
            pytest.param('find', {'criteria': ['server']}, id='form of criteria'),
            pytest.param('find', {'limit': 0}, id='limit'),
            pytest.param('find', {'before': 7}, id='before'),
            pytest.param('find', {'before': 'd-' + 20 * 'z'}, id='too long an id'),
            pytest.param('find', {'before': 'd-06f3*'}, id='no id'),
            pytest.param('read', {'id': 'web'}, id='a name'),
            pytest.param('find', {'criteria': {'since': 10**30}}, id='too late'),
            pytest.param('find', {'criteria': {'until': -1}}, id='too early'),
            pytest.param('find', {'criteria': {'since': True}}, id='no time'),
            pytest.param('read', {}, id='no id'),
            pytest.param('count', {'by': 'colour'}, id='grouping'),
            pytest.param('overview', {'window_s': 'all'}, id='window'),
            pytest.param('overview', {'window_s': math.inf}, id='endless'),
            pytest.param('overview', {'window_s': 3601}, id='more than an hour'),
            pytest.param('find', {'limit': math.nan}, id='no number'),
            pytest.param('find', {'color': 1}, id='argument'),
        ],
    )
    def test_what_makes_no_sense_is_one_line_and_typed(
        self, made, client, caplog, method, arguments
    ):
        with caplog.at_level(logging.INFO, 'novasched.rpc.server'):
            (reply,) = client.ask([HOST], method, **arguments)
        assert reply.problem.startswith('answers ')
        assert 'The request is invalid' in reply.problem
        lines = [r for r in caplog.records if r.name == 'novasched.rpc.server']
        assert [line.exc_info for line in lines] == [None]

    def test_two_are_answered_at_once_and_the_next_is_told_so(self, made, slow):
        client = InspectionClient(made.transport, 20)
        asked = [
            threading.Thread(target=lambda: answer(client, 'find', 'slow'))
            for _ in range(AT_ONCE)
        ]
        for thread in asked:
            thread.start()
            assert slow.asked.acquire(timeout=20)
        (reply,) = InspectionClient(made.transport, 0.5).ask(['slow'], 'find')
        assert reply.problem.startswith('answers Busy: 2 questions')
        slow.let_go.set()
        for thread in asked:
            thread.join()
        assert answer(client, 'find', 'slow') == []

    def test_who_has_another_interface_is_recognised(self, made):
        target = oslo_messaging.Target(topic='scheduler', server='other')
        server = StoppableServer(made.transport, target, Dispatcher([BaseEndpoint()]))
        server.start()
        try:
            (reply,) = InspectionClient(made.transport).ask(['other'], 'find')
        finally:
            server.stop()
            server.wait()
        assert (reply.problem, reply.has_no_log) == (NO_LOG, True)

    def test_who_hangs_delays_nobody(self, made, client, recorded, slow):
        started = time.monotonic()
        replies = {each.host: each for each in client.ask([HOST, 'slow'], 'find')}
        assert time.monotonic() - started < 2.5
        assert len(replies[HOST].answer) == 2
        assert replies['slow'].problem == 'did not answer within 2 s'

    def test_novas_interface_is_as_it_was(self, made):
        target = oslo_messaging.Target(topic='scheduler', version='4.5')
        nova = oslo_messaging.get_rpc_client(made.transport, target, timeout=5)
        kind = raised_by(lambda: nova.call({}, 'find'))
        assert kind[:2] == ('oslo_messaging.rpc.dispatcher', 'NoSuchMethod')


class TestMerged:
    @pytest.fixture
    def merged(self, client):
        return MergedDecisions(None, OtherSchedulers(lambda: [HOST], lambda: client))

    def test_it_answers_as_a_log_does(self, made, merged, recorded):
        heads = merged.find(Criteria())
        assert [head.id for head in heads] == [each['id'] for each in recorded]
        assert merged.of_server(made.server) == heads[1:]
        assert merged.hosts_of([head.id for head in heads]) == {heads[1].id: ['h1']}
        assert merged.read(heads[1].id).head == heads[1]
        assert merged.oldest_at() == heads[1].at
        (count,) = merged.count('result', Criteria(result='scheduled'))
        assert (count.value, count.count, count.share) == ('scheduled', 1, 1.0)
        with pytest.raises(errors.AmbiguousDecision):
            merged.read(heads[0].id[:6])

    def test_what_is_new_is_followed(self, made, merged, recorded):
        mark = merged.end()
        assert merged.newer(Criteria(), mark)[0] == []
        (another,) = new_uuids()
        made.call([another])
        found = []

        def look():
            nonlocal mark
            heads, mark = merged.newer(Criteria(), mark)
            found.extend(heads)
            return heads

        until(look)
        assert [merged.hosts_of([head.id]) for head in found]
        assert found == merged.of_server(another)
