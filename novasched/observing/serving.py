# SPDX-License-Identifier: Apache-2.0
"""HTTP over TCP and unix sockets: a small server, and a client for its sockets."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from novasched.observing.addresses import Address, listen

LOG = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long a client may take to send its request, and to read the answer."""

FAILED_ACCEPT_S = 0.2


class Answer(NamedTuple):
    """What a route answers."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


Route = Callable[[Mapping[str, str]], Answer]
"""Gets the headers of a request."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version = 'novasched'
    sys_version = ''

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

    def _answer(self) -> Answer:
        routes: Mapping[str, Route] = self.server.routes  # type: ignore[attr-defined]
        route = routes.get(self.path.partition('?')[0])
        if route is None:
            return Answer(404, 'text/plain', b'not found\n')
        try:
            # HTTPMessage finds headers whatever their case.
            return route(self.headers)  # type: ignore[arg-type]
        except Exception:  # one answer fails, the server goes on
            LOG.exception('%s failed', self.path)
            return Answer(500, 'text/plain', b'failed; see the log\n')

    def address_string(self) -> str:
        """Return who asks; a unix socket does not tell."""
        return str(self.client_address[0]) if self.client_address else 'unix'

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug('%s: %s', self.address_string(), format % args)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, routes: Mapping[str, Route]) -> None:
        super().__init__(('', 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.routes = routes
        self._stopped = threading.Event()

    def serve(self) -> None:
        """Serve until stopped. Nothing is polled, which among eventlet's threads
        would hold up all others."""
        while not self._stopped.is_set():
            try:
                self.process_request(*self.socket.accept())
            except OSError as problem:
                if not self._stopped.wait(FAILED_ACCEPT_S):
                    LOG.warning('A connection was not accepted: %s', problem)

    def stop(self) -> None:
        """Wake who waits for connections, and let no more come."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""
        LOG.debug('An answer was not sent', exc_info=True)


class Endpoint:
    """Answers at one address, in threads of its own."""

    def __init__(self, address: Address, routes: Mapping[str, Route]) -> None:
        self._address = address
        self._routes = routes
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen. Raises OSError."""
        self._server = _Server(listen(self._address), self._routes)
        self._thread = threading.Thread(
            target=self._server.serve, name=f'http {self._address}', daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The TCP port that is listened at; 0: none."""
        if self._server is None or self._address.path:
            return 0
        return int(self._server.socket.getsockname()[1])

    def stop(self) -> None:
        """Listen no more, and remove the socket from the file system."""
        if self._server is None:
            return
        self._server.stop()
        self._thread.join(PATIENCE_S)
        self._server.server_close()
        self._server = None
        if self._address.path:
            os.unlink(self._address.path)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__('localhost', timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(path: str, url: str, timeout_s: float) -> tuple[int, bytes]:
    """Ask the server at a unix socket; return status and body.

    Raises OSError, of which ConnectionRefusedError and FileNotFoundError say that
    nobody listens, and TimeoutError that nobody answers in time; and
    http.client.HTTPException.
    """
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request('GET', url)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
