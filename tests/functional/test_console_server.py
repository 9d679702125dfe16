# SPDX-License-Identifier: Apache-2.0
"""The server of the console: where it listens, what answers have, who is refused."""

import contextlib
import os
import socket
import stat

import pytest

from novasched import errors
from novasched.console import app, connection, security, web_server
from novasched.console.security import HEADERS, Guard
from novasched.console.settings import ConsoleSettings
from novasched.inspection.questions.reports import HostsReport
from novasched.observability.settings import Address
from tests.functional.console_clients import (
    END_S,
    LOCAL,
    ask,
    connected,
    get,
    plain,
    received,
    said,
    serve,
)
from tests.functional.endpoints import HERE

__all__ = ['serve']


class EmptyCloud:
    """A reader for which every question but that of hosts is one too many."""

    def overview(self):
        raise errors.Busy(2, 'too much is asked')

    health = overview

    def has_shadow(self):
        return False

    def has_lab(self):
        return False

    def plan(self, order):
        raise errors.Busy(2, 'a dry run')

    capacity = plan

    def hosts(self, order):
        chosen = {key: [] for key in ('cells', 'zones', 'aggregates')}
        return HostsReport(hosts=[], total=0, page=1, pages=1, **chosen)

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

    def test_socket_of_a_killed_console_is_replaced(self, serve, tmp_path):
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

    def test_a_certificate_that_is_none_is_named(self, serve, tmp_path):
        (tmp_path / 'no.pem').write_text('nothing')
        for name in ('no.pem', 'none.pem'):
            path = str(tmp_path / name)
            with pytest.raises(errors.OptionError, match=rf'tls_certificate.*{name}'):
                serve(plain, tls_certificate=path)


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
            (b'GET / HTTP/1.1\r\nA: %s\r\n\r\n' % (b'x' * connection.MOST_HEAD), 413),
            (b'POST /login HTTP/1.1\r\nContent-Length: 99999\r\n\r\n', 413),
            (b'GET /%s HTTP/1.1\r\n\r\n' % (b'x' * connection.MOST_HEAD), 414),
        ],
    )
    def test_also_those_the_application_never_sees(self, address, content, status):
        answer = said(address, content)
        assert answer.status == status
        assert HEADERS.items() <= answer.headers.items()
        assert answer.headers['Connection'] == 'close'
        assert answer.text

    def test_failed_page_has_the_headers_and_no_details(self, serve):
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
        request = get('/hosts')
        with connected(address) as connection:
            connection.sendall(request * 3)
            content = b''
            connection.settimeout(END_S)
            while content.count(b'HTTP/1.1 200 OK') < 3:
                more = connection.recv(100_000)
                assert more
                content += more

    def test_a_connection_is_kept_from_one_answer_to_the_next(self, address):
        with connected(address) as connection:
            for _ in range(3):
                connection.sendall(get('/hosts'))
                assert received(connection).status == 200

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
        smuggled = b'0\r\n\r\n' + get('/hosts')
        with connected(address) as connection:
            connection.sendall(head + b'\r\n\r\n' + smuggled)
            answer = received(connection)
            assert (answer.status, answer.headers['Connection']) == (status, 'close')
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b''


class TestHost:
    @pytest.mark.parametrize(
        ('host', 'status'),
        [
            *((host, 200) for host in ('localhost', '127.0.0.1:9109', '[::1]:9109')),
            *((host, 403) for host in ('evil.test', 'evil.test:9109', '[', '127.1')),
            *((host, 403) for host in ('localhost.evil.test', '')),
        ],
    )
    def test_own_names_alone_are_answered(self, address, host, status):
        answer = ask(address, Host=host)
        assert answer.status == status
        assert ('allowed_hosts' in answer.text) == (status == 403)

    def test_a_request_without_one_is_refused(self, address):
        assert said(address, b'GET /hosts HTTP/1.0\r\n\r\n').status == 403

    def test_names_can_be_allowed(self):
        with console(LOCAL, allowed_hosts=frozenset({'console.test'})) as where:
            assert ask(where, Host='Console.Test:80').status == 200
            assert ask(where, Host='localhost').status == 403

    def test_any_host_name_is_served_with_keystone(self):
        with console(LOCAL, has_keystone=True) as where:
            assert ask(where, Host='anything.test').status == 200


class TestOrigin:
    @pytest.mark.parametrize(
        ('headers', 'status'),
        [
            ({'Origin': 'http://localhost:9109'}, 200),
            ({'Origin': 'null', 'Sec_Fetch_Site': 'same-origin'}, 200),
            ({}, 403),
            ({'Origin': 'null'}, 403),
            ({'Origin': 'http://evil.test'}, 403),
            ({'Origin': 'http://localhost'}, 403),
            ({'Origin': 'http://localhost:9109', 'Sec_Fetch_Site': 'cross-site'}, 403),
            ({'Origin': 'http://localhost:9109', 'Sec_Fetch_Site': 'same-site'}, 403),
        ],
    )
    def test_own_pages_alone_may_log_in_and_out(self, login, headers, status):
        for path in ('/login', '/logout'):
            answer = login(path, **headers)
            assert answer.status == status
            assert HEADERS.items() <= answer.headers.items()

    def test_nothing_else_can_be_sent(self, login):
        own = {'Origin': 'http://localhost:9109'}
        for path in ('/', '/plan', '/login/', '/login/x'):
            assert login(path, **own).status == 405

    def test_console_without_a_login_has_no_login_page(self, address):
        own = {'Origin': 'http://localhost:9109'}
        assert ask(address, '/login', 'POST', **own).status == 405


@pytest.mark.parametrize('site', ['cross-site', 'same-site'])
class TestOtherSites:
    @pytest.mark.parametrize(
        ('path', 'kind', 'status'),
        [
            ('/hosts', 'image', 403),
            ('/hosts', 'iframe', 403),
            ('/hosts', 'empty', 403),
            ('/api/v1/hosts', 'document', 403),
            ('/capacity/heat?flavor=m1.tiny', 'document', 403),
            ('/hosts', 'document', 200),
        ],
    )
    def test_they_may_link_to_pages_and_no_more(
        self, address, path, kind, status, site
    ):
        sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Dest': kind}
        answer = ask(address, path, **sent)
        assert answer.status == status
        assert ('another site' in answer.text) == (status == 403)

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
def test_own_pages_and_what_is_typed_are_answered(address, site):
    sent = {'Sec_Fetch_Site': site, 'Sec_Fetch_Mode': 'cors'}
    assert ask(address, '/api/v1/hosts', **sent).status == 200
