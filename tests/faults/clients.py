# SPDX-License-Identifier: Apache-2.0
"""Clients of the scheduler, with a thread for each request, in the audit's journal."""

from __future__ import annotations

import contextlib
import threading
import uuid

import oslo_messaging

from novasched.objects.context import RequestContext
from novasched.rpc.faults import WireError
from tests.faults.audit import Failure

JOIN_S = 120


class Clients:
    """Requests to the schedulers of a cloud, as a conductor sends them."""

    def __init__(self, cloud, audit):
        self._cloud = cloud
        self._audit = audit
        self._threads = []
        self._is_closed = False

    def boot(self, count=1, *, room=False, uuids=None, kept=(), **values):
        """Ask for hosts; return the Call at once."""
        uuids = uuids or [str(uuid.uuid4()) for _ in range(count)]
        call = self._audit.sent(uuids, room=room, kept=kept)
        request = self._cloud.request(num_instances=len(uuids), **values)
        thread = threading.Thread(target=self._ask, args=(call, request), daemon=True)
        self._threads.append(thread)
        thread.start()
        return call

    def _ask(self, call, request):
        try:
            found = self._cloud.client.select_destinations(
                RequestContext(overwrite=False), request, list(call.consumers)
            )
        except oslo_messaging.MessagingTimeout:
            self._audit.gave_up(call)
        except oslo_messaging.RemoteError as problem:
            failure = Failure(problem.exc_type, None, str(problem.value))
            self._audit.failed(call, failure)
        except WireError as problem:
            # In one process an error comes as it was raised.
            kind = type(problem)
            kwargs = getattr(problem, 'kwargs', None)
            failure = Failure(kind.__name__, kind.__module__, str(problem), kwargs)
            self._audit.failed(call, failure)
        except Exception:
            # Its transport is closed, and nobody waits for the answer.
            if not self._is_closed:
                raise
        else:
            self._audit.answered(call, found)

    @contextlib.contextmanager
    def keep_booting(self, every_s):
        """Boot again and again, each on a host that is there, within this context."""
        ended = threading.Event()

        def boots():
            while not ended.wait(every_s):
                self.boot(room=True)

        thread = threading.Thread(target=boots)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def wait(self, timeout_s=JOIN_S):
        """Wait until each request has its answer, or its client gave up."""
        for thread in self._threads:
            thread.join(timeout_s)
        stuck = [thread for thread in self._threads if thread.is_alive()]
        assert not stuck, f'{len(stuck)} requests are under way after {timeout_s} s'
        self._threads.clear()

    def close(self):
        """Let go of requests that are under way."""
        self._is_closed = True
        for thread in self._threads:
            thread.join(1)
