# SPDX-License-Identifier: Apache-2.0
"""The broker is tried as the driver will connect to it: TLS, and the login."""

import contextlib
import gc
import socket
import ssl
import struct
import subprocess
import threading

import pytest
from amqp import serialization
from oslo_config import cfg

from novasched import errors
from novasched.rpc import transport
from tests.support.tables.cases import cases

START, START_OK, TUNE, TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
OPEN, OPEN_OK, CLOSE, CLOSE_OK = (10, 40), (10, 41), (10, 50), (10, 51)
ANSWERS = {
    START_OK: (TUNE, 'BlB', (0, 131072, 0)),
    OPEN: (OPEN_OK, 's', ('',)),
    CLOSE: (CLOSE_OK, '', ()),
}
HEADER = b'AMQP\0\0\x09\x01'
TIMEOUT_S = 5.0


class Broker:
    """Shakes hands as RabbitMQ does, with TLS if it has a certificate."""

    def __init__(self, context=None):
        self._context = context
        self._server = socket.create_server(('127.0.0.1', 0))
        self.port = self._server.getsockname()[1]
        self.logins, self._client = [], None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            client, _ = self._server.accept()
            with client, contextlib.suppress(OSError, EOFError):
                client.settimeout(TIMEOUT_S)
                if client.recv(1, socket.MSG_PEEK) == b'q':
                    return
                if self._context is None:
                    self._shake_hands(client)
                else:
                    with self._context.wrap_socket(client, server_side=True) as inside:
                        self._shake_hands(inside)

    def _shake_hands(self, client):
        self._client = client
        if self._read(client, 8) != HEADER:
            client.recv(4096)
            client.sendall(HEADER)
            return
        self._send(client, START, 'ooFSS', (0, 9, {}, 'AMQPLAIN EXTERNAL', 'en_US'))
        method = START
        while method != CLOSE:
            _, _, size = struct.unpack('>BHI', self._read(client, 7))
            payload = self._read(client, size + 1)[:-1]
            method = struct.unpack('>HH', payload[:4])
            if method == START_OK:
                (_, mechanism, *_), _ = serialization.loads('Fs', payload[4:], 0)
                self.logins.append(mechanism)
            if method in ANSWERS:
                self._send(client, *ANSWERS[method])

    @staticmethod
    def _read(client, count):
        found = b''
        while len(found) < count:
            more = client.recv(count - len(found))
            if not more:
                raise EOFError
            found += more
        return found

    @staticmethod
    def _send(client, method, form, values):
        payload = struct.pack('>HH', *method) + serialization.dumps(form, values)
        client.sendall(struct.pack('>BHI', 1, 0, len(payload)) + payload + b'\xce')

    def stop(self):
        with contextlib.suppress(AttributeError, OSError):
            self._client.shutdown(socket.SHUT_RDWR)  # amqp may have left it open
        with socket.create_connection(('127.0.0.1', self.port), TIMEOUT_S) as last:
            last.sendall(b'q')
            self._thread.join(TIMEOUT_S)
        self._server.close()


@pytest.fixture(scope='module')
def certificates(tmp_path_factory):
    """Two authorities, each in a file of its own; the first one is of the broker."""
    made = []
    for name in ('one', 'two'):
        path = tmp_path_factory.mktemp('tls') / name
        subprocess.run(
            [
                'openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1',
                '-keyout', f'{path}.key', '-out', f'{path}.pem',
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )  # fmt: skip
        made.append(f'{path}.pem')
    return made


@pytest.fixture
def plain():
    broker = Broker()
    yield broker
    broker.stop()


@pytest.fixture
def secure(certificates):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[0], certificates[0].replace('.pem', '.key'))
    broker = Broker(context)
    yield broker
    broker.stop()


def check(url, **options):
    conf = cfg.ConfigOpts()
    for group, listed in transport.OPTS.items():
        conf.register_opts(listed, None if group == 'DEFAULT' else group)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('transport_url', url)
    for name, value in options.items():
        conf.set_override(name, value, 'oslo_messaging_rabbit')
    opened = transport.transport_from_conf(conf)
    try:
        transport.check(opened, retry_s=0.0)
    finally:
        opened.cleanup()


