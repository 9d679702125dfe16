# SPDX-License-Identifier: Apache-2.0
"""Many clients of the console at once, odd ones, and its end."""

import contextlib
import errno
import os
import resource
import selectors
import socket
import threading
import time

import pytest

from novasched.console import connection, web_server
from novasched.console.security import HEADERS
from novasched.console.settings import ConsoleSettings
from novasched.observability import serving
from novasched.observability.settings import Address
from tests.functional.console_clients import (
    END_S,
    LOCAL,
    Waiting,
    ask,
    connected,
    get,
    plain,
    received,
    serve,
    the_server,
)
from tests.live.servers.process import wait_until

__all__ = ['serve']


class TestLoad:
    def test_request_beyond_the_full_queue_gets_503(self, serve):
        app = Waiting()
        where = serve(app, threads=2)
        places = 2 + 2 * web_server.WAITING_PER_THREAD
        with contextlib.ExitStack() as stack:
            stack.callback(app.end)
            clients = [stack.enter_context(connected(where)) for _ in range(places + 5)]
            for number, client in enumerate(clients):
                client.sendall(get('/mine'))
                if number < 2:
                    assert app.begun.acquire(timeout=END_S)
            with selectors.DefaultSelector() as answered:
                for client in clients:
                    answered.register(client, selectors.EVENT_READ)
                refused = set()
                while len(refused) < 5:
                    ready = answered.select(END_S)
                    assert ready
                    refused |= {key.fileobj for key, _ in ready}
            for client in refused:
                answer = received(client)
                assert answer.status == 503
                assert HEADERS.items() <= answer.headers.items()
                assert int(answer.headers['Retry-After']) > 0
                assert 'too many clients' in answer.text
            app.end()
            served = set(clients) - refused
            assert [received(each).text for each in served] == ['/mine'] * places
        assert ask(where, '/again').text == '/again'

    def test_too_many_that_wait_lose_the_oldest_of_the_address_that_has_most(
        self, serve, monkeypatch
    ):
        monkeypatch.setattr(web_server, 'MOST_PENDING', 20)
        where = serve(plain, threads=1)
        with contextlib.ExitStack() as stack:
            first = socket.create_connection(where[:2], END_S, ('127.0.0.2', 0))
            stack.enter_context(first)
            idle = [stack.enter_context(connected(where)) for _ in range(60)]
            assert ask(where, '/here').text == '/here'
            assert all(each.recv(1) == b'' for each in idle[:40])
            first.sendall(get('/first'))
            assert received(first).text == '/first'

    @pytest.fixture
    def ahead(self, serve):
        """An application, where it is, and clients who have sent two requests each,
        of whom one has its first answer."""
        app = Waiting()
        where = serve(app, threads=1)
        with contextlib.ExitStack() as stack:
            stack.callback(app.end)
            made = []
            for number in range(1 + web_server.WAITING_PER_THREAD):
                made.append(stack.enter_context(connected(where)))
                made[-1].sendall(get('/first') + get('/ahead'))
                if not number:
                    assert app.begun.acquire(timeout=END_S)
            server, others = the_server(), len(made) - 1
            wait_until(lambda: server._requests.qsize() == others, END_S, 'the others')
            app.end(1)
            assert received(made[0]).text == '/first'
            assert app.begun.acquire(timeout=END_S)
            # Its time has begun when it is put behind the others.
            wait_until(lambda: server._ahead, END_S, 'the request sent ahead')
            yield app, where, made

    def test_requests_of_others_precede_pipelined_requests(self, ahead):
        app, where, clients = ahead
        with connected(where) as other:
            other.sendall(get('/other'))
            wait_until(the_server()._requests.full, END_S, 'all that are before it')
            app.end()
            assert received(other).text == '/other'
        assert {received(each).text for each in clients[1:]} == {'/first'}
        assert {received(each).text for each in clients} == {'/ahead'}
        assert app.asked == ['/first'] * 5 + ['/other'] + ['/ahead'] * 5

    def test_of_a_client_cut_off_no_request_is_answered(
        self, monkeypatch, ahead, caplog
    ):
        app, _, clients = ahead
        with monkeypatch.context() as patched:
            late = time.monotonic() + 2 * connection.CLIENT_S
            patched.setattr(web_server.SYSTEM_CLOCK, 'monotonic', lambda: late)
            assert clients[0].recv(1) == b''
        app.end()
        assert {received(each).text for each in clients[1:]} == {'/first'}
        assert {received(each).text for each in clients[1:]} == {'/ahead'}
        assert app.asked == ['/first'] * 5 + ['/ahead'] * 4
        assert caplog.text == ''

    @pytest.mark.parametrize('problem', [OSError, SystemExit])
    def test_an_application_that_fails_badly_ends_its_connection_alone(
        self, serve, problem
    ):
        def failing(environ, start_response):
            if environ['PATH_INFO'] == '/here':
                return plain(environ, start_response)
            raise problem  # an OSError without a number

        where = serve(failing, threads=1)
        answer = ask(where, '/fails')
        assert (answer.status, 'see the log' in answer.text) == (500, True)
        assert ask(where, '/here').text == '/here'

    @pytest.mark.parametrize('name', ['x', 'client.sock', '\0x', ''])
    def test_client_at_a_socket_has_no_address(
        self, serve, tmp_path, monkeypatch, name
    ):
        def addressed(environ, start_response):
            start_response('200 OK', [])
            return [environ.get('REMOTE_ADDR', '').encode()]

        monkeypatch.chdir(tmp_path)
        where = serve(addressed, Address(path=str(tmp_path / 'console.sock')))
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(END_S)
            if name:
                client.bind(name)
            client.connect(where.path)
            client.sendall(b'GET /here HTTP/1.0\r\n\r\n')
            assert received(client).text == ''

    def test_a_connection_that_cannot_be_watched_ends_alone(
        self, serve, monkeypatch, caplog
    ):
        class Full(web_server.selectors.DefaultSelector):
            def register(self, fileobj, events, data=None):
                if data is not None:
                    monkeypatch.undo()
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().register(fileobj, events, data)

        where = serve(plain)
        monkeypatch.setattr(the_server()._selector, '__class__', Full)
        with connected(where) as odd:
            assert odd.recv(1) == b''
        assert 'cannot be watched: [Errno 28]' in caplog.text
        assert ask(where, '/here').text == '/here'

    def test_a_connection_that_fails_is_logged_and_the_others_are_served(
        self, serve, monkeypatch, caplog
    ):
        monkeypatch.setattr(connection, 'body_length', lambda head: 1 // 0)
        where = serve(plain)
        with connected(where) as odd:
            odd.sendall(get('/odd'))
            assert odd.recv(1) == b''
        assert 'A connection failed' in caplog.text
        monkeypatch.undo()
        assert ask(where, '/here').text == '/here'

    def test_while_no_file_can_be_opened_nothing_is_tried_all_the_time(
        self, serve, monkeypatch, caplog
    ):
        class Full(socket.socket):
            is_first, until = True, 0.0

            def accept(self):
                if Full.is_first:
                    Full.is_first = False
                    raise ConnectionAbortedError('aborted')
                Full.until = Full.until or time.monotonic() + 0.3
                if time.monotonic() < Full.until:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                return super().accept()

        monkeypatch.setattr(web_server, 'TURN_S', 0.1)
        with monkeypatch.context() as patched:
            patched.setattr(serving.socket, 'socket', Full)
            where = serve(plain)
        assert ask(where, '/here').text == '/here'
        assert 0 < caplog.text.count('Too many open files') < 5
        assert 'aborted' not in caplog.text

    @pytest.mark.parametrize(
        ('soft', 'hard', 'is_set_to', 'most'),
        [
            (1024, 4096, None, 512),
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 512),
            (256, 4096, 808, 512),
            (256, resource.RLIM_INFINITY, 808, 512),
            (256, 500, 500, 204),
            (64, 64, 64, 16),
        ],
    )
    def test_clients_that_wait_fit_the_limit_of_open_files(
        self, monkeypatch, caplog, soft, hard, is_set_to, most
    ):
        was_set = []
        monkeypatch.setattr(resource, 'getrlimit', lambda kind: (soft, hard))
        monkeypatch.setattr(
            resource, 'setrlimit', lambda kind, limits: was_set.append(limits)
        )
        caplog.set_level('INFO')
        assert web_server.most_pending(8) == most
        assert was_set == ([(is_set_to, hard)] if is_set_to else [])
        assert (f'and is {is_set_to} now' in caplog.text) == bool(is_set_to)

    @pytest.mark.parametrize('kind', ['unix', 'tcp'])
    def test_request_in_progress_is_answered_at_the_end(self, tmp_path, kind, caplog):
        by_path = Address(path=str(tmp_path / 'console.sock'))
        listen = by_path if kind == 'unix' else LOCAL
        app = Waiting()
        with contextlib.ExitStack() as stack:
            settings = ConsoleSettings(listen=listen, threads=1)
            where = stack.enter_context(web_server.served(app, settings))
            idle, asking, ahead = (connected(where) for _ in range(3))
            with idle, asking, ahead:
                asking.sendall(get('/mine'))
                assert app.begun.acquire(timeout=END_S)
                ahead.sendall(get('/next') * 2)
                ending = threading.Thread(target=stack.close)
                ending.start()
                assert idle.recv(1) == b''  # it is being stopped
                app.end()
                assert received(asking).text == '/mine'
                assert received(ahead).text == '/next'
                assert ahead.recv(1) == b''
                ending.join(END_S)
                assert not ending.is_alive()
        with pytest.raises(OSError, match=r'refused|No such file'):
            connected(where)
        assert caplog.text == ''

    def test_request_sent_before_the_end_is_answered(self, monkeypatch):
        """The thread that reads is busy while a client asks and another connects."""
        turn = web_server.ConsoleServer._turn
        busy, may_go_on = threading.Event(), threading.Event()

        def held_up(server):
            if may_go_on.is_set():
                turn(server)
            else:
                busy.set()
                assert may_go_on.wait(END_S)

        with contextlib.ExitStack() as stack:
            settings = ConsoleSettings(listen=LOCAL, threads=1)
            where = stack.enter_context(web_server.served(plain, settings))
            with connected(where) as known:
                known.sendall(get('/known'))
                assert received(known).text == '/known'
                monkeypatch.setattr(web_server.ConsoleServer, '_turn', held_up)
                assert busy.wait(END_S)
                stopped = the_server()._stopped
                with connected(where) as late:
                    known.sendall(get('/again'))
                    late.sendall(get('/late'))
                    ending = threading.Thread(target=stack.close)
                    ending.start()
                    assert stopped.wait(END_S)
                    may_go_on.set()
                    assert received(known).text == '/again'
                    assert received(late).text == '/late'
                ending.join(END_S)

    def test_the_end_waits_neither_for_an_answer_nor_for_a_client_for_ever(
        self, monkeypatch
    ):
        monkeypatch.setattr(web_server, 'STOP_S', 0.2)
        monkeypatch.setattr(web_server, 'TURN_S', 0.1)
        app = Waiting()
        with contextlib.ExitStack() as stack:
            stack.callback(app.end)
            settings = ConsoleSettings(listen=LOCAL, threads=1)
            with web_server.served(app, settings) as where:
                clients = [stack.enter_context(connected(where)) for _ in range(3)]
                for each in clients:
                    each.sendall(get('/mine'))
                assert app.begun.acquire(timeout=END_S)
                before = time.monotonic()
            assert time.monotonic() - before < connection.CLIENT_S / 2
            assert all(each.recv(1) == b'' for each in clients)
            app.end()
            for thread in threading.enumerate():
                if thread.name.startswith('console'):
                    thread.join(END_S)
            assert app.asked == ['/mine']
