# SPDX-License-Identifier: Apache-2.0
"""The server of health and metrics: routes, bounds, addresses."""

import contextlib
import socket
import threading
import time

import pytest
import requests

from novasched import errors
from novasched.app import instrumented
from novasched.observability import serving
from novasched.observability.serving import Response
from tests.functional.endpoints import HERE, endpoint, get, hello, is_served
from tests.live.servers.process import wait_until
from tests.support.clouds.configuration import make_conf

__all__ = ['endpoint']

LONG_S = 60.0
"""No deadline ends what a busy machine takes long for."""


class TestServing:
    def test_a_port_answers(self, endpoint):
        url = f'http://{HERE}:{endpoint({"/hello": hello}).port}'
        answer = requests.get(f'{url}/hello?a=b', headers={'X-Say': 'hi'}, timeout=20)
        assert (answer.status_code, answer.text) == (200, 'hello')
        assert answer.headers['X-Said'] == 'hi'
        assert get(f'{url}/other')[0] == 404
        head = requests.head(f'{url}/hello', timeout=20)
        assert (head.headers['Content-Length'], head.text) == ('5', '')
        assert requests.post(f'{url}/hello', timeout=20).status_code == 501

    def test_a_unix_socket_answers_and_goes_with_its_server(self, endpoint, tmp_path):
        made = endpoint({'/hello': hello}, 'h.sock')
        path = tmp_path / 'h.sock'
        assert serving.ask(str(path), '/hello', 20) == (200, b'hello')
        made.stop()
        assert not path.exists()
        with pytest.raises(FileNotFoundError):
            serving.ask(str(path), '/hello', 20)

    def test_socket_of_a_dead_process_is_replaced(self, endpoint, tmp_path):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / 'h.sock'))
        endpoint({'/hello': hello}, 'h.sock')
        assert serving.ask(str(tmp_path / 'h.sock'), '/hello', 20)[0] == 200

    def test_a_socket_in_use_and_a_file_are_left_alone(self, endpoint, tmp_path):
        endpoint({'/hello': hello}, 'h.sock')
        (tmp_path / 'file').write_text('mine')
        for name in ('h.sock', 'file'):
            with pytest.raises(OSError, match=r'in use|exists'):
                endpoint({}, name)
        assert (tmp_path / 'file').read_text() == 'mine'
        assert serving.ask(str(tmp_path / 'h.sock'), '/hello', 20)[0] == 200

    def test_a_route_that_fails_is_logged_and_the_others_serve(self, endpoint, caplog):
        def broken(headers):
            raise ZeroDivisionError

        url = f'http://{HERE}:{endpoint({"/broken": broken, "/hello": hello}).port}'
        assert get(f'{url}/broken')[0] == 500
        assert '/broken failed' in caplog.text
        assert get(f'{url}/hello')[0] == 200

    def test_a_client_that_says_nothing_holds_up_no_other(self, endpoint):
        port = endpoint({'/hello': hello}).port
        with socket.create_connection((HERE, port)):
            assert get(f'http://{HERE}:{port}/hello')[0] == 200

    def test_a_client_that_sends_byte_by_byte_is_cut_off_at_the_deadline(
        self, endpoint
    ):
        port = endpoint({'/hello': hello}, deadline_s=1.0).port
        since, answer = time.monotonic(), b''
        with socket.create_connection((HERE, port), timeout=20) as slow:
            slow.sendall(b'GET /hello HTTP/1.1\r\nA: ')
            slow.settimeout(0.2)
            while not answer and time.monotonic() - since < 20:
                slow.sendall(b'x')
                with contextlib.suppress(TimeoutError):
                    answer = slow.recv(100)
        assert answer.startswith(b'HTTP/1.0 408 ')
        assert 0.9 < time.monotonic() - since < 10

    def test_the_client_waited_for_longest_makes_room_for_a_new_one(self, endpoint):
        port = endpoint({'/hello': hello}, most_clients=2, deadline_s=LONG_S).port
        with contextlib.ExitStack() as stack:
            slow = [
                stack.enter_context(socket.create_connection((HERE, port), timeout=20))
                for _ in range(30)
            ]
            assert get(f'http://{HERE}:{port}/hello')[0] == 200
            assert all(each.recv(1) == b'' for each in slow[:-2])

            def serving_them():
                return [t for t in threading.enumerate() if '(_serve)' in t.name]

            wait_until(lambda: len(serving_them()) <= 3, 20, 'the others to end')
            assert serving_them()

    def test_clients_beyond_those_being_answered_are_refused_at_once(self, endpoint):
        begun, may_end = threading.Semaphore(0), threading.Event()

        def waiting(headers):
            begun.release()
            assert may_end.wait(20)
            return hello(headers)

        routes = {'/wait': waiting, '/hello': hello}
        port = endpoint(routes, most_clients=2, deadline_s=LONG_S).port
        url = f'http://{HERE}:{port}'
        with contextlib.ExitStack() as stack:
            stack.callback(may_end.set)
            served = []
            for _ in range(2):
                made = socket.create_connection((HERE, port), timeout=20)
                served.append(stack.enter_context(made))
                made.sendall(b'GET /wait HTTP/1.1\r\n\r\n')
                assert begun.acquire(timeout=20)
            for _ in range(20):
                client = socket.create_connection((HERE, port), timeout=20)
                said = stack.enter_context(client).recv(100)
                assert said.startswith(b'HTTP/1.0 503 ')
            may_end.set()
            assert all(each.recv(100).startswith(b'HTTP/1.0 200') for each in served)
        end = time.monotonic() + 20
        while not is_served(f'{url}/hello', 200):
            assert time.monotonic() < end

    def test_without_a_thread_for_it_a_client_is_let_go(
        self, endpoint, monkeypatch, caplog
    ):
        def refuse(thread):
            raise RuntimeError("can't start new thread")

        port = endpoint({'/hello': hello}, most_clients=1).port
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, 'start', refuse)
            with socket.create_connection((HERE, port), timeout=20) as client:
                assert client.recv(1) == b''
        assert 'A connection was not served: can' in caplog.text
        assert get(f'http://{HERE}:{port}/hello')[0] == 200

    def test_a_request_of_endless_headers_is_refused(self, endpoint):
        port = endpoint({'/hello': hello}).port
        with socket.create_connection((HERE, port), timeout=20) as client:
            client.sendall(b'GET /hello HTTP/1.1\r\nA: ')
            client.sendall(b'x' * serving.MOST_HEAD)
            assert client.recv(100).startswith(b'HTTP/1.0 431 ')

    def test_a_client_that_does_not_read_is_cut_off_at_the_deadline(self, endpoint):
        big = Response(200, 'text/plain', b'x' * 50_000_000)
        made = endpoint({'/big': lambda _: big}, most_clients=1, deadline_s=1.0)
        with socket.create_connection((HERE, made.port), timeout=20) as client:
            client.sendall(b'GET /big HTTP/1.1\r\n\r\n')
            end = time.monotonic() + 20
            while not is_served(f'http://{HERE}:{made.port}/other', 404):
                assert time.monotonic() < end


class TestAddresses:
    @staticmethod
    def conf(**uris):
        conf = make_conf()
        conf.set_override('uri', uris.get('health', ''), 'healthcheck')
        conf.set_override('metrics_uri', uris.get('metrics', ''), 'novasched')
        return conf

    def test_addresses_that_can_be_used_are_left_free(self, tmp_path):
        uri = f'tcp://{HERE}:0,unix://{tmp_path}/h.sock'
        serving.check(self.conf(health=uri, metrics=uri))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ('kind', 'option'),
        [('health', '[healthcheck] uri'), ('metrics', '[novasched] metrics_uri')],
    )
    def test_an_address_in_use_is_named_with_its_option(self, endpoint, kind, option):
        uri = f'tcp://{HERE}:{endpoint({}).port}'
        with pytest.raises(errors.OptionError) as raised:
            serving.check(self.conf(**{kind: uri}))
        assert f'{option}: {uri}: Address already in use' in str(raised.value)

    def test_without_addresses_nothing_is_made(self):
        with instrumented.sharing(self.conf(), 2) as shared:
            assert shared is None
