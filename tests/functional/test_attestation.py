# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter and a real attestation server over HTTPS."""

import contextlib
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest
from oslo_utils import timeutils

from novasched.external.attestation import TrustedFilter
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

LEVELS = {'n1': 'trusted', 'n2': 'untrusted'}


class Server(http.server.ThreadingHTTPServer):
    """Attests nodes, or answers ``status`` and ``body``, or is ``silent``."""

    daemon_threads = True

    def __init__(self, context):
        super().__init__(('127.0.0.1', 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.requests = []
        self.status, self.body = 200, None
        self.location = None
        self.silent, self.closing = False, threading.Event()

    def handle_error(self, request, client_address):
        """A client that does not trust us goes away; that is no news."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        server.requests.append((self.path, dict(self.headers), body))
        if server.silent:
            server.closing.wait(60)
            return
        self.send_response(server.status)
        if server.location:
            self.send_header('Location', server.location)
        self.end_headers()
        if server.status != 204:
            self.wfile.write(server.body or answer(body['hosts']))

    def log_message(self, *args):
        """Say nothing."""


def answer(nodes):
    states = [
        {
            'host_name': n,
            'trust_lvl': LEVELS[n],
            'vtime': timeutils.utcnow().isoformat(),
        }
        for n in nodes
        if n in LEVELS
    ]
    return json.dumps({'hosts': states}).encode()


@pytest.fixture(scope='module')
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    folder = tmp_path_factory.mktemp('tls')
    paths = folder / 'cert.pem', folder / 'key.pem'
    subprocess.run(
        [
            'openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
            '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1',
            '-out', str(paths[0]), '-keyout', str(paths[1]),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return paths


@pytest.fixture
def server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(Server(context)) as made:
        yield made


@contextlib.contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def made(server, certificate):
    """Makes a TrustedFilter from options, those that reach the server included."""

    def make(timeout_s=20, **options):
        conf = make_conf()
        given = {
            'attestation_server': '127.0.0.1',
            'attestation_port': server.server_address[1],
            'attestation_server_ca_file': str(certificate[0]),
            **options,
        }
        conf.set_override('attestation_timeout', timeout_s, 'novasched')
        for name, value in given.items():
            conf.set_override(name, value, 'trusted_computing')
        return TrustedFilter.from_conf(conf)

    return make


def passed(filter_, level='trusted'):
    hosts = factories.hosts(nodename=['n1', 'n2', 'n3'])
    request = factories.request(extra_specs={'trust:trusted_host': level})
    return filter_.apply(hosts, request).nodename.tolist()


def test_nodes_are_polled_when_a_level_is_needed(server, made):
    filter_ = made(attestation_auth_blob='blob')
    hosts = factories.hosts(nodename=['n1', 'n2', 'n3'])
    assert len(filter_.apply(hosts, factories.request())) == 3
    assert server.requests == []
    assert passed(filter_) == ['n1']
    path, headers, body = server.requests[0]
    assert path == '/OpenAttestationWebServices/V1.0/PollHosts'
    assert body == {'count': 3, 'hosts': ['n1', 'n2', 'n3']}
    assert headers['Content-Type'] == headers['Accept'] == 'application/json'
    assert headers['x-auth-blob'] == 'blob'


@pytest.mark.parametrize('status', [200, 201, 202])
def test_statuses_that_are_good(server, made, status):
    server.status = status
    assert passed(made()) == ['n1']


@cases(
    'status, body, said',
    ('no content', 204, None, None),
    ('not found', 404, None, 'HTTP 404'),
    ('an error', 500, None, 'HTTP 500'),
    ('no JSON', 200, b'<html>', 'fails'),
    ('another shape', 200, b'[]', 'no list of hosts'),
)
def test_answers_that_make_all_levels_unknown(server, made, caplog, status, body, said):
    server.status, server.body = status, body
    filter_ = made()
    assert passed(filter_) == []
    assert passed(filter_, 'unknown') == ['n1', 'n2', 'n3']
    assert len(server.requests) == 2
    told = [r for r in caplog.records if r.name.startswith('novasched')]
    assert said in caplog.text if said else not told


def test_the_blob_does_not_go_where_the_server_points(server, made):
    server.status, server.location = 307, 'https://127.0.0.1:1/elsewhere'
    assert passed(made(attestation_auth_blob='blob')) == []
    assert len(server.requests) == 1


def test_a_server_that_does_not_answer_in_time(server, made, caplog):
    server.silent = True
    began = time.monotonic()
    assert passed(made(timeout_s=1)) == []
    assert time.monotonic() - began < 20
    assert 'timed out' in caplog.text


def test_a_server_that_is_not_there(made, caplog):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))  # nobody listens
        assert passed(made(attestation_port=taken.getsockname()[1])) == []
    assert 'The attestation server https://127.0.0.1' in caplog.text


def test_attestation_server_without_a_trusted_certificate_is_not_asked(
    server, made, caplog
):
    assert passed(made(attestation_server_ca_file=None)) == []
    assert server.requests == []
    assert 'CERTIFICATE_VERIFY_FAILED' in caplog.text


def test_a_file_of_authorities_that_is_missing(server, made, caplog):
    assert passed(made(attestation_server_ca_file='/no/such/file')) == []
    assert '/no/such/file' in caplog.text


@pytest.mark.filterwarnings('ignore:Unverified HTTPS request')
def test_certificates_are_not_checked_when_the_operator_says_so(server, made):
    filter_ = made(attestation_server_ca_file=None, attestation_insecure_ssl=True)
    assert passed(filter_) == ['n1']
