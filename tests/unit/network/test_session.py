# SPDX-License-Identifier: Apache-2.0
"""Session with the network service: [neutron], [service_user], and access of a user."""

from __future__ import annotations

import pytest

from novasched import errors, http
from novasched.network import session
from novasched.network.client import NetworkClient
from novasched.network.session import UserAccess
from novasched.objects.context import RequestContext
from tests.unit.network.conftest import URL

ADMIN = 'auth_type = admin_token\nendpoint = http://n\ntoken = t\n'


@pytest.fixture
def conf(read_conf):
    """Return a function from the text of [neutron] to a configuration."""
    return lambda neutron='': read_conf(f'[neutron]\n{neutron}\n')


@pytest.fixture
def from_conf(conf):
    """Return a function from the text of [neutron] to the adapter of it."""
    made = []

    def make(*text):
        made.append(session.from_conf(conf(*text)))
        return made[-1]

    yield make
    for adapter in made:
        adapter.session.session.close()


def test_defaults_are_novas(from_conf):
    adapter = from_conf()
    assert adapter.service_type == 'network'
    assert adapter.interface == ['internal', 'public']
    assert adapter.raise_exc is False
    assert adapter.auth is None
    assert (adapter.connect_retries, adapter.session.timeout) == (3, 30)
    assert (adapter.version, adapter.region_name) == (None, None)


@pytest.mark.parametrize(
    ('text', 'name', 'value'),
    [
        ('endpoint_override = http://n:9696', 'endpoint_override', 'http://n:9696'),
        ('region_name = two', 'region_name', 'two'),
        ('valid_interfaces = admin', 'interface', ['admin']),
        ('http_retries = 0', 'connect_retries', 0),
        ('connect_retries = 5', 'connect_retries', 5),
        ('min_version = 1\nmax_version = 2', 'min_version', None),
    ],
)
def test_options(from_conf, text, name, value):
    assert getattr(from_conf(text), name) == value


def test_the_timeout_of_nova_comes_first(from_conf):
    assert from_conf('timeout = 5').session.timeout == 5


@pytest.mark.parametrize('url', ['http://n', 'https://n'])
def test_there_are_connections_for_all_threads(from_conf, url):
    pool = from_conf().session.session.get_adapter(url)
    assert pool._pool_maxsize == http.POOL_SIZE == 64


def test_credentials(from_conf):
    adapter = from_conf(ADMIN)
    assert adapter.auth.get_token(adapter.session) == 't'


@pytest.mark.parametrize(
    ('text', 'option'),
    [
        pytest.param('auth_type = pasword', '[neutron] auth_type', id='misspelt'),
        pytest.param('auth_type = password', '[neutron]', id='no auth_url'),
        pytest.param(
            'valid_interfaces = private',
            '[neutron] valid_interfaces',
            id='an unknown interface',
        ),
    ],
)
def test_options_that_make_no_sense(from_conf, text, option):
    with pytest.raises(errors.OptionError) as caught:
        from_conf(text)
    assert caught.value.option == option


def test_a_client_of_a_configuration(conf):
    NetworkClient.from_conf(conf(ADMIN)).close()


SEND = 'send_service_user_token = true\n'
SERVICE_CREDENTIALS = f'auth_type = admin_token\nendpoint = {URL}\ntoken = service\n'


@pytest.fixture
def service_conf(read_conf):
    """Return a function from the text of [service_user] to a configuration."""
    return lambda text='': read_conf(f'[service_user]\n{text}\n')


@pytest.mark.parametrize(
    ('text', 'warnings'),
    [
        pytest.param('', 0, id='not asked for'),
        pytest.param(SERVICE_CREDENTIALS, 0, id='only credentials'),
        pytest.param(SEND, 1, id='no credentials'),
    ],
)
def test_no_token_is_sent(service_conf, caplog, text, warnings):
    assert session.service_auth_from_conf(service_conf(text)) is None
    said = [r for r in caplog.records if r.name.startswith('novasched')]
    assert len(said) == warnings


def test_a_token_is_sent(service_conf):
    assert (
        session.service_auth_from_conf(service_conf(SEND + SERVICE_CREDENTIALS)).token
        == 'service'
    )
    client = NetworkClient.from_conf(service_conf(SEND + SERVICE_CREDENTIALS))
    client.close()


def test_credentials_that_make_no_sense_end_the_start(service_conf):
    with pytest.raises(errors.OptionError, match='service_user'):
        session.service_auth_from_conf(service_conf(f'{SEND}auth_type = nonsense'))


CATALOG = [
    {
        'type': 'network',
        'name': 'neutron',
        'endpoints': [
            {'region': 'one', 'publicURL': 'http://p1', 'internalURL': 'http://i1'},
            {'region': 'two', 'publicURL': 'http://p2'},
        ],
    },
    {'type': 'image', 'endpoints': [{'region': 'one', 'publicURL': 'http://image'}]},
]


@pytest.fixture
def access():
    return UserAccess(
        RequestContext(auth_token='t', service_catalog=CATALOG, overwrite=False)
    )


@pytest.mark.parametrize(
    ('asked', 'url'),
    [
        ({'interface': ['internal', 'public'], 'region_name': 'one'}, 'http://i1'),
        ({'interface': ['internal', 'public'], 'region_name': 'two'}, 'http://p2'),
        ({'interface': ['internal', 'public'], 'region_name': 'three'}, None),
        ({'interface': 'public', 'service_name': 'neutron'}, 'http://p1'),
        ({'interface': 'admin'}, None),
    ],
)
def test_endpoints(access, asked, url):
    found = access.get_endpoint(None, service_type='network', version=None, **asked)
    assert found == url


def test_the_token(access):
    assert access.get_token(None) == 't'
    assert access.get_headers(None) == {'X-Auth-Token': 't'}
