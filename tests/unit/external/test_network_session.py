# SPDX-License-Identifier: Apache-2.0
"""Session with the network service: [neutron], [service_user], and access of a user."""

import pytest

from novasched import errors
from novasched.external import network
from novasched.external.network import NetworkClient, UserAccess
from novasched.objects.context import RequestContext
from tests.support.tables.cases import cases
from tests.unit.external.conftest import URL

ADMIN = 'auth_type = admin_token\nendpoint = http://n\ntoken = t\n'


@pytest.fixture
def conf(read_conf):
    """Return a function from the text of [neutron] to a configuration."""
    return lambda neutron='': read_conf(f'[neutron]\n{neutron}\n')


@cases(
    'text, retries',
    ('the default', '', 3),
    ('http_retries', 'http_retries = 0', 0),
    ('connect_retries', 'connect_retries = 5', 5),
    ('both', 'http_retries = 1\nconnect_retries = 5', 5),
)
def test_a_refused_connection_is_tried_again(conf, text, retries):
    adapter = network.adapter_from_conf(conf(text))
    adapter.session.session.close()
    assert adapter.connect_retries == retries


def test_a_client_of_a_configuration(conf):
    NetworkClient.from_conf(conf(ADMIN)).close()


SEND = 'send_service_user_token = true\n'
SERVICE_CREDENTIALS = f'auth_type = admin_token\nendpoint = {URL}\ntoken = service\n'


@pytest.fixture
def service_conf(read_conf):
    """Return a function from the text of [service_user] to a configuration."""
    return lambda text='': read_conf(f'[service_user]\n{text}\n')


@cases(
    'text, warnings',
    ('not asked for', '', 0),
    ('only credentials', SERVICE_CREDENTIALS, 0),
    ('no credentials', SEND, 1),
)
def test_no_token_is_sent(service_conf, caplog, text, warnings):
    assert network.service_auth_from_conf(service_conf(text)) is None
    said = [r for r in caplog.records if r.name.startswith('novasched')]
    assert len(said) == warnings


def test_a_token_is_sent(service_conf):
    assert (
        network.service_auth_from_conf(service_conf(SEND + SERVICE_CREDENTIALS)).token
        == 'service'
    )
    client = NetworkClient.from_conf(service_conf(SEND + SERVICE_CREDENTIALS))
    client.close()


def test_invalid_credentials_end_the_start(service_conf):
    with pytest.raises(errors.OptionError, match='service_user'):
        network.service_auth_from_conf(service_conf(f'{SEND}auth_type = nonsense'))


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
