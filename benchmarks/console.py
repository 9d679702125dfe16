# SPDX-License-Identifier: Apache-2.0
"""Measure the console over HTTP: milliseconds and size of each page, memory, and 100
clients at once.

Run from the checkout: ``.venv/bin/python -m benchmarks.console [--hosts N ...]``. The
databases are SQLite files, placement is the real one in this process, and the console
is the program, in a process of its own, which has done nothing else. Of each page it
prints what was promised, the first time, the time while an answer is kept, and after
that, with a mark where the promise is not kept; sizes are as they are sent, compressed.
A scheduler in another process works alone, and then while the clients ask.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from novasched_lab.local.placement import EmbeddedPlacement, adapter_to, serving
from tests.browser import clouds, demands, inventory
from tests.faults import scheduling

CLIENTS = 100
KEPT_S = 16.0
"""After so long nothing is kept but the flavors and the copy of placement."""
ALONE_S, END_S = 10.0, 120.0
MEMORY_MB, PAGE_KB = 250, 60
IN_UNIT = {'MALLOC_ARENA_MAX': '1'}
"""What the unit of the console sets."""
PROGRAM = Path(sys.executable).with_name('novasched-console')


class Console:
    """A console in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], conf: Path, place: str) -> None:
        self._process = process
        self._conf, self._place = conf, place
        self._address = process.stdout.readline().split()[-1]

    def get(self, path: str) -> tuple[int, bytes, float]:
        """Return status, content as it is sent, and milliseconds."""
        asked = urllib.request.Request(
            self._address + path, headers={'Accept-Encoding': 'gzip'}
        )
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(asked, timeout=END_S) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as answer:
            status, content = answer.code, answer.read()
        return status, content, (time.perf_counter() - began) * 1e3

    def json(self, path: str) -> dict[str, Any]:
        """Return the JSON of a page."""
        _, content, _ = self.get(f'/api/v1{path}')
        if content.startswith(b'\x1f\x8b'):
            content = gzip.decompress(content)
        found: dict[str, Any] = json.loads(content)
        return found

    def scheduler(self) -> contextlib.AbstractContextManager[dict[str, Any]]:
        """Let a scheduler of the same cloud work in another process."""
        return scheduling.running(self._conf, self._place)

    def memory_mb(self) -> dict[str, int]:
        """Return what the process takes of memory now, and at most until now."""
        text = Path(f'/proc/{self._process.pid}/status').read_text()
        found = dict(line.split(':', 1) for line in text.splitlines())
        return {
            name: int(found[name].split()[0]) // 1024 for name in ('VmRSS', 'VmHWM')
        }


