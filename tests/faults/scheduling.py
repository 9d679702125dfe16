# SPDX-License-Identifier: Apache-2.0
"""A scheduler at work, as a program with two arguments: the file of a configuration,
and the URL of placement.

It asks a scheduler of this configuration for one server after the other until its
standard input ends, and then says in JSON how many it asked for, how many answers there
were, and how many milliseconds half of them and the slowest took.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import statistics
import subprocess
import sys
import threading
from pathlib import Path

import novasched  # noqa: F401 it chooses threads
from novasched import errors
from novasched.inspection.session.orders import BootOrder
from novasched.objects.context import RequestContext
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.local.placement import adapter_to
from tests.browser import demands, inventory
from tests.browser.clouds import PROJECT

PAUSE_S, STOP_S = 0.05, 60


def main() -> None:
    path, url = Path(sys.argv[1]), sys.argv[2]
    logging.basicConfig(level=logging.ERROR)
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        placement = stack.enter_context(adapter_to(url))
        conf, rng = demands.configured(path), random.Random(1)
        composed = demands._scheduler(conf, placement, SYSTEM_CLOCK, rng, stack)
        say('ready')
        threading.Thread(target=_wait, args=(ended,), daemon=True).start()
        say(json.dumps(_asked(*composed, ended)))


def _asked(scheduler, maker, ended):
    """Ask until it is to end; return what came of it."""
    asked = answered = 0
    owner = BootOrder(project_id=PROJECT, user_id=PROJECT)
    took_ms = []
    flavor = inventory.flavors()[0]
    # The first at once: its askers may end before a busy machine goes on.
    while not asked or not ended.wait(PAUSE_S):
        wanted = maker.boot(flavor, order=owner)
        context = RequestContext(user_id=PROJECT, project_id=PROJECT, overwrite=False)
        began, asked = SYSTEM_CLOCK.monotonic(), asked + 1
        with contextlib.suppress(errors.NoValidHost):
            scheduler.manager.select_destinations(
                context, wanted.request, wanted.uuids, True, True
            )
        answered += 1
        took_ms.append((SYSTEM_CLOCK.monotonic() - began) * 1000)
    return {
        'asked': asked,
        'answered': answered,
        'half_ms': statistics.median(took_ms),
        'slowest_ms': max(took_ms),
    }


def _wait(ended):
    sys.stdin.read()
    ended.set()


@contextlib.contextmanager
def running(conf, url):
    """Run this program; yield what it says in the end, which is known after that."""
    command = [sys.executable, '-W', 'ignore', '-m', __spec__.name, conf, url]
    done = {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == 'ready\n'
            yield done
            process.stdin.close()
            done |= json.loads(process.stdout.readline())
            assert process.wait(STOP_S) == 0
        finally:
            process.kill()


def say(text):
    print(text, flush=True)  # noqa: T201


if __name__ == '__main__':
    main()
