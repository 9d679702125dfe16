# SPDX-License-Identifier: Apache-2.0
"""A cloud whose scheduler is in this process, on real servers, while it is changed."""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched import errors
from tests.functional.conftest import Cloud, new_uuids
from tests.live.servers import process
from tests.live.servers.placement import Placement

CLIENTS, WRITERS = 8, 2


class Answer(NamedTuple):
    """The hosts of an answer, none of a no; what was asked for, and when."""

    hosts: tuple[str, ...]
    wanted: dict[str, Any]
    asked_at: float
    answered_at: float


@contextlib.contextmanager
def busy_cloud(directory, database_url, hosts, options, urls=None):
    """Make a cloud on a placement of its own, and on databases of these URLs by name,
    else in files."""

    class OnServers(Cloud):
        def url(self, name):
            return urls[name] if urls else super().url(name)

    with contextlib.ExitStack() as stack:
        placement = Placement(directory / 'p', database_url)
        stack.enter_context(process.running(placement))
        adapter = Adapter(
            Session(auth=token_endpoint.Token(placement.url, 'admin')),
            service_type='placement',
            raise_exc=False,
            connect_retries=3,  # an idle connection may have been closed
        )
        yield OnServers(directory, adapter, hosts, options, stack, None, 'http://')


def boot_and_change(made, scheduler, seconds, wanted, change, *others):
    """Boot servers and change the cloud for so long; return the answers.

    ``wanted(rng)`` says what to ask for, ``change(number, rng)`` is what a writer does
    next; the others run once, each in a thread.
    """
    end, answers = time.monotonic() + seconds, []

    def write(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            change(number, rng)

    def boot(number):
        rng = random.Random(number)
        while time.monotonic() < end:
            (uuid,), values = new_uuids(), wanted(rng)
            found, asked_at = [[]], time.monotonic()
            with contextlib.suppress(errors.NoValidHost):
                found = made.ask(scheduler, [uuid], **values)
            answered_at = time.monotonic()
            answers.append(Answer(tuple(found[0]), values, asked_at, answered_at))
            made.adapter.delete(f'/allocations/{uuid}')

    with ThreadPoolExecutor(CLIENTS + WRITERS + len(others)) as threads:
        work = [threads.submit(write, number) for number in range(WRITERS)]
        work += [threads.submit(boot, number) for number in range(CLIENTS)]
        work += [threads.submit(other) for other in others]
        for each in work:
            each.result()
    return answers
