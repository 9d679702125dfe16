# SPDX-License-Identifier: Apache-2.0
"""The server of the console: at a unix socket or a TCP address, until it is stopped.

It has a fixed number of threads. A connection gets one when a whole request is
there, and waits for it in a queue; where that is full it gets 503 at once. One selector
reads all connections, so that a client that is slow to send costs no thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from cheroot import server as http
from cheroot import wsgi
from cheroot.makefile import MakeFile
from cheroot.ssl.builtin import BuiltinSSLAdapter

from novasched import errors
from novasched.clock import SYSTEM_CLOCK
from novasched.console.inbox import MOST_BODY, MOST_HEAD, Inbox
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
"""Connections without a whole request; more would take the files that a process may
open. A new one takes the place of the oldest, of the address that has most."""
CLIENT_S = 10
"""How long a client may take to begin a request, and to read an answer."""
REQUEST_S = 2
"""How long a client may take from the first byte of a request to its last."""
READING_S = 0.2
"""How long a client may take to read an answer while others wait for a thread."""
STOP_S = 10

BUSY = b'The console has too many clients just now. Try again in a moment.\n'


class _ClientSocket:
    """The socket of a connection for a thread: it reads what is there already."""

    def __init__(self, sock: Any, conn: _Connection) -> None:
        self._sock = sock
        self._conn = conn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def recv_into(self, buffer: memoryview) -> int:
        return self._conn.inbox.recv_into(buffer)

    def send(self, content: bytes) -> int:
        """Send what the client takes. Raises TimeoutError at the deadline, or earlier
        if others wait for the thread."""
        conn, now_s = self._conn, SYSTEM_CLOCK.monotonic()
        conn.deadline = conn.deadline or now_s + CLIENT_S
        patient_s = conn.deadline - CLIENT_S + READING_S
        while now_s < (patient_s if conn.server.requests.qsize else conn.deadline):
            self._sock.settimeout(READING_S)
            with contextlib.suppress(TimeoutError):
                return int(self._sock.send(content))
            now_s = SYSTEM_CLOCK.monotonic()
        raise TimeoutError('timed out')


class _Request(http.HTTPRequest):
    """A request that the application never sees is answered with our headers, too."""

    def parse_request(self) -> None:
        self.conn.deadline = 0.0
        if self.conn.inbox.refusal:
            self.simple_response(self.conn.inbox.refusal.value)
        else:
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
    """When the answer must be read; 0: none was sent yet."""
    since = 0.0
    """When the last answer was sent, or the connection was made."""

    def __init__(self, server: Any, sock: Any, makefile: Any = MakeFile) -> None:
        self.inbox = Inbox()
        super().__init__(
            server, sock, lambda *args: makefile(_ClientSocket(sock, self), *args[1:])
        )

    def has_request(self) -> bool:
        """Read what is there, and return whether a request is whole. Raises OSError."""
        self.socket.settimeout(0)
        try:
            while not self.inbox.release():
                content = self.socket.recv(MOST_HEAD)
                if not content:
                    raise ConnectionResetError
                if not self.inbox.is_begun:
                    self.since = SYSTEM_CLOCK.time() + REQUEST_S - CLIENT_S
                self.inbox.add(content)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        finally:
            self.socket.settimeout(CLIENT_S)
        return True

    def close(self) -> None:
        self.server.forget(self)
        super().close()


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
        self._waiting: dict[_Connection, None] = {}
        self._lock = threading.Lock()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:
        self.socket = self._listening
        return self._listening

    def bind_unix_socket(self, bind_addr: str) -> socket.socket:
        return self.bind(socket.AF_UNIX, socket.SOCK_STREAM)

    def process_conn(self, conn: Any) -> None:
        """Give a connection to a thread, once a whole request is there."""
        self.forget(conn)
        if conn.last_used is None:
            self._make_room()
            conn.since = SYSTEM_CLOCK.time()
        try:
            if conn.has_request():
                self.requests.put(conn)
            else:
                self._wait_for(conn)
        except queue.Full:
            _turn_away(conn)
        except OSError:
            conn.close()

    def put_conn(self, conn: Any) -> None:
        """Wait for the next request of a connection, which may be there already."""
        if conn.rfile.has_data():  # of a request that was not read to its end
            conn.close()
            return
        conn.since = SYSTEM_CLOCK.time()
        if self.ready and conn.inbox.is_begun:
            self.process_conn(conn)
        else:
            self._wait_for(conn)

    def _wait_for(self, conn: Any) -> None:
        with self._lock:
            self._waiting[conn] = None
        super().put_conn(conn)
        conn.last_used = conn.since  # it expires whatever little it sends

    def forget(self, conn: Any) -> None:
        """Count a connection as one that waits no longer."""
        with self._lock:
            self._waiting.pop(conn, None)

    def _make_room(self) -> None:
        """Drop a connection that waits, if there are too many.

        The selector closes it when it sees its end.
        """
        with self._lock:
            if len(self._waiting) < MOST_IDLE:
                return
            most = Counter(each.remote_addr for each in self._waiting).most_common(1)
            oldest = next(x for x in self._waiting if x.remote_addr == most[0][0])
            del self._waiting[oldest]
        _cut_off(oldest)

    def error_log(
        self, msg: str = '', level: int = 20, traceback: bool = False
    ) -> None:
        LOG.log(level, '%s', msg, exc_info=traceback)


def _cut_off(conn: Any) -> None:
    with contextlib.suppress(OSError):  # wakes who waits for it
        socket.socket.shutdown(conn.socket, socket.SHUT_RDWR)


def _turn_away(conn: Any) -> None:
    """Answer a request, which was read, that there is no room; never wait for it."""
    with contextlib.suppress(OSError):
        conn.socket.settimeout(0)
        retry = (('Retry-After', '2'),)
        conn.socket.send(_answer(HTTPStatus.SERVICE_UNAVAILABLE, BUSY, retry))
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
