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
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from novasched import errors
from novasched.observability.settings import HEALTH, METRICS, Address, Settings
from novasched.runtime.clock import SYSTEM_CLOCK

LOG = logging.getLogger(__name__)

HEAD_S = 2.0
"""From the connection to the end of the head of its request."""

DEADLINE_S = 5.0
"""From the connection to the end of the answer, however the client sends and reads."""

MOST_CLIENTS = 16
"""Connections that one address serves at a time, each in a thread of its own."""

MOST_HEAD = 16 * 1024
"""Bytes of a request with its headers."""

STOP_S = 5.0

ASK_S = 2.0
"""How long a check waits to learn whose an address is that is in use."""

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


def _head(connection: socket.socket, end_s: float) -> bytes:
    """Return all up to the empty line, or a little more than is allowed, or what
    came before the client closed. Raises TimeoutError at ``end_s``."""
    head = b''
    while b'\r\n\r\n' not in head and len(head) <= MOST_HEAD:
        left_s = end_s - SYSTEM_CLOCK.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        more = connection.recv(MOST_HEAD)
        if not more:
            break
        head += more
    return head


class _HttpHandler(http.server.BaseHTTPRequestHandler):
    """Makes of the head of one request what is ``answered``."""

    server_version = 'novasched'
    sys_version = ''

    def __init__(self, head: bytes, client: Any, routes: Mapping[str, Route]) -> None:
        self.rfile = io.BytesIO(head)
        self.wfile = self.answered = io.BytesIO()
        self.client_address = client
        self._routes = routes
        self.handle()

    def do_GET(self) -> None:
        answer = self._answer()
        self.send_response(answer.status)
        self.send_header('Content-Type', answer.content_type)
        self.send_header('Content-Length', str(len(answer.body)))
        self.send_header('Connection', 'close')
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self) -> Response:
        route = self._routes.get(self.path.partition('?')[0])
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


