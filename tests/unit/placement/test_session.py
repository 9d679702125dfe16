# SPDX-License-Identifier: Apache-2.0
"""The adapter that [placement] makes, and the check at the start."""

from __future__ import annotations

import pytest
import requests
from keystoneauth1 import exceptions as ksa
from oslo_config import cfg

from novasched import errors
from novasched.placement import session

VERSIONS = {'versions': [{'id': 'v1.0', 'max_version': '1.39'}]}


@pytest.fixture
def conf(tmp_path):
    """Return a function from the text of [placement] to a configuration."""

    def read(placement='auth_type = admin_token\nendpoint = http://p\ntoken = t'):
        path = tmp_path / 'nova.conf'
        path.write_text(f'[placement]\n{placement}\n')
        made = cfg.ConfigOpts()
        for group, opts in session.OPTS.items():
            made.register_opts(opts, group)
        made([], default_config_files=[str(path)], default_config_dirs=[])
        return made

    return read


@pytest.fixture
def from_conf(conf):
    """Return a function from the text of [placement] to the adapter of it."""
    made = []

    def make(*text):
        made.append(session.from_conf(conf(*text)))
        return made[-1]

    yield make
    for adapter in made:
        adapter.session.session.close()


def test_defaults_are_novas(conf):
    placement = conf().placement
    assert placement.service_type == 'placement'
    assert placement.valid_interfaces == ['internal', 'public']
    unset = ('timeout', 'region_name', 'endpoint_override', 'connect_retries')
    assert [placement[name] for name in unset] == [None] * 4


def test_adapter(from_conf):
    adapter = from_conf()
    assert adapter.service_type == 'placement'
    assert adapter.interface == ['internal', 'public']
    assert adapter.raise_exc is False
    assert adapter.session.timeout == 60
    pool = adapter.session.session.get_adapter('https://p').poolmanager
    assert pool.connection_pool_kw['maxsize'] == 64


def test_the_timeout_of_nova_comes_first(from_conf):
    text = 'auth_type = none\nendpoint = http://p\ntimeout = 5'
    assert from_conf(text).session.timeout == 5


def test_versions_are_inert(from_conf):
    text = 'auth_type = none\nendpoint = http://p\nmin_version = 1\nmax_version = 1.5'
    adapter = from_conf(text)
    assert (adapter.version, adapter.min_version, adapter.max_version) == (None,) * 3


@pytest.mark.parametrize(
    ('text', 'option'),
    [
        pytest.param('auth_type = pasword', '[placement] auth_type', id='misspelt'),
        pytest.param('auth_type = password', '[placement]', id='no auth_url'),
        pytest.param(
            'auth_type = none\nendpoint = http://p\nvalid_interfaces = private',
            '[placement] valid_interfaces',
            id='an unknown interface',
        ),
    ],
)
def test_options_that_make_no_sense(from_conf, text, option):
    with pytest.raises(errors.OptionError) as caught:
        from_conf(text)
    assert caught.value.option == option


def test_no_auth_type_is_found_at_the_start(from_conf):
    adapter = from_conf('region_name = one')
    with pytest.raises(errors.OptionError, match=r'\[placement\] auth_type: No auth'):
        session.check(adapter)


def test_placement_is_there(scripted):
    adapter, script = scripted((200, VERSIONS), raise_exc=False)
    assert session.check(adapter) is None
    assert script.asked == ['GET /']


@pytest.mark.parametrize(
    'answer',
    [
        pytest.param(requests.ConnectionError('refused'), id='refused'),
        pytest.param(requests.ReadTimeout('slow'), id='silent'),
        pytest.param(ksa.EndpointNotFound(), id='not in the catalog'),
        pytest.param(ksa.DiscoveryFailure(), id='not to be discovered'),
        pytest.param(ksa.GatewayTimeout(), id='keystone is behind a slow gateway'),
        pytest.param((503, '<html/>'), id='not up yet'),
        pytest.param((408, ''), id='too slow'),
    ],
)
def test_what_may_pass_is_a_warning(scripted, answer):
    adapter, _ = scripted(answer, raise_exc=False)
    warning = session.check(adapter)
    assert warning.startswith('Unable to initialize placement client (')
    assert warning.endswith('but scheduling will not be possible.')


@pytest.mark.parametrize(
    ('answer', 'option'),
    [
        pytest.param(ksa.Unauthorized(), '[placement] auth_type', id='bad password'),
        pytest.param(ksa.SSLError(), '[placement]', id='bad certificate'),
        pytest.param((404, '<html/>'), '[placement]', id='somebody else'),
        pytest.param((200, '{}'), '[placement]', id='JSON of somebody else'),
        pytest.param((200, '[]'), '[placement]', id='a list of somebody else'),
    ],
)
def test_what_will_not_pass_ends_the_start(scripted, answer, option):
    adapter, _ = scripted(answer, raise_exc=False)
    with pytest.raises(errors.OptionError) as caught:
        session.check(adapter)
    assert caught.value.option == option
