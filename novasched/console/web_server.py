# SPDX-License-Identifier: Apache-2.0
"""The server of the console: at a unix socket or a TCP address, until it is stopped.

It has a fixed number of threads. Clients wait for one in a queue; who finds it full is
told so at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from cheroot import server as http
from cheroot import wsgi
from cheroot.makefile import MakeFile
from cheroot.ssl.builtin import BuiltinSSLAdapter

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.console.security import HEADERS, Application
from novasched.console.settings import GROUP, LISTEN, ConsoleSettings
from novasched.observability import serving
from novasched.observability.settings import Address

LOG = logging.getLogger(__name__)

SOCKET_MODE = 0o660
WAITING_PER_THREAD = 4
BACKLOG = 256
"""Connections that the kernel keeps for us; a client at a full one may hang."""
MOST_IDLE = 512
"""Connections without a request; more would take the files that a process may open."""
CLIENT_S = 10
"""How long a client may take to send a request with its body; a connection without
a request is kept as long."""
REFUSED_S = 0.5
"""How long a client that is refused may take to send what it wanted."""
STOP_S = 10
MOST_HEAD = 16 * 1024
MOST_BODY = 16 * 1024

BUSY = b'The console has too many clients just now. Try again in a moment.\n'


class _TimedSocket:
    """A socket to read from until a deadline, however little comes at a time."""

    def __init__(self, sock: Any, deadline: Callable[[], float]) -> None:
        self._sock = sock
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recv_into(self, buffer: Any) -> int:
        left_s = self._deadline() - SYSTEM_CLOCK.monotonic()
        if left_s <= 0:
            raise TimeoutError('timed out')
        self._sock.settimeout(left_s)
        try:
            return int(self._sock.recv_into(buffer))
        finally:
            self._sock.settimeout(CLIENT_S)


class _Request(http.HTTPRequest):
    """A request that the application never sees is answered with our headers, too."""

    def parse_request(self) -> None:
        self.conn.deadline = SYSTEM_CLOCK.monotonic() + CLIENT_S
        super().parse_request()

    def simple_response(self, status: Any, msg: str = '') -> None:
        code = int(str(status)[:3])
        body = (msg or HTTPStatus(code).description).encode() + b'\n'
        with contextlib.suppress(OSError):  # the client is gone
            self.conn.wfile.write(_answer(HTTPStatus(code), body))
        self.close_connection = True


class _Connection(http.HTTPConnection):
    RequestHandlerClass = _Request
    deadline = 0.0
    """When the request being read must be there, with its body."""

    def __init__(self, server: Any, sock: Any, makefile: Any = MakeFile) -> None:
        def made(sock: Any, mode: str, size: int) -> Any:
            if 'r' in mode:
                sock = _TimedSocket(sock, lambda: self.deadline)
            return makefile(sock, mode, size)

        super().__init__(server, sock, made)


class _LateHandshake(BuiltinSSLAdapter):
    """TLS whose handshake is made when a thread first reads: a client that is slow
    with it does not keep others from being accepted."""

    def wrap(self, sock: socket.socket) -> tuple[socket.socket, dict[str, str]]:
        wrapped = self.context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, {'wsgi.url_scheme': 'https', 'HTTPS': 'on'}


class ConsoleServer(wsgi.Server):
    """Serves at a socket that listens already."""

    ConnectionClass = _Connection

    def __init__(
        self, listening: socket.socket, app: Application, settings: ConsoleSettings
    ) -> None:
        address = settings.listen
        super().__init__(
            address.path or listening.getsockname()[:2],
            app,
            numthreads=settings.threads,
            max=settings.threads,
            server_name='novasched',
            request_queue_size=BACKLOG,
            timeout=CLIENT_S,
            shutdown_timeout=STOP_S,
            accepted_queue_size=settings.threads * WAITING_PER_THREAD,
            accepted_queue_timeout=0,
        )
        self.max_request_header_size = MOST_HEAD
        self.max_request_body_size = MOST_BODY
        self.expiration_interval = 0.5
        self.keep_alive_conn_limit = MOST_IDLE
        self._listening = listening
        self._refused: queue.Queue[Any] = queue.Queue(BACKLOG)

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:
        self.socket = self._listening
        return self._listening

    def bind_unix_socket(self, bind_addr: str) -> socket.socket:
        return self.bind(socket.AF_UNIX, socket.SOCK_STREAM)

    def process_conn(self, conn: Any) -> None:
        """Give a connection to a thread, once there is something to read.

        Browsers open some in advance; they would keep threads from others.
        """
        try:
            if conn.last_used is not None:
                if _is_gone(conn):
                    conn.close()
                else:
                    self.requests.put(conn)
            elif self.can_add_keepalive_connection:
                self.put_conn(conn)
            else:
                self._refuse(conn)
        except queue.Full:
            self._refuse(conn)

    def _refuse(self, conn: Any) -> None:
        try:
            self._refused.put_nowait(conn)
        except queue.Full:
            conn.close()

    def _serve_unservicable(self) -> None:
        """Tell clients for whom there is no room, one after the other."""
        while (conn := self._refused.get()) is not None:
            if self.ready:
                _turn_away(conn)
            else:
                conn.close()

    def stop(self) -> None:
        super().stop()
        self._refused.put(None)

    def error_log(
        self, msg: str = '', level: int = 20, traceback: bool = False
    ) -> None:
        LOG.log(level, '%s', msg, exc_info=traceback)


def _is_gone(conn: Any) -> bool:
    """Say whether the client of a connection, which can be read, has closed it.

    Many that do so at once would take the places of those that ask.
    """
    if conn.rfile.has_data():
        return False
    try:
        # That of TLS cannot look at what it does not take.
        return not socket.socket.recv(conn.socket, 1, socket.MSG_PEEK)
    except OSError:
        return True


def _turn_away(conn: Any) -> None:
    """Read a request, as far as it is there, and answer that there is no room."""
    with contextlib.suppress(OSError):
        conn.socket.settimeout(REFUSED_S)
        # What is not read when a connection is closed takes the answer with it.
        conn.socket.recv(MOST_HEAD)
        retry = (('Retry-After', '2'),)
        conn.socket.sendall(_answer(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, retry))
        conn.socket.shutdown(socket.SHUT_WR)
    conn.close()


def _answer(
    status: HTTPStatus, body: bytes, more: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Return an answer that ends the connection."""
    headers = {
        'Content-Type': 'text/plain; charset=utf-8',
        'Content-Length': str(len(body)),
        'Connection': 'close',
        **HEADERS,
        **dict(more),
    }
    lines = [f'HTTP/1.1 {status.value} {status.phrase}']
    lines += [f'{name}: {value}' for name, value in headers.items()]
    return '\r\n'.join([*lines, '', '']).encode() + body