def refusal(url, **options):
    with pytest.raises(errors.OptionError) as raised:
        check(url, **options)
    assert 'secret' not in str(raised.value)
    return str(raised.value)


def url_of(broker, query=''):
    return f'rabbit://user:secret@127.0.0.1:{broker.port}/{query}'


def test_one_broker_of_several_is_enough(plain):
    with socket.socket() as taken:  # nobody listens, and nobody else can
        taken.bind(('127.0.0.1', 0))
        closed = taken.getsockname()[1]
        check(f'rabbit://a:b@127.0.0.1:{closed},a:b@127.0.0.1:{plain.port}/')


def test_login_method_comes_from_the_options(plain):
    check(url_of(plain), rabbit_login_method='EXTERNAL')
    assert plain.logins == ['EXTERNAL']


@pytest.mark.filterwarnings('ignore:unclosed')
def test_a_login_that_the_broker_does_not_offer_is_named(plain):
    text = refusal(url_of(plain), rabbit_login_method='PLAIN')
    gc.collect()  # amqp leaves the socket of a login that fails to the collector
    assert text.startswith('[oslo_messaging_rabbit] rabbit_login_method: no broker')
    assert 'available: AMQPLAIN, EXTERNAL' in text


def test_over_tls_the_login_is_tried_too(secure, certificates):
    check(url_of(secure), ssl=True, ssl_ca_file=certificates[0])
    check(url_of(secure, f'?ssl=1&ssl_ca_file={certificates[0]}'))
    assert len(secure.logins) == 2


def test_a_broker_of_another_authority_is_refused(secure, certificates):
    text = refusal(url_of(secure), ssl=True, ssl_ca_file=certificates[1])
    assert text.startswith('[oslo_messaging_rabbit] ssl_ca_file: no broker answers: ')
    assert 'its certificate cannot be verified: self-signed certificate.' in text


def test_tls_where_the_broker_has_none_names_the_option(plain, certificates):
    text = refusal(url_of(plain), ssl=True, ssl_ca_file=certificates[0])
    assert text.startswith('[oslo_messaging_rabbit] ssl: no broker answers: ')


@cases(
    ('options', 'says'),
    (
        'no file of authorities',
        {'ssl_ca_file': '/none.pem'},
        '[oslo_messaging_rabbit] ssl_ca_file: /none.pem: no such file or directory',
    ),
    (
        'a file of authorities that is none',
        {'ssl_ca_file': __file__},
        f'[oslo_messaging_rabbit] ssl_ca_file: {__file__}: no certificate can be',
    ),
    (
        'no key',
        {'ssl_cert_file': '{0}', 'ssl_key_file': '/none.key'},
        '[oslo_messaging_rabbit] ssl_key_file: /none.key: no such file',
    ),
    (
        'no key of this certificate',
        {'ssl_cert_file': '{0}', 'ssl_key_file': '{1}'},
        '[oslo_messaging_rabbit] ssl_key_file: {1}: no private key of the '
        'certificate {0} can be read',
    ),
    (
        'a version that there is not',
        {'ssl_version': 'ssl9'},
        '[oslo_messaging_rabbit] ssl_version: Invalid SSL version : ssl9. Leave',
    ),
    (
        'no heartbeat',
        {'heartbeat_rate': 0},
        '[oslo_messaging_rabbit] heartbeat_rate: it is 0. Set it to 1 or more.',
    ),
    (
        'a pool that is too small',
        {'rpc_conn_pool_size': 1},
        '[oslo_messaging_rabbit] rpc_conn_pool_size: it is below conn_pool_min_si',
    ),
)
def test_options_that_keep_all_brokers_away_are_named(
    plain, certificates, options, says
):
    paths = [certificates[0], certificates[1].replace('.pem', '.key')]
    options = {
        name: value.format(*paths) if isinstance(value, str) else value
        for name, value in options.items()
    }
    text = refusal(url_of(plain), ssl=True, **options)
    assert text.startswith(says.format(*paths))


def test_an_option_behind_the_url_that_is_none_is_named(plain):
    text = refusal(url_of(plain, '?sssl=1'))
    assert text.startswith('[DEFAULT] transport_url: behind its ? stands sssl, which')
