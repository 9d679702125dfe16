# SPDX-License-Identifier: Apache-2.0
"""The server of the console: where it listens, what answers have, who is refused."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import stat
import subprocess
import threading
import time

import pytest

from novasched import errors
from novasched.console import app, security, web_server
from novasched.console.security import HEADERS, Guard
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address
from tests.functional.console_clients import END_S, ask, connected, received, said
from tests.functional.endpoints import HERE

LOCAL = Address(HERE, 0)


class EmptyCloud:
    """A reader for which every question but that of hosts is one too many."""

    def overview(self):
        raise errors.Busy(2, 'too much is asked')

    health = overview

    def plan(self, order):
        raise errors.Busy(2, 'a dry run')

    capacity = plan

    def hosts(self, order):
        chosen = {key: [] for key in ('cells', 'zones', 'aggregates')}
        return {'hosts': [], 'total': 0, 'page': 1, 'pages': 1, **chosen}

    def flavors(self):
        return []


@contextlib.contextmanager
def console(listen, **options):
    """Serve the console of an empty cloud; yield where."""
    settings = ConsoleSettings(listen=listen, **options)
    made = app.create(EmptyCloud())
    security.install(made, settings)
    with web_server.served(made, settings) as where:
        yield where


@pytest.fixture(scope='module', params=['unix', 'tcp'])
def address(request, tmp_path_factory):
    """Where a console is, by each way."""
    by_path = Address(path=str(tmp_path_factory.mktemp('run') / 'console.sock'))
    with console(by_path if request.param == 'unix' else LOCAL) as where:
        yield where


@pytest.fixture
def serve():
    """Serve an application; return where."""
    with contextlib.ExitStack() as stack:

        def start(made, listen=LOCAL, **options):
            settings = ConsoleSettings(listen=listen, **options)
            return stack.enter_context(web_server.served(made, settings))

        yield start


def plain(environ, start_response):
    """An application that says in what it was called."""
    text = environ['PATH_INFO'].encode()
    start_response('200 OK', [('Content-Length', str(len(text)))])
    return [text]


class Waiting:
    """An application that answers when a test says so."""

    def __init__(self):
        self.begun, self.may_end = threading.Semaphore(0), threading.Event()

    def __call__(self, environ, start_response):
        self.begun.release()
        assert self.may_end.wait(END_S)
        return plain(environ, start_response)


@pytest.fixture(scope='module')
def login():
    """Ask for /login as a form is sent."""
    settings = ConsoleSettings(listen=LOCAL, has_keystone=True)
    with web_server.served(Guard(plain, settings), settings) as where:

        def send(path='/login', **headers):
            return ask(where, path, 'POST', Content_Length='0', **headers)

        yield send


class TestListening:
    def test_a_socket_is_of_its_user_and_group_and_goes_with_its_server(self, tmp_path):
        path = tmp_path / 'console.sock'
        settings = ConsoleSettings(listen=Address(path=str(path)))
        with web_server.served(plain, settings) as where:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
            assert ask(where, '/here').text == '/here'
        assert not path.exists()

    def test_what_a_killed_console_left_is_replaced(self, serve, tmp_path):
        path = str(tmp_path / 'console.sock')
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        assert ask(serve(plain, Address(path=path)), '/here').text == '/here'

    def test_a_socket_in_use_and_a_file_are_left_alone(self, serve, tmp_path):
        used = serve(plain, Address(path=str(tmp_path / 'console.sock')))
        (tmp_path / 'file').write_text('mine')
        for name in ('console.sock', 'file'):
            with pytest.raises(errors.OptionError, match=rf'listen.*{name}.*(use|exi)'):
                serve(plain, Address(path=str(tmp_path / name)))
        assert (tmp_path / 'file').read_text() == 'mine'
        assert ask(used, '/here').status == 200

    def test_a_port_in_use_and_a_directory_that_is_not_there_are_named(
        self, serve, tmp_path
    ):
        port = serve(plain).port
        said = rf'{port}.*in use.*Name an address .* that is not in use'
        with pytest.raises(errors.OptionError, match=said):
            serve(plain, Address(HERE, port))
        with pytest.raises(errors.OptionError, match=r'directory that there is'):
            serve(plain, Address(path=str(tmp_path / 'none' / 'console.sock')))


class TestHeaders:
    @pytest.mark.parametrize(
        ('path', 'method', 'status'),
        [
            ('/hosts', 'GET', 200),
            ('/hosts', 'HEAD', 200),
            ('/api/v1/hosts', 'GET', 200),
            ('/static/console.css', 'GET', 200),
            ('/static/none.css', 'GET', 404),
            ('/nothing', 'GET', 404),
            ('/', 'GET', 503),
            ('/metrics', 'GET', 503),
            ('/api/v1/', 'GET', 503),
            ('/hosts', 'POST', 405),
            ('/api/v1/hosts', 'PUT', 405),
            ('/login', 'DELETE', 405),
        ],
    )
    def test_every_answer_has_them_once(self, address, path, method, status):
        answer = ask(address, path, method)
        assert answer.status == status
        assert HEADERS.items() <= answer.headers.items()
        names = [name.lower() for name, _ in answer.all_headers]
        assert all(names.count(name.lower()) == 1 for name in HEADERS)
        assert bool(answer.text) == (method != 'HEAD')

    @pytest.mark.parametrize(
        ('content', 'status'),
        [
            (b'nonsense\r\n\r\n', 400),
            (b'GET / HTTP/7.0\r\n\r\n', 505),
            (b'GET / HTTP/1.1\r\nno header\r\n\r\n', 400),
            (b'GET / HTTP/1.1\r\nA: %s\r\n\r\n' % (b'x' * web_server.MOST_HEAD), 413),
            (b'POST /login HTTP/1.1\r\nContent-Length: 99999\r\n\r\n', 413),
            (b'GET /%s HTTP/1.1\r\n\r\n' % (b'x' * web_server.MOST_HEAD), 414),
        ],
    )
    def test_also_those_the_application_never_sees(self, address, content, status):
        answer = said(address, content)
        assert answer.status == status
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers['Connection'] == 'close'
        assert answer.text

    def test_what_fails_has_them_and_tells_nothing(self, serve):
        def broken(environ, start_response):
            raise ZeroDivisionError('a secret')

        settings = ConsoleSettings(listen=LOCAL)
        answer = ask(serve(Guard(broken, settings)))
        assert answer.status == 500
        assert HEADERS.items() <= answer.headers.items()
        assert 'secret' not in answer.text


class TestReading:
    @pytest.mark.parametrize('method', ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
    def test_nothing_can_be_sent(self, address, method):
        answer = ask(address, '/plan', method, Content_Length='0')
        assert (answer.status, answer.headers['Allow']) == (405, 'GET, HEAD')
        assert 'nothing can be changed' in answer.text

    def test_requests_sent_at_once_are_answered_in_turn(self, address):
        request = b'GET /hosts HTTP/1.1\r\nHost: localhost\r\n\r\n'
        with connected(address) as connection:
            connection.sendall(request * 3)
            content = b''
            connection.settimeout(web_server.CLIENT_S / 2)
            while content.count(b'HTTP/1.1 200 OK') < 3:
                more = connection.recv(100_000)
                assert more
                content += more

    def test_a_connection_is_kept_from_one_answer_to_the_next(self, address):
        with connected(address) as connection:
            for _ in range(3):
                connection.sendall(b'GET /hosts HTTP/1.1\r\nHost: localhost\r\n\r\n')
                assert received(connection).status == 200


class TestHost:
    @pytest.mark.parametrize('host', ['localhost', '127.0.0.1:9109', '[::1]:9109'])
    def test_the_own_names_are_answered(self, address, host):
        assert ask(address, Host=host).status == 200

    @pytest.mark.parametrize(
        'host', ['evil.test', 'evil.test:9109', 'localhost.evil.test', '', '[', '127.1']
    )
    def test_others_are_refused(self, address, host):
        answer = ask(address, Host=host)
        assert answer.status == 403
        assert 'allowed_hosts' in answer.text

    def test_a_request_without_one_is_refused(self, address):
        assert said(address, b'GET /hosts HTTP/1.0\r\n\r\n').status == 403

    def test_names_can_be_allowed(self):
        with console(LOCAL, allowed_hosts=frozenset({'console.test'})) as where:
            assert ask(where, Host='Console.Test:80').status == 200
            assert ask(where, Host='localhost').status == 403

    def test_with_keystone_any_name_will_do(self):
        with console(LOCAL, has_keystone=True) as where:
            assert ask(where, Host='anything.test').status == 200


class TestOrigin:
    @pytest.mark.parametrize(
        'headers',
        [
            {'Origin': 'http://localhost:9109'},
            {'Origin': 'null', 'Sec_Fetch_Site': 'same-origin'},
        ],
    )
    def test_own_pages_may_log_in_and_out(self, login, headers):
        assert login(**headers).status == 200
        assert login('/logout', **headers).status == 200

    @pytest.mark.parametrize(
        'headers',
        [
            {},
            {'Origin': 'null'},
            {'Origin': 'http://evil.test'},
            {'Origin': 'http://localhost'},
            {'Origin': 'http://localhost:9109', 'Sec_Fetch_Site': 'cross-site'},
            {'Origin': 'http://localhost:9109', 'Sec_Fetch_Site': 'same-site'},
        ],
    )
    def test_pages_of_others_may_not(self, login, headers):
        answer = login(**headers)
        assert answer.status == 403
        assert HEADERS.items() <= answer.headers.items()

    def test_nothing_else_can_be_sent(self, login):
        own = {'Origin': 'http://localhost:9109'}
        for path in ('/', '/plan', '/login/', '/login/x'):
            assert login(path, **own).status == 405

    def test_where_nobody_is_asked_there_is_nothing_to_log_in_to(self, address):
        own = {'Origin': 'http://localhost:9109'}
        assert ask(address, '/login', 'POST', **own).status == 405


class TestOtherSites:
    @pytest.mark.parametrize('site', ['cross-site', 'same-site'])
    @pytest.mark.parametrize(
        ('path', 'kind'),
        [
            ('/hosts', 'image'),
            ('/hosts', 'iframe'),
            ('/hosts', 'empty'),
            ('/api/v1/hosts', 'document'),
            ('/capacity/heat?flavor=m1.tiny', 'document'),
        ],
    )
    def test_they_may_embed_nothing_and_not_ask_the_api(
        self, address, path, kind, site
    ):
        sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Dest': kind}
        answer = ask(address, path, **sent)
        assert (answer.status, 'another site' in answer.text) == (403, True)

    @pytest.mark.parametrize('site', ['cross-site', 'same-site'])
    def test_they_may_link_to_pages(self, address, site):
        sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Dest': 'document'}
        assert ask(address, '/hosts', **sent).status == 200

    @pytest.mark.parametrize('site', ['cross-site', 'same-site'])
    @pytest.mark.parametrize(
        'path', ['/plan?flavor=m1.tiny', '/capacity?flavor=m1.tiny']
    )
    def test_they_may_fill_in_a_form_that_works_nothing_out(self, address, path, site):
        sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Dest': 'document'}
        answer = ask(address, path, **sent)
        assert answer.status == 200
        assert 'filled in this form' in answer.text
        assert 'm1.tiny' in answer.text
        assert ask(address, path, Sec_Fetch_Site='same-origin').status == 503

    @pytest.mark.parametrize('site', ['same-origin', 'none'])
    def test_own_pages_and_what_is_typed_are_answered(self, address, site):
        sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Mode': 'cors'}
        assert ask(address, '/api/v1/hosts', **sent).status == 200


class TestLoad:
    def test_who_finds_the_queue_full_is_told_to_come_back(self, serve):
        app = Waiting()
        where = serve(app, threads=2)
        places = 2 + 2 * web_server.WAITING_PER_THREAD
        with contextlib.ExitStack() as stack:
            stack.callback(app.may_end.set)

            def begin():
                made = stack.enter_context(connected(where))
                made.sendall(b'GET /mine HTTP/1.1\r\nHost: localhost\r\n\r\n')
                return made

            served = [begin(), begin()]
            for _ in served:
                assert app.begun.acquire(timeout=END_S)
            served += [begin() for _ in range(places - 2)]
            more = [begin() for _ in range(5)]
            for each in more:
                answer = received(each)
                assert answer.status == 503
                assert HEADERS.items() <= answer.headers.items()
                assert int(answer.headers['Retry-After']) > 0
                assert 'too many clients' in answer.text
            app.may_end.set()
            assert {received(each).text for each in served} == {'/mine'}
        assert ask(where, '/again').text == '/again'

    def test_connections_without_a_request_keep_no_thread(self, serve):
        where = serve(plain, threads=1)
        with contextlib.ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(connected(where))
            assert ask(where, '/here').text == '/here'

    @pytest.mark.parametrize(
        'begin',
        [
            b'GET /slow HTTP/1.1\r\nA: ',
            b'POST /slow HTTP/1.1\r\nContent-Length: 9999\r\n\r\n',
        ],
    )
    def test_clients_that_send_byte_by_byte_keep_no_thread(self, serve, begin):
        where = serve(plain, threads=1)
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(connected(where)) for _ in range(50)]
            for each in slow:
                each.sendall(begin)
                each.settimeout(0.1)
            assert ask(where, '/here').text == '/here'
            since, gone = time.monotonic(), False
            while not gone and time.monotonic() - since < web_server.CLIENT_S / 2:
                with contextlib.suppress(TimeoutError, OSError):
                    slow[0].sendall(b'x')
                    gone = slow[0].recv(1) == b''
            assert gone

    def test_a_client_that_does_not_read_makes_room_for_others(self, serve):
        def big(environ, start_response):
            if environ['PATH_INFO'] == '/here':
                return plain(environ, start_response)
            start_response('200 OK', [('Content-Length', '50000000')])
            return [b'x' * 50_000_000]

        where = serve(big, threads=1)
        with connected(where) as slow:
            slow.sendall(b'GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n')
            assert slow.recv(1) == b'H'
            since = time.monotonic()
            assert ask(where, '/here').text == '/here'
            assert time.monotonic() - since < web_server.CLIENT_S / 2

    def test_of_connections_without_a_request_the_oldest_makes_room(
        self, serve, monkeypatch
    ):
        monkeypatch.setattr(web_server, 'MOST_IDLE', 20)
        where = serve(plain, threads=1)
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(connected(where)) for _ in range(60)]
            assert ask(where, '/here').text == '/here'
            assert all(each.recv(1) == b'' for each in idle[:40])

    @pytest.mark.parametrize(
        ('head', 'status'),
        [
            (b'GET /a HTTP/1.1\r\nTransfer-Encoding: chunked', 411),
            (b'POST /a HTTP/1.1\r\nTransfer-Encoding: chunked', 411),
            (b'POST /a HTTP/1.1\r\nTransfer-Encoding: x\r\nContent-Length: 5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length: +5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length: -5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length: 5, 5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length : 5', 400),
            (b'POST /a HTTP/1.1\r\nContent-Length: 5\r\n 0', 400),
            (b'GET /a HTTP/1.1\r\nContent-Length: 9999', 400),
        ],
    )
    def test_a_request_whose_end_is_not_certain_ends_its_connection(
        self, address, head, status
    ):
        smuggled = b'0\r\n\r\nGET /hosts HTTP/1.1\r\nHost: localhost\r\n\r\n'
        with connected(address) as connection:
            connection.sendall(head + b'\r\n\r\n' + smuggled)
            answer = received(connection)
            assert (answer.status, answer.headers['Connection']) == (status, 'close')
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b''

    @pytest.mark.parametrize('kind', ['unix', 'tcp'])
    def test_what_is_being_answered_is_finished_at_the_end(self, tmp_path, kind):
        by_path = Address(path=str(tmp_path / 'console.sock'))
        listen = by_path if kind == 'unix' else LOCAL
        app = Waiting()
        with contextlib.ExitStack() as stack:
            settings = ConsoleSettings(listen=listen)
            where = stack.enter_context(web_server.served(app, settings))
            idle, asking = connected(where), connected(where)
            with idle, asking:
                asking.sendall(b'GET /mine HTTP/1.1\r\nHost: localhost\r\n\r\n')
                assert app.begun.acquire(timeout=END_S)
                ending = threading.Thread(target=stack.close)
                ending.start()
                assert idle.recv(1) == b''  # it is being stopped
                app.may_end.set()
                assert received(asking).text == '/mine'
                ending.join(END_S)
                assert not ending.is_alive()
        with pytest.raises(OSError, match=r'refused|No such file'):
            connected(where)


class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path):
        """A certificate for this machine, with its key, made by openssl."""
        path = tmp_path / 'console.pem'
        made = tmp_path / 'only.pem'
        words = f'req -x509 -newkey rsa:2048 -nodes -days 1 -keyout {path} -out {made}'
        names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
        command = ['openssl', *words.split(), *names]
        subprocess.run(command, check=True, capture_output=True)
        with path.open('a') as file:
            file.write(made.read_text())
        return str(path)

    def test_a_request_by_tls(self, serve, certificate):
        where = serve(plain, tls_certificate=certificate, threads=1)
        trusting = ssl.create_default_context(cafile=certificate)
        with (
            connected(where),  # it never begins to shake hands
            connected(where) as connection,
            trusting.wrap_socket(connection, server_hostname=HERE) as wrapped,
        ):
            wrapped.sendall(b'GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n')
            assert received(wrapped).text == '/here'

    def test_a_file_that_is_none_is_named(self, serve, tmp_path):
        (tmp_path / 'no.pem').write_text('nothing')
        for name in ('no.pem', 'none.pem'):
            path = str(tmp_path / name)
            with pytest.raises(errors.OptionError, match=rf'tls_certificate.*{name}'):
                serve(plain, tls_certificate=path)
