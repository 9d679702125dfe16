# SPDX-License-Identifier: Apache-2.0
"""Clients of the console that are slow, or go away."""

import contextlib
import gc
import socket
import ssl
import struct
import subprocess
import time
import tracemalloc

import pytest

from novasched.console import connection, web_server
from tests.functional.console_clients import (
    END_S,
    ask,
    connected,
    get,
    plain,
    received,
    serve,
    the_server,
)
from tests.functional.endpoints import HERE
from tests.live.servers.process import wait_until

__all__ = ['serve']

SLOW = {
    'nothing': b'',
    'half a head': b'GET /slow HTTP/1.1\r\nA: ',
    'half a body': b'POST /slow HTTP/1.1\r\nContent-Length: 9999\r\n\r\n',
    'many requests': get('/slow') * 300,
    'a request of much': get('/much'),
}
HALF_A_HELLO = b'\x16\x03\x01\x02\x00\x01'
"""Of a client that begins to shake hands for TLS."""
KINDS = [
    *((name, sent, False, False) for name, sent in SLOW.items()),
    ('nothing', b'', True, False),
    ('half a hello', HALF_A_HELLO, True, False),
    *((f'{name} by TLS', sent, True, True) for name, sent in SLOW.items()),
]
OTHERS = {f'{name} by TLS' for name in SLOW} - {'half a body by TLS'}
RESET = struct.pack('ii', 1, 0)
"""Option of a socket that resets its connection when it is closed."""
MUCH = 5_000_000
"""Bytes, more than the kernel takes for a client that does not read."""


def much(environ, start_response):
    """An application some of whose answers are long."""
    if environ['PATH_INFO'] != '/much':
        return plain(environ, start_response)
    start_response('200 OK', [('Content-Length', str(MUCH))])
    return [b'x' * MUCH]


@pytest.fixture(scope='module')
def certificate(tmp_path_factory):
    """A certificate for this machine, with its key, made by openssl."""
    directory = tmp_path_factory.mktemp('tls')
    path, made = directory / 'console.pem', directory / 'only.pem'
    words = f'req -x509 -newkey rsa:2048 -nodes -days 1 -keyout {path} -out {made}'
    names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
    command = ['openssl', *words.split(), *names]
    subprocess.run(command, check=True, capture_output=True)
    with path.open('a') as file:
        file.write(made.read_text())
    return str(path)


class Clients:
    """Clients of one kind, that have sent what such ones send, and others."""

    def __init__(self, kind, certificate):
        self.name, self._sent, self._has_tls, self._shakes_hands = kind
        self.options = {'tls_certificate': certificate} if self._has_tls else {}
        self._trusting = ssl.create_default_context(cafile=certificate)

    def slow(self, where):
        made = self._connect(where, self._shakes_hands)
        made.sendall(self._sent)
        if self._sent.startswith(b'GET') and 'half' not in self.name:
            assert made.recv(1) == b'H'  # it is being answered
        return made

    def ask(self, where):
        """A request of another client, with time to spare."""
        with self._connect(where, self._has_tls) as made:
            made.sendall(get('/here'))
            assert received(made).text == '/here'

    def _connect(self, where, shakes_hands):
        made = connected(where)
        if not shakes_hands:
            return made
        return self._trusting.wrap_socket(made, server_hostname=HERE)


@pytest.fixture
def clients_of(certificate):
    """Clients who have sent nothing yet, plain or by TLS."""
    return lambda by_tls: Clients(('', b'', by_tls, by_tls), certificate)


MORE = pytest.mark.exhaustive('one kind of client by TLS is in the first tier')


@pytest.fixture(
    params=[
        pytest.param(kind, id=kind[0], marks=[MORE] * (kind[0] in OTHERS))
        for kind in KINDS
    ]
)
def clients(request, certificate):
    return Clients(request.param, certificate)


def read_to_the_end(client):
    """How many bytes it gets; also a reset is an end."""
    count = 0
    with contextlib.suppress(ConnectionResetError, ssl.SSLEOFError):
        while more := client.recv(1_000_000):
            count += len(more)
    return count


