# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of placement that does harm where a test tells it to.

``proxy.on('PUT', '/allocations/', lose)`` spoils the next claim; ``nth`` and
``times`` choose others. A fault is a function of one Exchange; those that tests
use are below. What nothing spoils is passed on as it is.
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import re
import socket
import threading
from typing import NamedTuple

import urllib3

PASSED_ON = (
    'X-Auth-Token',
    'Accept',
    'Content-Type',
    'OpenStack-API-Version',
    'X-OpenStack-Request-ID',
)
PASSED_BACK = (
    'Content-Type',
    'Last-Modified',
    'openstack-api-version',
    'x-openstack-request-id',
)
LONGEST_WAIT_S = 60
FORWARD_S = 120
"""A thousand claims at once take a while on a busy machine."""


class Asked(NamedTuple):
    """A request that arrived; ``path`` has the query, too."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes = b''
    headers: dict[str, str] = {}


class Plan:
    """A fault, and which of the requests that match it spoils."""

    def __init__(self, method, pattern, fault, nth, times):
        self._method = method
        self._pattern = re.compile(pattern)
        self._fault = fault
        self._skip = nth - 1
        self._left = times

    def fault_for(self, asked):
        """Count a request; return the fault if it is one of those meant."""
        matches = asked.method == self._method and self._pattern.search(asked.path)
        if not matches or not self._left:
            return None
        if self._skip:
            self._skip -= 1
            return None
        self._left -= 1
        return self._fault


class Exchange:
    """One request on its way, as a fault sees it."""

    def __init__(self, proxy, handler, asked):
        self.asked = asked
        self._proxy = proxy
        self._handler = handler

    def forward(self, target=None):
        """Let placement do it, or who serves at ``target``; return the answer, which
        nobody has yet."""
        return self._proxy.forward(self.asked, target)

    def answer(self, answer):
        """Send an answer back."""
        self._handler.send(answer)

    def hang_up(self):
        """Close the connection."""
        self._handler.hang_up()

    def wait(self, seconds=LONGEST_WAIT_S):
        """Wait, but no longer than until the proxy releases all who wait."""
        self._proxy.released.wait(seconds)


# -- faults


def passed(exchange):
    """Do nothing to it."""
    exchange.answer(exchange.forward())


def drop(exchange):
    """Close the connection; placement never hears of it."""
    exchange.hang_up()


def lose(exchange):
    """Let placement do it, and close the connection in the place of the answer."""
    exchange.forward()
    exchange.hang_up()


def cut(exchange):
    """Close the connection in the middle of the answer."""
    answer = exchange.forward()
    half = answer.body[: len(answer.body) // 2] or b'{'
    headers = {**answer.headers, 'Content-Length': str(len(half) + 10)}
    exchange.answer(answer._replace(status=200, body=half, headers=headers))
    exchange.hang_up()


def late(exchange):
    """Let placement do it at once; answer when the proxy releases who waits."""
    answer = exchange.forward()
    exchange.wait()
    exchange.answer(answer)


def stuck(exchange):
    """Pass it on only when the proxy releases who waits."""
    exchange.wait()
    passed(exchange)


def delay(seconds):
    """Pass it on after a while."""

    def fault(exchange):
        exchange.wait(seconds)
        passed(exchange)

    return fault


def answers(status, body=b'', content_type='application/json', *, after=False):
    """Answer in the place of placement; ``after``: once placement has done it."""

    def fault(exchange):
        if after:
            exchange.forward()
        exchange.answer(Answer(status, body, {'Content-Type': content_type}))

    return fault


def balanced(*targets):
    """Pass each on to another one in turn, as a load balancer that has not noticed yet
    which of them are away."""
    turns = itertools.cycle(targets)

    def fault(exchange):
        try:
            answer = exchange.forward(next(turns))
        except urllib3.exceptions.HTTPError:
            return exchange.hang_up()
        return exchange.answer(answer)

    return fault


def meanwhile(act):
    """Call ``act()`` before placement hears of it."""

    def fault(exchange):
        act()
        passed(exchange)

    return fault


# -- the server


class Proxy:
    """Serves on a port of its own; ``seen`` is what was asked, in order."""

    def __init__(self, target):
        self._target = target
        self._plans = []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pool = urllib3.PoolManager(maxsize=8, retries=False)
        self._server = _Server(('127.0.0.1', 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self.released = threading.Event()
        self.seen = []

    @property
    def url(self):
        """What ``endpoint_override`` names."""
        return f'http://127.0.0.1:{self._server.server_address[1]}'

    def on(self, method, pattern, fault, *, nth=1, times=1):
        """Spoil requests whose path and query have the regular expression in them.

        The first to be spoiled is the nth from now on; then come as many more
        as ``times`` says.
        """
        with self._lock:
            self._plans.append(Plan(method, pattern, fault, nth, times))

    def heal(self):
        """Spoil no request any more."""
        with self._lock:
            self._plans.clear()

    def asked(self, method, pattern=''):
        """Return what was asked by a method of matching paths."""
        with self._lock:
            seen = list(self.seen)
        return [a for a in seen if a.method == method and re.search(pattern, a.path)]

    def forget(self):
        """Forget what was seen."""
        with self._lock:
            self.seen.clear()

    def release(self):
        """Let all go on who wait, now and from now on."""
        self.released.set()

    def forward(self, asked, target=None):
        """Ask placement, or who serves at ``target``. Placement writes one after the
        other: SQLite refuses what comes meanwhile, and it counts wrongly where claims
        for one provider race."""
        is_write = asked.method != 'GET' and target is None
        with self._writing if is_write else contextlib.nullcontext():
            answer = self._pool.request(
                asked.method,
                (target or self._target) + asked.path,
                body=asked.body or None,
                headers=asked.headers,
                timeout=FORWARD_S,
            )
        kept = {n: answer.headers[n] for n in PASSED_BACK if n in answer.headers}
        return Answer(answer.status, answer.data, kept)

    def handle(self, handler, asked):
        """Serve a request by what is planned for it."""
        with self._lock:
            self.seen.append(asked)
            found = [fault for p in self._plans if (fault := p.fault_for(asked))]
        fault = found[0] if found else passed
        fault(Exchange(self, handler, asked))

    def start(self):
        """Serve from now on."""
        self._thread.start()

    def stop(self):
        """Serve no more; requests that wait are let go."""
        self.release()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join(5)
        self._pool.clear()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128  # else clients that come at once wait for seconds

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._open = set()

    def opened(self, connection):
        self._open.add(connection)

    def closed(self, connection):
        self._open.discard(connection)

    def hang_up(self):
        """Wake the threads that wait for a next request."""
        for connection in list(self._open):
            hang_up(connection)

    def handle_error(self, request, client_address):
        """Keep quiet: clients that do not wait for an answer are what we test."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    # Else the second part of every answer waits for the client's acknowledgement.
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.server.opened(self.connection)

    def finish(self):
        self.server.closed(self.connection)
        super().finish()

    def _serve(self):
        length = int(self.headers.get('Content-Length', 0))
        asked = Asked(
            self.command,
            self.path,
            self.rfile.read(length) if length else b'',
            {name: self.headers[name] for name in PASSED_ON if name in self.headers},
        )
        self.server.proxy.handle(self, asked)

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def send(self, answer):
        """Send an answer; its length is that of the body if it says no other."""
        self.send_response(answer.status)
        headers = {'Content-Length': str(len(answer.body)), **answer.headers}
        for name, value in headers.items():
            if answer.status != 204 or name != 'Content-Length':
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def hang_up(self):
        """Close the connection, whatever was sent on it."""
        self.close_connection = True
        hang_up(self.connection)

    def log_message(self, format, *args):
        """Keep quiet."""


def hang_up(connection):
    """End a connection in both directions."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
