# SPDX-License-Identifier: Apache-2.0
"""The life of the daemon: its services row, and a stop that loses nothing."""

import datetime
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import requests

from tests.faults import proxy
from tests.live import wire as wire_
from tests.live.daemon import OURS, QUEUE
from tests.live.servers.process import free_port
from tests.live.wire import Wire
from tests.support.tables.combinations import BACKENDS

STOP_S = 60
REPORT = '    Scheduler    '
OPTION, UNDER_WAY = '\n  enabled_filters = ', '\nrequests under way = '


def _row(cloud, host):
    found = cloud.rows('cell0', 'services', host=host, binary='nova-scheduler')
    assert len(found) <= 1
    return found[0] if found else None


def test_the_services_row_is_made_and_beats(daemon, cloud, eventually):
    daemon(DEFAULT={'host': 'beating', 'report_interval': 1})
    row = eventually(lambda: _row(cloud, 'beating'), 'the services row')
    assert row['version'] == 74
    assert row['topic'] == 'scheduler'
    assert (bool(row['disabled']), bool(row['forced_down'])) == (False, False)
    assert row['deleted'] == 0
    assert row['uuid']

    def beaten():
        now = _row(cloud, 'beating')
        return now if now['report_count'] >= row['report_count'] + 2 else None

    later = eventually(beaten, 'two heartbeats')
    assert later['id'] == row['id']
    age = cloud.now() - later['last_seen_up']
    assert age < datetime.timedelta(seconds=10)
    assert later['updated_at'] is not None


def test_an_idle_daemon_stops_at_once_and_the_next_takes_its_row_over(daemon, cloud):
    first = daemon(DEFAULT={'host': 'again'})
    row = _row(cloud, 'again')
    started = time.monotonic()
    first.process.send(signal.SIGTERM)
    assert first.process.wait(STOP_S) == 0
    assert time.monotonic() - started < STOP_S / 3
    cloud.update('cell0', 'services', {'version': 70}, host='again')
    daemon(DEFAULT={'host': 'again'})
    now = _row(cloud, 'again')
    assert (now['id'], now['uuid'], now['version']) == (row['id'], row['uuid'], 74)


def hold_claims(gate):
    """Hold claims back until the gate is released; return the event that one came."""
    arrived = threading.Event()

    def hold(exchange):
        arrived.set()
        proxy.stuck(exchange)

    for method in ('PUT', 'POST'):
        gate.on(method, '^/allocations', hold, times=99)
    return arrived


@pytest.mark.scenario('F5', 'I3', 'I4', 'I7')
def test_a_request_in_progress_is_answered_after_sigterm(
    daemon, rabbitmq, gate, placement, cloud, claims, eventually
):
    """And the daemon is ready until then, if it has a word for that."""
    port = free_port()
    stopping = daemon(
        placement={'endpoint_override': gate.url},
        healthcheck={'uri': f'tcp://127.0.0.1:{port}'},
        scheduler={'workers': 2},
    )

    def ready():
        answer = requests.get(f'http://127.0.0.1:{port}/ready', timeout=STOP_S)
        return answer.status_code, answer.json().get('reason')

    if OURS:
        eventually(lambda: ready() == (200, ''), 'readiness')
    arrived = hold_claims(gate)
    uuids, answer = stopping.client.submit()
    assert arrived.wait(STOP_S)
    said = stopping.log
    stopping.process.send(signal.SIGTERM)
    eventually(
        lambda: stopping.log != said or rabbitmq.queue(stopping.url, QUEUE) == (0, 0),
        'a sign that the signal has arrived',
    )
    if OURS:
        eventually(lambda: ready() == (503, 'stopping'), 'a word about the stop')
    started = time.monotonic()
    gate.release()
    ((best, *_),) = answer.result(STOP_S)
    claims.expect(*uuids)
    assert best['service_host'] == 'node-1'
    assert stopping.process.wait(STOP_S) == 0
    assert time.monotonic() - started < STOP_S
    assert list(placement.allocations(uuids[0])) == [cloud.hosts['node-1'].uuid]


@pytest.mark.ours
@pytest.mark.parametrize('backend', BACKENDS)
def test_sigusr2_reports_and_ends_nothing(
    daemon, cloud, rabbitmq, claims, eventually, backend
):
    asked = daemon(DEFAULT={'concurrency_backend': backend}, scheduler={'workers': 2})
    eventually(lambda: rabbitmq.queue(asked.url, QUEUE)[1] == 2, 'both workers')
    main = asked.process.pid
    tasks = Path(f'/proc/{main}/task').iterdir()
    workers = ''.join((task / 'children').read_text() for task in tasks).split()
    for count, pid in enumerate((main, *workers), 1):
        os.kill(int(pid), signal.SIGUSR2)
        eventually(lambda n=count: asked.log.count(REPORT) >= n, 'a report')
    everybody = 1 + len(workers)

    def is_whole():
        lines = {OPTION: everybody, UNDER_WAY: len(workers)}
        return all(asked.log.count(line) >= count for line, count in lines.items())

    eventually(is_whole, 'all lines of the last report')
    said = asked.log
    assert said.count('novasched = ') == everybody
    assert said.count(OPTION) == everybody
    for uuid in map(cloud.cell_uuid, ('cell1', 'cell2')):
        assert said.count(uuid) == len(workers)
    assert said.count('\nhosts = ') == said.count(UNDER_WAY) == len(workers)
    for secret in ('placement-secret', 'broker-secret', cloud.urls['cell0']):
        assert secret not in said
    uuids, answer = asked.client.submit()
    claims.expect(*uuids)
    assert answer.result(STOP_S)


def test_a_long_request_keeps_its_caller_informed(
    daemon, rabbitmq, gate, claims, new_uuid
):
    slow = daemon(placement={'endpoint_override': gate.url})
    arrived = hold_claims(gate)
    consumer = new_uuid()
    wire = Wire(rabbitmq, slow.url)
    try:
        call = wire.send(wire_.message(args=wire_.boot_args([consumer])), timeout_s=2)
        assert arrived.wait(STOP_S)
        first = wire.next_answer(call)
        gate.release()
        final = wire.answers(call)[-1]
    finally:
        wire.close()
    claims.expect(consumer)
    assert (first['ending'], first['result'], first['failure']) == (False, None, None)
    assert final['failure'] is None
    assert final['result']
