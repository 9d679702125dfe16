# SPDX-License-Identifier: Apache-2.0
"""Adapters to other services of the cloud, each from the options of its group."""

import pytest
import requests
from oslo_config import cfg

from novasched import errors, http
from novasched.external import network
from novasched.placement import session as placement
from tests.support.tables.cases import cases

ADMIN = 'auth_type = admin_token\nendpoint = http://e\ntoken = t\n'
SERVICES = {
    'placement': (placement.OPTS, placement.from_conf, 'placement', 60),
    'neutron': (network.OPTS, network.adapter_from_conf, 'network', 30),
}


@pytest.fixture(params=SERVICES)
def group(request):
    return request.param


@pytest.fixture
def from_conf(group, tmp_path):
    """Return a function from the text of the group to the adapter of it."""
    opts, make_adapter, _, _ = SERVICES[group]
    made = []

    def make(text=ADMIN):
        path = tmp_path / 'nova.conf'
        path.write_text(f'[{group}]\n{text}\n')
        conf = cfg.ConfigOpts()
        for each, options in opts.items():
            conf.register_opts(options, each)
        conf([], default_config_files=[str(path)], default_config_dirs=[])
        made.append(make_adapter(conf))
        return made[-1]

    yield make
    for adapter in made:
        adapter.session.session.close()


@pytest.mark.parametrize('text', ['', ADMIN])
def test_defaults_are_novas(group, from_conf, text):
    _, _, service_type, timeout_s = SERVICES[group]
    adapter = from_conf(text)
    assert adapter.service_type == service_type
    assert adapter.interface == ['internal', 'public']
    assert adapter.raise_exc is False
    assert adapter.session.timeout == timeout_s
    assert (adapter.region_name, adapter.endpoint_override) == (None, None)


def test_credentials(from_conf):
    adapter = from_conf()
    assert adapter.auth.get_token(adapter.session) == 't'
    assert from_conf('').auth is None


@pytest.mark.parametrize(
    ('text', 'name', 'value'),
    [
        ('endpoint_override = http://e:1', 'endpoint_override', 'http://e:1'),
        ('region_name = two', 'region_name', 'two'),
        ('valid_interfaces = admin', 'interface', ['admin']),
        ('connect_retries = 5', 'connect_retries', 5),
    ],
)
def test_options(from_conf, text, name, value):
    assert getattr(from_conf(text), name) == value


def test_the_timeout_of_nova_comes_first(from_conf):
    assert from_conf('timeout = 5').session.timeout == 5


def test_versions_are_inert(from_conf):
    adapter = from_conf('min_version = 1\nmax_version = 1.5')
    assert (adapter.version, adapter.min_version, adapter.max_version) == (None,) * 3


@pytest.mark.parametrize('url', ['http://e', 'https://e'])
def test_there_are_connections_for_all_threads(from_conf, url):
    pool = from_conf().session.session.get_adapter(url)
    assert pool._pool_maxsize == http.POOL_SIZE == 64
    assert pool.poolmanager.connection_pool_kw['maxsize'] == 64


def test_the_environment_is_read_once_for_each_server(from_conf):
    session, usual = from_conf().session.session, requests.Session()
    for url in ('http://e/a', 'https://e/a', 'http://localhost/a'):
        for verify in (True, False, '/ca.pem'):
            asked = ({}, None, verify, None)
            found = session.merge_environment_settings(url, *asked)
            assert found == usual.merge_environment_settings(url, *asked)
            assert session.merge_environment_settings(f'{url}/b', *asked) is found


@cases(
    ('text', 'option'),
    ('misspelt', 'auth_type = pasword', '[{}] auth_type'),
    ('no auth_url', 'auth_type = password', '[{}]'),
    ('an unknown interface', 'valid_interfaces = private', '[{}] valid_interfaces'),
)
def test_invalid_option_is_named(group, from_conf, text, option):
    with pytest.raises(errors.OptionError) as caught:
        from_conf(text)
    assert caught.value.option == option.format(group)


@cases(
    ('text', 'words'),
    (
        'of placement',
        '{"errors": [{"status": 400, "detail": "No such trait.\\n\\n"}]}',
        'No such trait.',
    ),
    ('no error', '{"errors": []}', '{"errors": []}'),
    ('another form', '["detail"]', '["detail"]'),
    ('of a proxy', '<html>Bad gateway', '<html>Bad gateway'),
)
def test_words_of_errors(text, words):
    assert http.error_words(text) == words