@contextlib.contextmanager
def served(app: Application, settings: ConsoleSettings) -> Iterator[Address]:
    """Serve an application in threads of its own; yield where.

    In the end requests that are being answered may be finished. Raises
    errors.OptionError.
    """
    listening = _listen(settings.listen)
    with contextlib.ExitStack() as stack:
        stack.callback(listening.close)
        if settings.listen.path:
            stack.callback(_remove, settings.listen.path)
        # It would take the third open file for the socket of systemd.
        os.environ.pop('LISTEN_PID', None)
        made = ConsoleServer(listening, app, settings)
        if settings.tls_certificate:
            made.ssl_adapter = _tls(settings)
        # Threads that answer are daemons, as this one: none keeps us from ending.
        ready = threading.Event()
        thread = threading.Thread(
            target=_serve, args=(made, ready), name='console', daemon=True
        )
        thread.start()
        ready.wait()
        if not made.ready:
            raise errors.SetupError('the server did not start; see above')
        stack.callback(made.stop)
        yield _address(settings.listen, listening)


def _serve(made: ConsoleServer, ready: threading.Event) -> None:
    try:
        made.prepare()
    finally:
        ready.set()
    made.serve()


def _address(asked: Address, listening: socket.socket) -> Address:
    """Return an address with the port that the system has chosen for port 0."""
    if asked.path:
        return asked
    return asked._replace(port=listening.getsockname()[1])


def _listen(address: Address) -> socket.socket:
    try:
        listening = serving.listen(address, SOCKET_MODE)
    except OSError as problem:
        remedy = 'Name an address of this machine that is not in use'
        if address.path:
            directory = os.path.dirname(address.path)
            remedy = f'Name a socket in a directory that there is; see {directory}'
        raise errors.OptionError(
            LISTEN, f'{address}: {problem.strerror or problem}', remedy
        ) from problem
    if not address.path:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _tls(settings: ConsoleSettings) -> BuiltinSSLAdapter:
    try:
        return _LateHandshake(
            settings.tls_certificate, settings.tls_key or settings.tls_certificate
        )
    except OSError as problem:  # ssl.SSLError is one
        raise errors.OptionError(
            f'[{GROUP}] tls_certificate',
            f'{settings.tls_certificate}: {problem.strerror or problem}',
            'Name a certificate and its key, in PEM, that this user can read',
        ) from problem
