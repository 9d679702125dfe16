# SPDX-License-Identifier: Apache-2.0
"""The server of the console: at a unix socket or a TCP address, until it is stopped.

One thread reads and writes all connections, and waits for none of them. A fixed number
of others answer: each takes a connection whose next request is whole from a queue, and
gives it back with the answer. So a slow client costs a place, but no thread.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import queue
import resource
import selectors
import socket
import ssl
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cheroot import server as http
from cheroot import wsgi

from novasched import errors
from novasched.console.connection import CLIENT_S, MOST_BODY, MOST_HEAD, Connection
from novasched.console.security import HEADERS, Application
from novasched.console.settings import GROUP, LISTEN, ConsoleSettings
from novasched.observability import serving
from novasched.observability.settings import Address
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

SOCKET_MODE = 0o660
WAITING_PER_THREAD = 4
BACKLOG = 256
"""Connections that the kernel keeps for us; a client at a full one may hang."""
MOST_PENDING = 512
"""Connections that have yet to send or to read. A further one takes the place of the
oldest, of the address that has most."""
FEWEST_PENDING = 16
OTHER_FILES = 256
"""What the rest of the process may open."""
MOST_UNREAD = 64 * 1024 * 1024
"""Bytes of all answers that are not read to their end, and of any one answer."""
TURN_S = 0.5
"""How much later a deadline may be noticed."""
STOP_S = 10


class _Request(http.HTTPRequest):
    """A request that the application never sees is answered with our headers, too."""

    def parse_request(self) -> None:
        if self.conn.refusal:
            self.simple_response(self.conn.refusal.value)
        else:
            super().parse_request()

    def simple_response(self, status: Any, msg: str = '') -> None:
        code = HTTPStatus(int(str(status)[:3]))
        self.conn.wfile.write(_last_answer(code, msg or code.description))
        self.close_connection = True


class _Exchange(http.HTTPConnection):
    """A request and its answer in memory, as cheroot wants to see a connection."""

    RequestHandlerClass = _Request

    def __init__(self, server: _Cheroot, conn: Connection) -> None:
        content = {'rb': conn.request, 'wb': b''}
        super().__init__(
            server, conn.socket, lambda _, mode, size: io.BytesIO(content[mode])
        )
        self.refusal = conn.inbox.refusal
        if conn.client:
            self.remote_addr, self.remote_port = conn.client[:2]


class _Cheroot(wsgi.Server):
    """What a request of cheroot asks its server; it serves nothing itself."""

    can_add_keepalive_connection = True
    software = 'novasched'
    max_request_header_size = MOST_HEAD
    max_request_body_size = MOST_BODY

    def error_log(
        self, msg: str = '', level: int = 20, traceback: bool = False
    ) -> None:
        LOG.log(level, '%s', msg, exc_info=traceback)


class ConsoleServer:
    """Serves at a socket that listens already."""

    def __init__(
        self, listening: socket.socket, app: Application, settings: ConsoleSettings
    ) -> None:
        self._listening = listening
        self._tls = _tls(settings) if settings.tls_certificate else None
        self._cheroot = _Cheroot(
            settings.listen.path or listening.getsockname()[:2],
            app,
            server_name='novasched',
            timeout=CLIENT_S,
        )
        self._cheroot.ssl_adapter = self._tls  # where there is one, it is https
        # Connections that have to send or to read, the oldest first, and the others.
        self._pending: dict[Connection, None] = {}
        self._answering: set[Connection] = set()
        # Those that sent a request before they had read the last answer: it is put
        # when no other is there.
        self._ahead: dict[Connection, None] = {}
        self._most_pending = most_pending(settings.threads)
        self._requests: queue.Queue[Connection | None] = queue.Queue(
            settings.threads * WAITING_PER_THREAD
        )
        self._answered: deque[Connection] = deque()
        self._cut = LogOnce()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = socket.socketpair()
        for each in (listening, self._woken, self._waking):
            each.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._is_listening = False
        self._next_check_s = 0.0
        self._stopped = threading.Event()
        # Daemons: none keeps the process from ending.
        self._serving = threading.Thread(
            target=self._serve, name='console', daemon=True
        )
        self._workers = [
            threading.Thread(target=self._work, name=f'console {number}', daemon=True)
            for number in range(settings.threads)
        ]

    def start(self) -> None:
        self._listening.listen(BACKLOG)
        for thread in (self._serving, *self._workers):
            thread.start()

    def stop(self) -> None:
        """Listen no more. Answers to requests that are there may be finished, within
        STOP_S."""
        self._stopped.set()
        self._wake()
        self._serving.join(STOP_S + 2 * TURN_S)

    def _work(self) -> None:
        while (conn := self._requests.get()) is not None:
            self._answer(conn)
            self._answered.append(conn)
            self._wake()

    def _answer(self, conn: Connection) -> None:
        try:
            exchange = _Exchange(self._cheroot, conn)
            is_kept = exchange.communicate()  # type: ignore[no-untyped-call]
            answer = exchange.wfile.getvalue()
            exchange.wfile.close()  # it is part of a cycle, which would keep all of it
        except (Exception, SystemExit):  # one answer fails, the server goes on
            LOG.exception('A request was not answered')
            answer, is_kept = FAILED_ANSWER, False
        if len(answer) > MOST_UNREAD:
            LOG.error('An answer of %d bytes is too long to be sent', len(answer))
            answer, is_kept = FAILED_ANSWER, False
        conn.give(answer, is_last=not is_kept)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # awake, or gone
            self._waking.send(b'.')

    def _serve(self) -> None:
        self._listen(True)
        while not self._stopped.is_set():
            self._turn()
        end_s = SYSTEM_CLOCK.monotonic() + STOP_S
        self._accept()
        self._listen(False)
        self._listening.close()
        self._ahead.clear()
        for conn in list(self._pending):
            self._advance(conn)  # its request may be there
            conn.is_last = True
            if conn in self._pending:
                self._advance(conn)
        while self._pending or self._answering:
            if SYSTEM_CLOCK.monotonic() >= end_s:
                break
            self._turn()
        for conn in (*self._pending, *self._answering):
            self._close(conn)
        with contextlib.suppress(queue.Empty):
            while True:
                self._requests.get_nowait()
        for _ in self._workers:
            self._requests.put_nowait(None)
        for each in (self._selector, self._woken, self._waking):
            each.close()

    def _turn(self) -> None:
        """Wait until something can be done, and do it."""
        for key, _ in self._selector.select(TURN_S):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj is self._woken:
                self._take_answers()
            else:
                self._advance(key.data)
        while self._ahead and self._requests.empty():
            first = next(iter(self._ahead))
            del self._ahead[first]
            self._advance(first)
        now_s = SYSTEM_CLOCK.monotonic()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + TURN_S
            for conn in [each for each in self._pending if each.deadline_s <= now_s]:
                self._close(conn)
            self._listen(not self._stopped.is_set())

    def _listen(self, is_wanted: bool) -> None:
        if is_wanted and not self._is_listening:
            self._selector.register(self._listening, selectors.EVENT_READ)
        elif self._is_listening and not is_wanted:
            self._selector.unregister(self._listening)
        self._is_listening = is_wanted

    def _accept(self) -> None:
        for _ in range(BACKLOG):
            try:
                sock, client = self._listening.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as problem:  # no file can be opened: try again later
                LOG.warning('A connection was not accepted: %s', problem)
                self._listen(False)
                return
            try:
                if self._tls:
                    sock.getpeername()  # what wrap_socket() refuses it leaves open
                    # To receive for the first time shakes hands, too.
                    sock = self._tls.wrap_socket(
                        sock, server_side=True, do_handshake_on_connect=False
                    )
            except OSError:  # the client is gone
                sock.close()
            else:
                # A client at a unix socket may have bound its own to any name.
                has_address = isinstance(client, tuple)
                self._wait_for(Connection(sock, client if has_address else ()))

    def _take_answers(self) -> None:
        self._woken.recv(BACKLOG)
        while self._answered:
            conn = self._answered.popleft()
            conn.is_last = conn.is_last or self._stopped.is_set()
            self._answering.discard(conn)
            self._wait_for(conn)

    def _wait_for(self, conn: Connection) -> None:
        """Take a connection that has to send or to read; another may have to go."""
        self._pending[conn] = None
        self._advance(conn)
        while len(self._pending) > self._most_pending:
            self._cut_off(_oldest(self._pending))
        readers = [each for each in self._pending if each.answer]
        while sum(len(each.answer) for each in readers) > MOST_UNREAD:
            slowest = _oldest(readers)
            readers.remove(slowest)
            self._cut_off(slowest)
        if not readers:
            self._cut.ends()

    def _cut_off(self, conn: Connection) -> None:
        """Close the connection of a slow client; say so once if it has an answer."""
        if conn.answer and self._cut.begins():
            LOG.warning(
                'Answers are cut off: too many clients read slowly, such as %s',
                conn.address or 'one at the socket',
            )
        self._close(conn)

    def _advance(self, conn: Connection) -> None:
        """Do for a connection what needs no waiting, and watch for what it needs."""
        try:
            events = self._proceed(conn)
        except (BlockingIOError, ssl.SSLWantReadError):
            events = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            events = selectors.EVENT_WRITE
        except OSError:  # the client is gone
            self._close(conn)
            return
        except Exception:  # one connection fails, the server goes on
            LOG.exception('A connection failed')
            self._close(conn)
            return
        try:
            self._watch(conn, events)
        except OSError as problem:  # the system watches no more of them
            LOG.warning('A connection cannot be watched: %s', problem)
            self._close(conn)

    def _proceed(self, conn: Connection) -> int:
        """Send, or read and ask; return what is to be watched for. Raises OSError,
        also for a connection that has ended."""
        if conn.answer:
            if not conn.send():
                return selectors.EVENT_WRITE
            if conn.is_last:
                conn.end()
            elif conn.inbox:
                self._ahead[conn] = None
                return 0
        if conn.is_last:
            conn.discard()
        while not (request := conn.inbox.take()):
            conn.receive()
        conn.request = request
        try:
            self._requests.put_nowait(conn)
        except queue.Full:
            conn.give(BUSY_ANSWER, is_last=True)
            return self._proceed(conn)
        del self._pending[conn]
        self._answering.add(conn)
        return 0

    def _watch(self, conn: Connection, events: int) -> None:
        if events == conn.events:
            return
        if conn.events:
            self._selector.unregister(conn.socket)
            conn.events = 0
        if events:
            self._selector.register(conn.socket, events, conn)
        conn.events = events

    def _close(self, conn: Connection) -> None:
        self._watch(conn, 0)
        self._pending.pop(conn, None)
        self._ahead.pop(conn, None)
        conn.socket.close()


def _oldest(conns: Iterable[Connection]) -> Connection:
    """Return the first connection of the address that has most."""
    conns = list(conns)
    most, _ = Counter(conn.address for conn in conns).most_common(1)[0]
    return next(conn for conn in conns if conn.address == most)


def most_pending(threads: int) -> int:
    """Return how many connections may wait, after the process may open as many files
    as they need, if the system lets it."""
    others = OTHER_FILES + threads * (1 + WAITING_PER_THREAD)
    needed = others + MOST_PENDING
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return MOST_PENDING
    possible = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    most = max(possible - others, FEWEST_PENDING)
    said = 'The limit of open files was %d and is %d now; of slow clients %d are kept'
    level = logging.INFO if most == MOST_PENDING else logging.WARNING
    LOG.log(level, said, soft, possible, most)
    return most


def _last_answer(status: HTTPStatus, text: str, **more: str) -> bytes:
    """Return an answer that ends the connection, with these further headers."""
    body = f'{text}\n'.encode()
    headers = {
        'Content-Type': 'text/plain; charset=utf-8',
        'Content-Length': str(len(body)),
        'Connection': 'close',
        **HEADERS,
        **more,
    }
    lines = [f'HTTP/1.1 {status.value} {status.phrase}']
    lines += [f'{name}: {value}' for name, value in headers.items()]
    return '\r\n'.join([*lines, '', '']).encode() + body


FAILED_ANSWER = _last_answer(
    HTTPStatus.INTERNAL_SERVER_ERROR, 'The request was not answered; see the log.'
)
BUSY_ANSWER = _last_answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    'The console has too many clients just now. Try again in a moment.',
    **{'Retry-After': '2'},
)


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
            stack.callback(Path(settings.listen.path).unlink, missing_ok=True)
            where = settings.listen
        else:  # the system has chosen a port for 0
            where = settings.listen._replace(port=listening.getsockname()[1])
        made = ConsoleServer(listening, app, settings)
        made.start()
        stack.callback(made.stop)
        yield where


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


def _tls(settings: ConsoleSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    except OSError as problem:  # ssl.SSLError is one
        raise errors.OptionError(
            f'[{GROUP}] tls_certificate',
            f'{settings.tls_certificate}: {problem.strerror or problem}',
            'Name a certificate and its key, in PEM, that this user can read',
        ) from problem
    return context