class TestSlowClients:
    def test_they_hold_up_no_other(self, serve, clients, monkeypatch):
        monkeypatch.setattr(connection, 'CLIENT_S', 60)
        where = serve(much, threads=1, **clients.options)
        since = time.monotonic()
        with contextlib.ExitStack() as stack:
            for _ in range(12):
                stack.enter_context(clients.slow(where))
            for _ in range(5):
                clients.ask(where)
            assert time.monotonic() - since < 0.8 * connection.CLIENT_S

    def test_they_are_cut_off_in_time(self, serve, clients, monkeypatch):
        has_begun = clients.name.startswith(('half a head', 'half a body'))
        limit = 'REQUEST_S' if has_begun else 'CLIENT_S'
        monkeypatch.setattr(connection, limit, 1.5)
        monkeypatch.setattr(web_server, 'TURN_S', 0.1)
        where = serve(much, threads=1, **clients.options)
        since, count, server = time.monotonic(), 0, the_server()
        with clients.slow(where) as slow:
            slow.settimeout(0.1)
            while server._pending or server._answering:
                assert time.monotonic() - since < END_S
                # Whatever little it sends or reads.
                with contextlib.suppress(TimeoutError, OSError):
                    if 'half' in clients.name:
                        slow.sendall(b'x')
                    count += len(slow.recv(1))
                time.sleep(0.01)
            slow.settimeout(END_S)
            count += read_to_the_end(slow)
        assert time.monotonic() - since < END_S
        assert count < MUCH

    def test_they_may_go_away_at_any_time(self, serve, clients, caplog):
        where = serve(much, threads=1, **clients.options)
        for is_reset in (False, True):
            with clients.slow(where) as slow:
                if is_reset:
                    slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            clients.ask(where)
        assert caplog.text == ''

    def test_tls_clients_that_reset_before_they_are_accepted_are_no_errors(
        self, serve, clients_of, caplog
    ):
        clients = clients_of(True)
        where = serve(plain, **clients.options)
        for _ in range(50):
            with connected(where) as odd:
                odd.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        clients.ask(where)
        assert caplog.text == ''

    def test_an_answer_that_was_read_is_kept_no_longer(self, serve):
        where = serve(much)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(3):
                assert len(ask(where, '/much').text) == MUCH
            wait_until(
                lambda: tracemalloc.get_traced_memory()[0] < MUCH,
                END_S,
                'the memory back',
            )
        finally:
            tracemalloc.stop()
            gc.enable()

    @pytest.mark.parametrize('by_tls', [False, True], ids=['plain', 'by TLS'])
    def test_the_last_answer_is_whole_whatever_else_the_client_has_sent(
        self, serve, clients_of, by_tls
    ):
        clients = clients_of(by_tls)
        where = serve(much, **clients.options)
        with clients.slow(where) as slow:
            slow.sendall(b'GET /much HTTP/1.0\r\n\r\n')
            assert slow.recv(1) == b'H'
            slow.sendall(b'x' * 1000)  # nobody wants it
            time.sleep(0.2)
            assert read_to_the_end(slow) > MUCH

    def test_a_client_that_sends_on_for_ever_is_cut_off(self, serve, monkeypatch):
        monkeypatch.setattr(connection, 'MOST_DISCARDED', 100_000)
        where = serve(plain)
        with connected(where) as client:
            client.sendall(b'GET /here HTTP/1.0\r\n\r\n')
            with pytest.raises(OSError, match=r'reset|Broken pipe'):
                client.sendall(b'x' * 100_000_000)

    def test_long_answers_are_kept_for_those_who_came_last(
        self, serve, monkeypatch, caplog
    ):
        monkeypatch.setattr(web_server, 'MOST_UNREAD', 3 * MUCH)
        where = serve(much)
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(connected(where)) for _ in range(3)]
            for each in slow:
                each.sendall(get('/much'))
                assert each.recv(1, socket.MSG_PEEK) == b'H'
            assert read_to_the_end(slow[0]) < MUCH
            assert [len(received(each).text) for each in slow[1:]] == [MUCH, MUCH]
        assert caplog.text.count('Answers are cut off: ') == 1

    def test_an_answer_that_is_too_long_is_an_error(self, serve, monkeypatch, caplog):
        monkeypatch.setattr(web_server, 'MOST_UNREAD', MUCH)
        where = serve(much)
        assert ask(where, '/much').status == 500
        assert 'is too long to be sent' in caplog.text
        assert ask(where, '/here').text == '/here'