class Endpoint:
    """Answers at one address, in at most ``most_clients`` threads of its own.

    A client that is not done within ``deadline_s`` is cut off. Where all threads are
    taken, a new client gets the place of the one that has been waited for longest.
    """

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, Route],
        most_clients: int = MOST_CLIENTS,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._address = address
        self._routes = routes
        self._deadline_s = deadline_s
        self._free = threading.BoundedSemaphore(most_clients)
        self._waits: dict[socket.socket, None] = {}
        self._dropped: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._listening: socket.socket | None = None
        self._thread = threading.Thread(
            target=self._accept, name=f'http {address}', daemon=True
        )

    def start(self) -> None:
        """Listen. Raises OSError."""
        self._listening = listen(self._address)
        self._thread.start()

    @property
    def port(self) -> int:
        """The TCP port that is listened at; 0: none."""
        if self._listening is None or self._address.path:
            return 0
        return int(self._listening.getsockname()[1])

    def stop(self) -> None:
        """Listen no more, and remove the socket from the file system."""
        if self._listening is None:
            return
        self._stopped.set()
        with contextlib.suppress(OSError):  # wakes the thread that accepts
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(STOP_S)
        self._listening.close()
        self._listening = None
        if self._address.path:
            os.unlink(self._address.path)

    def _accept(self) -> None:
        """Serve until stopped. Nothing is polled, which among eventlet's threads
        would hold up all others."""
        listening = self._listening
        while listening is not None and not self._stopped.is_set():
            try:
                self._begin(*listening.accept())
            except OSError as problem:
                if not self._stopped.wait(FAILED_ACCEPT_S):
                    LOG.warning('A connection was not accepted: %s', problem)

    def _begin(self, connection: socket.socket, client: Any) -> None:
        """Serve a client in a thread, or refuse it at once when all are answering."""
        if self._free.acquire(blocking=False) or self._drop_oldest():
            with self._lock:
                self._waits[connection] = None
            serving = threading.Thread(
                target=self._serve, args=(connection, client), daemon=True
            )
            try:
                serving.start()
            except RuntimeError as problem:  # the system has no thread left
                LOG.warning('A connection was not served: %s', problem)
                self._end(connection)
            return
        with contextlib.suppress(OSError):
            connection.setblocking(False)
            connection.send(_refusal(http.HTTPStatus.SERVICE_UNAVAILABLE))
        _close(connection)

    def _drop_oldest(self) -> bool:
        """Cut off the client that has been waited for longest; return whether there
        is one, whose place is then the caller's."""
        with self._lock:
            oldest = next(iter(self._waits), None)
            if oldest is None:
                return False
            del self._waits[oldest]
            self._dropped.add(oldest)
            with contextlib.suppress(OSError):  # wakes its thread
                oldest.shutdown(socket.SHUT_RDWR)
            return True

    def _has_place(self, connection: socket.socket) -> bool:
        """Count a connection as waited for no longer; return whether it
        has kept its place."""
        with self._lock:
            self._waits.pop(connection, None)
            return connection not in self._dropped

    def _serve(self, connection: socket.socket, client: Any) -> None:
        end_s = SYSTEM_CLOCK.monotonic() + self._deadline_s
        try:
            head = self._received(connection, end_s)
            if not self._has_place(connection):
                return
            answer = self._answer(head, client)
            with self._lock:
                self._waits[connection] = None
            # sendall() has one timeout for all of it.
            connection.settimeout(max(end_s - SYSTEM_CLOCK.monotonic(), 0.1))
            connection.sendall(answer)
        except Exception:  # a client that went away is no error
            LOG.debug('An answer was not sent', exc_info=True)
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        """Close a connection; its place is free unless another has got it."""
        if self._has_place(connection):
            _close(connection)
            self._free.release()
        else:
            self._dropped.discard(connection)
            connection.close()

    def _received(self, connection: socket.socket, end_s: float) -> bytes | None:
        try:
            return _head(connection, min(end_s, SYSTEM_CLOCK.monotonic() + HEAD_S))
        except TimeoutError:
            return None

    def _answer(self, head: bytes | None, client: Any) -> bytes:
        if head is None:
            return _refusal(http.HTTPStatus.REQUEST_TIMEOUT)
        if len(head) > MOST_HEAD:
            return _refusal(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return _HttpHandler(head, client, self._routes).answered.getvalue()


def _close(connection: socket.socket) -> None:
    """Close a connection, after what was sent."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()


def ask(path: str, url: str, timeout_s: float) -> tuple[int, bytes]:
    """Ask the server at a unix socket; return status and body.

    Raises OSError, of which ConnectionRefusedError and FileNotFoundError say that
    nothing listens there, TimeoutError that no answer came in time; and
    http.client.HTTPException.
    """
    with _connected(Address(path=path), timeout_s) as asking:
        asking.sendall(f'GET {url} HTTP/1.0\r\n\r\n'.encode())
        with http.client.HTTPResponse(asking) as answer:
            answer.begin()
            return answer.status, answer.read()


def _connected(address: Address, timeout_s: float) -> socket.socket:
    """Return a connection to an address. Raises OSError."""
    if not address.path:
        return socket.create_connection((address.host, address.port), timeout_s)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        made.connect(address.path)
    except OSError:
        made.close()
        raise
    return made


def check(conf: Any) -> None:
    """Find out whether the addresses can be used. Raises errors.OptionError."""
    for option, address, problem in _unusable(conf):
        raise _refused(option, address, problem)


def held_by_schedulers(conf: Any) -> Iterator[str]:
    """Yield a line for each address where a scheduler answers already, maybe the one
    that is to be replaced.

    Raises errors.OptionError for an address that cannot be used for another reason.
    """
    for option, address, problem in _unusable(conf):
        if problem.errno != errno.EADDRINUSE or not _is_ours(address):
            raise _refused(option, address, problem)
        yield (
            f'{option}: {address} is held by a novasched-scheduler that runs. Before '
            'another one starts on this host, stop it, or name another address.'
        )


def _unusable(conf: Any) -> Iterator[tuple[str, Address, OSError]]:
    """Yield the option, the address and why, for each where nothing can listen."""
    settings = Settings.from_conf(conf)
    for option, addresses in ((HEALTH, settings.health), (METRICS, settings.metrics)):
        for address in addresses:
            try:
                listen(address).close()
            except OSError as problem:
                yield option, address, problem
            else:
                if address.path:
                    os.unlink(address.path)


def _refused(option: str, address: Address, problem: OSError) -> errors.OptionError:
    return errors.OptionError(
        option,
        f'{address}: {problem.strerror or problem}',
        'Name an address of this host that is not in use.',
    )


def _is_ours(address: Address) -> bool:
    """Return whether a server of this module answers there."""
    try:
        with _connected(address, ASK_S) as asking:
            asking.sendall(b'HEAD / HTTP/1.0\r\n\r\n')
            head = _head(asking, SYSTEM_CLOCK.monotonic() + ASK_S)
    except OSError:
        return False
    return f'Server: {_HttpHandler.server_version}'.encode() in head


def listen(address: Address, mode: int | None = None) -> socket.socket:
    """Return a socket that listens. Raises OSError.

    A unix socket without a listener is replaced. Its ``mode`` is what the umask
    leaves, if None.
    """
    family: int = socket.AF_UNIX
    place: Any = address.path
    if address.path:
        _clear(address.path)
    else:
        family, _, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.path and mode is not None:
            os.fchmod(made.fileno(), mode)  # less the umask, until it is there
        made.bind(place)
        if address.path and mode is not None:
            os.chmod(address.path, mode)
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
    try:
        _connected(Address(path=path), 1.0).close()
    except ConnectionRefusedError:
        os.unlink(path)
        return
    except TimeoutError:
        pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
