# SPDX-License-Identifier: Apache-2.0
"""What operators see of a daemon: the health and the metrics of all its workers."""

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.live.daemon import QUEUE
from tests.live.servers.process import free_port
from tests.support.servers.collectors import Collector
from tests.support.tables.combinations import BACKENDS

pytestmark = pytest.mark.ours

ANSWER_S = 60
START_S = 120
START = 'Starting scheduler node (version '
RELOAD = 'Reloaded the configuration, the cells and the plugins: '
WORKERS = 2


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector


@pytest.fixture
def shown(daemon, collector):
    """A daemon of two workers that shows health and metrics at one port, and sends
    traces."""
    port = free_port()
    uri = f'tcp://127.0.0.1:{port}'
    made = daemon(
        DEFAULT={'report_interval': 1},
        healthcheck={'uri': uri},
        novasched={'metrics_uri': uri, 'tracing_endpoint': collector.url},
        scheduler={'workers': WORKERS},
    )
    made.collector = collector
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
    attempts = _values(shown, 'novasched_schedule_attempts_total')
    assert attempts.pop('{result="scheduled"}') == 4.0
    claimed = _values(shown, 'novasched_claims_total')
    assert claimed.pop('{result="claimed"}') == 4.0
    assert set(attempts.values()) == set(claimed.values()) == {0.0}
    assert _values(shown, 'novasched_servers_placed_total') == {'': 4.0}
    assert _values(shown, 'novasched_requests_in_flight') == {'': 0.0}
    threads = WORKERS * 64
    assert _values(shown, 'novasched_request_threads') == {'': threads}
    assert _values(shown, 'novasched_messages_waiting') == {'': 0.0}
    assert _values(shown, 'novasched_queue_wait_seconds_count')[''] >= 4
    ages = _values(shown, 'novasched_cell_state_age_seconds')
    assert ages
    assert all(0 <= age < 70 for age in ages.values())
    text = _get(shown, '/metrics')[1]
    for name in (*cloud.hosts, *claims.expected):
        assert name not in text
    titles = list(map(_title, _children(shown.process.pid)))
    assert sorted(title.partition(': ')[2] for title in titles) == [
        'observer worker(0)',
        'scheduler worker(0)',
        'scheduler worker(1)',
    ]
    collected = shown.collector
    eventually(lambda: len(collected.named('select_destinations')) == 4, 'traces')
    senders = {sent['service.instance.id'] for _, sent in collected.spans}
    senders = {int(sender.partition(':')[2]) for sender in senders}
    assert senders <= {*_children(shown.process.pid)}


def _title(pid):
    return Path(f'/proc/{pid}/cmdline').read_bytes().strip(b'\0').decode()


def _a_worker(shown):
    """The first child that is one."""
    titles = {pid: _title(pid) for pid in sorted(_children(shown.process.pid))}
    assert len(titles) == WORKERS + 1
    return next(pid for pid, title in titles.items() if 'scheduler worker(' in title)


def _is_replaced(shown, pid):
    code, statuses = _statuses(shown)
    gone = pid not in _children(shown.process.pid)
    return gone and code == 200 and statuses['workers'] == 'pass'


def _ready(shown):
    code, body = _get(shown, '/ready')
    return code, json.loads(body or '{}').get('reason')


def _watch(shown, ends):
    """Look at /ready and then /health all the time until ``ends``; return each pair."""
    seen = []
    end = time.monotonic() + START_S
    while not ends():
        assert time.monotonic() < end, seen[-1:]
        seen.append((_ready(shown), _health(shown)[1]))
        time.sleep(0.1)
    return seen


@pytest.mark.parametrize('backend', BACKENDS)
def test_a_daemon_says_in_its_log_and_at_ready_what_it_does(
    daemon, rabbitmq, claims, tmp_path, eventually, backend
):
    log, port = tmp_path / 'scheduler.log', free_port()
    uri = f'tcp://127.0.0.1:{port}'
    shown = daemon(
        wait=False,
        DEFAULT={'log_file': log, 'host': 'telling', 'concurrency_backend': backend},
        healthcheck={'uri': uri},
        novasched={'metrics_uri': uri},
        scheduler={'workers': WORKERS},
    )
    shown.endpoint = f'http://127.0.0.1:{port}'

    def lines(words):
        text = log.read_text() if log.exists() else ''
        return [line for line in text.splitlines() if words in line]

    before = _watch(shown, lambda: _ready(shown)[0] == 200)
    assert rabbitmq.queue(shown.url, QUEUE)[1] > 0
    # The last look at the health may come when it was ready just before.
    assert not [body for _, body in before[:-1] if body.get('status') == 'pass']
    eventually(lambda: _health(shown)[1].get('serviceId'), 'its health')
    eventually(lambda: lines(START), 'the line of the start')
    (line,) = lines(START)
    address = re.sub('//.*@', '//', shown.url)
    for said in (
        ' INFO ',
        'host telling; 2 workers; ',
        f'messages at {address}; ',
        'filters ComputeFilter, ',
        'RAMWeigher=1',
        f'health at {uri}; metrics at {uri}',
    ):
        assert said in line
    assert re.search('; [1-9][0-9]* cells; [1-9][0-9]* hosts; ', line)

    eventually(lambda: _health(shown)[1]['status'] == 'pass', 'a good health')
    shown.process.send(signal.SIGHUP)
    reloading = _watch(shown, lambda: lines(RELOAD))
    reloading += _watch(shown, _soon(3))
    # A busy machine may keep workers from answering in time.
    on_time = [each for each in reloading if 'does not answer' not in str(each)]
    assert {ready for ready, _ in on_time} == {(200, '')}
    assert {body['status'] for _, body in on_time} == {'pass'}
    assert len(lines(RELOAD)) == 1

    victim = _a_worker(shown)
    os.kill(victim, signal.SIGSTOP)
    try:
        code, body = _health(shown)
        assert (code, body['status']) == (503, 'fail')
        assert f'worker {victim} does not answer' in body['checks']['workers']['output']
    finally:
        os.kill(victim, signal.SIGCONT)
    eventually(lambda: _statuses(shown)[0] == 200, 'the worker to answer again')
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: _is_replaced(shown, victim), 'a new worker')
    eventually(lambda: _health(shown)[1]['status'] == 'pass', 'a good health')
    uuids, answer = shown.client.submit()
    claims.expect(*uuids)
    assert answer.result(ANSWER_S)
    shown.process.send(signal.SIGTERM)
    assert shown.process.wait(ANSWER_S) == 0
    (line,) = lines('Stopped scheduler node (version ')
    assert line.endswith(': 1 requests were finished')
    assert len(lines(START)) == 1
    for secret in ('broker-secret', 'placement-secret'):
        assert secret not in log.read_text()


def _soon(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end
