# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server over TCP and unix sockets, and a client for the latter."""

from __future__ import annotations

import contextlib
import errno
import http.client
import http.server
import io
import logging
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.observability.settings import HEALTH, METRICS, Address, Settings

LOG = logging.getLogger(__name__)

DEADLINE_S = 5.0
"""From the connection to the end of the answer, however the client sends and reads."""

MOST_CLIENTS = 16
"""Connections that one address serves at a time, each in a thread of its own."""

MOST_HEAD = 16 * 1024
"""Bytes of a request with its headers."""

STOP_S = 5.0

FAILED_ACCEPT_S = 0.2


class Response(NamedTuple):
    """What a route answers."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Route = Callable[[Mapping[str, str]], Response]
"""Gets the headers of a request."""


def _refusal(status: http.HTTPStatus) -> bytes:
    head = f'HTTP/1.0 {status.value} {status.phrase}'
    return f'{head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'.encode()


class _HttpHandler(http.server.BaseHTTPRequestHandler):
    """Reads the head of a request, then answers, both before the deadline."""

    server: Endpoint
    server_version = 'novasched'
    sys_version = ''

    def setup(self) -> None:
        self.connection = self.request
        self._end_s = SYSTEM_CLOCK.monotonic() + self.server.deadline_s
        self.rfile = io.BytesIO()
        self.wfile = self._answered = io.BytesIO()

    def handle(self) -> None:
        try:
            head = self._head()
        except TimeoutError:
            self.wfile.write(_refusal(http.HTTPStatus.REQUEST_TIMEOUT))
            return
        if len(head) > MOST_HEAD:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            self.wfile.write(_refusal(status))
            return
        self.rfile = io.BytesIO(head)
        super().handle()

    def finish(self) -> None:
        """Send what was written; sendall() has one timeout for all of it."""
        self.connection.settimeout(max(self._end_s - SYSTEM_CLOCK.monotonic(), 0.1))
        self.connection.sendall(self._answered.getvalue())

    def _head(self) -> bytes:
        """Return all up to the empty line, or a little more than is allowed, or what
        came before the client closed. Raises TimeoutError at the deadline."""
        head = b''
        while b'\r\n\r\n' not in head and len(head) <= MOST_HEAD:
            left_s = self._end_s - SYSTEM_CLOCK.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self.connection.settimeout(left_s)
            more = self.connection.recv(MOST_HEAD)
            if not more:
                break
            head += more
        return head

    def do_GET(self) -> None:
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        self._send(with_body=False)

    def _send(self, with_body: bool) -> None:
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header('Content-Type', answer.content_type)
        self.send_header('Content-Length', str(len(answer.body)))
        self.send_header('Connection', 'close')
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def _answer(self) -> Response:
        route = self.server.routes.get(self.path.partition('?')[0])
        if route is None:
            return Response(404, 'text/plain', b'not found\n')
        try:
            # HTTPMessage finds headers whatever their case.
            return route(self.headers)  # type: ignore[arg-type]
        except Exception:  # one answer fails, the server goes on
            LOG.exception('%s failed', self.path)
            return Response(500, 'text/plain', b'failed; see the log\n')

    def address_string(self) -> str:
        """Return the address of the client; a unix socket has none."""
        return str(self.client_address[0]) if self.client_address else 'unix'

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug('%s: %s', self.address_string(), format % args)


class Endpoint(socketserver.ThreadingTCPServer):
    """Answers at one address, in at most ``most_clients`` threads of its own.

    A client that is not done within ``deadline_s`` is cut off.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Route],
        most_clients: int = MOST_CLIENTS,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        super().__init__(('', 0), _HttpHandler, bind_and_activate=False)
        self.socket.close()
        self.routes = routes
        self.deadline_s = deadline_s
        self._address = address
        self._free = threading.BoundedSemaphore(most_clients)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen. Raises OSError."""
        self.socket = listen(self._address)
        self._thread = threading.Thread(
            target=self._serve, name=f'http {self._address}', daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The TCP port that is listened at; 0: none."""
        if self._thread is None or self._address.path:
            return 0
        return int(self.socket.getsockname()[1])

    def stop(self) -> None:
        """Listen no more, and remove the socket from the file system."""
        if self._thread is None:
            return
        self._stopped.set()
        with contextlib.suppress(OSError):  # wakes the thread that accepts
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(STOP_S)
        self._thread = None
        self.server_close()
        if self._address.path:
            os.unlink(self._address.path)

    def _serve(self) -> None:
        """Serve until stopped. Nothing is polled, which among eventlet's threads
        would hold up all others."""
        while not self._stopped.is_set():
            try:
                self.process_request(*self.socket.accept())
            except OSError as problem:
                if not self._stopped.wait(FAILED_ACCEPT_S):
                    LOG.warning('A connection was not accepted: %s', problem)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a client in a thread, or refuse it at once when all are taken."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
                return
            except RuntimeError as problem:  # the system has no thread left
                self._free.release()
                LOG.warning('A connection was not served: %s', problem)
        with contextlib.suppress(OSError):
            request.setblocking(False)
            request.send(_refusal(http.HTTPStatus.SERVICE_UNAVAILABLE))
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""
        LOG.debug('An answer was not sent', exc_info=True)


def ask(path: str, url: str, timeout_s: float) -> tuple[int, bytes]:
    """Ask the server at a unix socket; return status and body.

    Raises OSError, of which ConnectionRefusedError and FileNotFoundError say that
    nothing listens there, TimeoutError that no answer came in time; and
    http.client.HTTPException.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(timeout_s)
        asking.connect(path)
        asking.sendall(f'GET {url} HTTP/1.0\r\n\r\n'.encode())
        with http.client.HTTPResponse(asking) as answer:
            answer.begin()
            return answer.status, answer.read()


def check(conf: Any) -> None:
    """Find out whether the addresses can be used. Raises errors.OptionError."""
    settings = Settings.from_conf(conf)
    for option, addresses in ((HEALTH, settings.health), (METRICS, settings.metrics)):
        for address in addresses:
            try:
                listen(address).close()
            except OSError as problem:
                raise errors.OptionError(
                    option,
                    f'{address}: {problem.strerror or problem}',
                    'Name an address of this host that nobody uses.',
                ) from problem
            if address.path:
                os.unlink(address.path)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens. Raises OSError.

    A unix socket without a listener is replaced.
    """
    if address.path:
        _clear(address.path)
        return _listening(socket.AF_UNIX, address.path)
    family, _, _, _, place = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return _listening(family, place)


def _listening(family: int, place: Any) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(64)
    except OSError:
        made.close()
        raise
    return made


def _clear(path: str) -> None:
    """Remove what a process that is gone has left. Raises OSError if it is not."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except TimeoutError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
