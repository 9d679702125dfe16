# SPDX-License-Identifier: Apache-2.0
"""Workers that count, and a host that shows it: prints the metrics, as JSON.

A program of its own, for prometheus_client chooses when it is imported whether
processes share values. Two workers count one and two attempts and have one more under
way; then the first ends well, and the second is killed. What a client sees before and
after is a list of two texts.
"""

import json
import multiprocessing
import sys
import types
import urllib.request

from novasched.observability import host
from novasched.observability.settings import Address, Settings
from novasched.ports import Cell
from novasched.runtime.clock import SystemClock

CELL = Cell('a-uuid', 'cell1', None, None, False)


def work(shared, attempts, ready, end):
    """Be a worker until told to end."""
    observer, instrumentation = shared.observer, shared.observer.instrumentation()
    now_s = SystemClock().monotonic()
    cells = types.SimpleNamespace(enabled=lambda: [CELL], unavailable=list)
    instrumentation.watch(
        types.SimpleNamespace(
            cells=cells, asked_at=lambda: {CELL.uuid: now_s - attempts}
        )
    )
    observer.begin(instrumentation)
    for _ in range(attempts):
        with instrumentation.requests.attempt():
            pass
    with instrumentation.requests.attempt():
        ready.set()
        end.wait()
    observer.end(instrumentation)


def metrics(port):
    """What a client gets."""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics') as answer:
        return answer.read().decode()


def main():
    settings = Settings('ctl1', 'nova-scheduler', metrics=(Address('127.0.0.1', 0),))
    with host.shared(settings, 2, SystemClock()) as shared:
        forked = multiprocessing.get_context('fork')
        workers = []
        for attempts in (1, 2):
            ready, end = forked.Event(), forked.Event()
            worker = forked.Process(target=work, args=(shared, attempts, ready, end))
            worker.start()
            workers.append((worker, ready, end))
        for _, ready, _ in workers:
            ready.wait(20)
        service = shared
        service.start()
        seen = [metrics(service.ports[0])]
        workers[0][2].set()
        workers[1][0].kill()
        for worker, _, _ in workers:
            worker.join(20)
        seen.append(metrics(service.ports[0]))
        service.stop()
    json.dump(seen, sys.stdout)


if __name__ == '__main__':
    main()
