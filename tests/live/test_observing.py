# SPDX-License-Identifier: Apache-2.0
"""What operators see of a daemon: the health and the metrics of all its workers."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.live.servers.process import free_port

pytestmark = pytest.mark.ours

ANSWER_S = 20
WORKERS = 2


@pytest.fixture
def shown(daemon):
    """A daemon of two workers that shows health and metrics at one port."""
    port = free_port()
    uri = f'tcp://127.0.0.1:{port}'
    made = daemon(
        DEFAULT={'report_interval': 1},
        healthcheck={'uri': uri},
        novasched={'metrics_uri': uri},
        scheduler={'workers': WORKERS},
    )
    made.endpoint = f'http://127.0.0.1:{port}'
    return made


def _get(shown, path):
    try:
        with urllib.request.urlopen(shown.endpoint + path, timeout=ANSWER_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ''


def _health(shown):
    code, body = _get(shown, '/health')
    return code, json.loads(body or '{}')


def _statuses(shown):
    code, body = _health(shown)
    checks = body.get('checks', {})
    return code, {name: check['status'] for name, check in checks.items()}


def _values(shown, name):
    """The values of a metric, by the text of its labels."""
    lines = _get(shown, '/metrics')[1].splitlines()
    samples = [line.rpartition(' ') for line in lines if line.startswith(name)]
    return {sample.removeprefix(name): float(value) for sample, _, value in samples}


def _whole(shown):
    """The health, when all is well and all components have been heard of."""
    _, body = _health(shown)
    expected = {'message_bus', 'placement', 'api_db', 'heartbeat', 'workers'}
    well = body.get('status') == 'pass' and expected <= body['checks'].keys()
    return body if well else None


def _children(pid):
    tasks = Path(f'/proc/{pid}/task').iterdir()
    return [int(p) for t in tasks for p in (t / 'children').read_text().split()]


def test_health_and_metrics_of_all_workers_are_at_one_address(
    shown, cloud, claims, eventually
):
    body = eventually(lambda: _whole(shown), 'news of every component')
    assert body['serviceId']
    assert {name for name in body['checks'] if name.startswith('cell_db:')}
    for _ in range(4):
        uuids, answer = shown.client.submit()
        claims.expect(*uuids)
        assert answer.result(ANSWER_S)
    scheduled = '{result="scheduled"}'
    attempts = _values(shown, 'scheduler_schedule_attempts_total')
    assert attempts == {scheduled: 4.0}
    assert _values(shown, 'scheduler_claims_total') == {'{result="claimed"}': 4.0}
    assert _values(shown, 'scheduler_requests_in_flight') == {'': 0.0}
    assert _values(shown, 'scheduler_queue_wait_seconds_count')[''] >= 4
    ages = _values(shown, 'scheduler_cell_state_age_seconds')
    assert ages
    assert all(0 <= age < 70 for age in ages.values())
    text = _get(shown, '/metrics')[1]
    for name in (*cloud.hosts, *claims.expected):
        assert name not in text


def test_a_worker_that_hangs_fails_and_one_that_dies_is_replaced(shown, eventually):
    eventually(lambda: _whole(shown), 'news of every component')
    hung = _a_worker(shown)
    os.kill(hung, signal.SIGSTOP)
    try:
        code, body = _health(shown)
        assert (code, body['status']) == (503, 'fail')
        assert f'worker {hung} does not answer' in body['checks']['workers']['output']
    finally:
        os.kill(hung, signal.SIGCONT)
    eventually(lambda: _statuses(shown)[0] == 200, 'the worker to answer again')
    os.kill(hung, signal.SIGKILL)
    eventually(lambda: _is_replaced(shown, hung), 'a new worker')


def _a_worker(shown):
    """The first child: the one that shows is the last to be started."""
    children = sorted(_children(shown.process.pid))
    assert len(children) == WORKERS + 1
    return children[0]


def _is_replaced(shown, pid):
    code, statuses = _statuses(shown)
    gone = pid not in _children(shown.process.pid)
    return gone and code == 200 and statuses['workers'] == 'pass'