@contextlib.contextmanager
def console(shape: inventory.Shape) -> Iterator[Console]:
    """Make a cloud, let a scheduler decide, and run a console beside it."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with EmbeddedPlacement(directory / 'placement.sqlite') as names:
            for url in ('/resource_classes', '/traits'):
                names.get(url, microversion='1.36')
        path = clouds.made(directory, shape)
        place = stack.enter_context(serving(None, directory))
        with path.open('a') as file:
            file.write(clouds.PLACEMENT.format(endpoint=place))
        demands.decide(path, shape, stack.enter_context(adapter_to(place)))
        process = subprocess.Popen(
            [PROGRAM, '--config-file', path, '--listen', 'tcp://127.0.0.1:0'],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **IN_UNIT},
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        yield Console(process, path, place)


def pages(found: Console) -> list[tuple[str, str, int | None]]:
    """Return names, paths and promised milliseconds."""
    heads = found.json('/decisions?limit=50')['decisions']
    newest, failed = (
        heads[0]['id'],
        next(each['id'] for each in heads if each['blocker'] == 'filters'),
    )
    flavor = quote(inventory.flavors()[inventory.LARGE].name)
    pinned = quote(inventory.flavors()[inventory.PINNED].name)
    host = found.json('/hosts?limit=1')['hosts'][0]['host']
    return [
        ('overview', '/', 100),
        ('decisions', '/decisions', None),
        ('decision', f'/decisions/{newest}', 150),
        ('decision that failed', f'/decisions/{failed}', 150),
        ('decision, JSON', f'/api/v1/decisions/{newest}', 150),
        ('capacity', '/capacity', 1000),
        ('capacity by zone', f'/capacity?flavors={flavor}&by=zone', 1000),
        ('capacity by host', f'/capacity?flavors={flavor}&by=host', 1000),
        ('capacity, NUMA', f'/capacity?flavors={pinned}', 1000),
        ('heat map', f'/capacity/heat?flavor={flavor}', 1000),
        ('heat map, JSON', f'/api/v1/capacity/heat?flavor={flavor}', 1000),
        ('hosts', '/hosts', None),
        ('hosts with slots', f'/hosts?flavor={flavor}&page=7', None),
        ('host', f'/hosts/{host}', None),
        ('plan', f'/plan?flavor={flavor}&count=5', 8000),
        ('plan that fails', '/plan?flavor=vcpus%3D500%2Cram%3D512%2Cdisk%3D1', 8000),
        ('health', '/health', None),
    ]


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def measure(found: Console, hosts: int) -> None:
    asked = pages(found)
    took: dict[str, list[float]] = {}
    said: dict[str, tuple[int, int]] = {}
    for times in (2, 1):
        for name, path, _ in asked:
            for _ in range(times):
                status, content, ms = found.get(path)
                said[name] = status, len(content)
                took.setdefault(name, []).append(ms)
        time.sleep(KEPT_S)
    say(f'{hosts} hosts{"":14} promised   first    kept   again   status  KB')
    for name, path, promised in asked:
        first, kept, again = took[name]
        status, size = said[name]
        # What the console reads when it is first asked is no page's.
        is_late = promised is not None and max(kept, again) > promised
        is_large = not path.startswith('/api/') and size > PAGE_KB * 1024
        mark = ' LATE' * is_late + ' LARGE' * is_large + ' FAILED' * (status != 200)
        say(
            f'{name:24} {promised or "-":>8} {first:7.0f} {kept:7.0f} {again:7.0f}'
            f'   {status:6} {size / 1024:4.0f}{mark}'
        )
    memory = found.memory_mb()
    mark = ' LARGE' * (memory['VmHWM'] > MEMORY_MB)
    say(
        f'page at most {PAGE_KB} KB compressed; memory at most {MEMORY_MB} MB: '
        f'{memory}{mark}'
    )


def crowd(found: Console) -> None:
    """Let many clients ask at once, each for another page, or the same, while a
    scheduler works; before that it works alone."""
    paths = [path for _, path, _ in pages(found)]
    paths += [f'/plan?flavor=vcpus%3D{n}%2Cram%3D512%2Cdisk%3D1' for n in range(1, 10)]
    with found.scheduler() as alone:
        time.sleep(ALONE_S)
    answers: list[tuple[int, bytes, float]] = []
    start = threading.Barrier(CLIENTS)

    def ask(number: int) -> None:
        start.wait()
        answers.append(found.get(paths[number % len(paths)]))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(CLIENTS)]
    with found.scheduler() as beside:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    statuses = Counter(status for status, _, _ in answers)
    worst = max(ms for _, _, ms in answers)
    wordless = sum(status == 503 and not content for status, content, _ in answers)
    say(
        f'{CLIENTS} clients at once: {len(answers)} answers, {dict(statuses)}, '
        f'{wordless} without words, the last after {worst:.0f} ms; '
        f'memory {found.memory_mb()}'
    )
    for name, done in (('alone', alone), ('beside the clients', beside)):
        say(
            f'the scheduler {name}: {done["answered"]} of {done["asked"]} requests '
            f'answered, half within {done["half_ms"]:.0f} ms, the slowest after '
            f'{done["slowest_ms"]:.0f} ms'
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    parser.add_argument('--decisions', type=int)
    given = parser.parse_args()
    for hosts in given.hosts:
        shape = inventory.SHAPES[hosts]
        shape = replace(shape, decisions=given.decisions or shape.decisions)
        with console(shape) as found:
            measure(found, hosts)
            crowd(found)


if __name__ == '__main__':
    main()
