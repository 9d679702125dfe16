# SPDX-License-Identifier: Apache-2.0
"""The adapter that [placement] makes, and the check at the start."""

import pytest
import requests
from keystoneauth1 import exceptions as ksa

from novasched import errors
from novasched.placement import session
from tests.support.tables.cases import cases

VERSIONS = {'versions': [{'id': 'v1.0', 'max_version': '1.39'}]}


def test_defaults_are_novas(conf):
    placement = conf.placement
    assert placement.service_type == 'placement'
    assert placement.valid_interfaces == ['internal', 'public']
    unset = ('timeout', 'region_name', 'endpoint_override', 'connect_retries')
    assert [placement[name] for name in unset] == [None] * 4


def test_no_auth_type_is_found_at_the_start(conf):
    adapter = session.from_conf(conf)
    with pytest.raises(errors.OptionError, match=r'\[placement\] auth_type: No auth'):
        session.check(adapter)
    adapter.session.session.close()


def test_placement_is_there(scripted):
    adapter, script = scripted((200, VERSIONS), raise_exc=False)
    assert session.check(adapter) is None
    assert script.asked == ['GET /']


@cases(
    'answer',
    ('refused', requests.ConnectionError('refused')),
    ('silent', requests.ReadTimeout('slow')),
    ('not in the catalog', ksa.EndpointNotFound()),
    ('not to be discovered', ksa.DiscoveryFailure()),
    ('keystone is behind a slow gateway', ksa.GatewayTimeout()),
    ('not up yet', (503, '<html/>')),
    ('too slow', (408, '')),
)
def test_transient_failure_is_a_warning_at_the_start(scripted, answer):
    adapter, _ = scripted(answer, raise_exc=False)
    warning = session.check(adapter)
    assert warning.startswith('Unable to initialize placement client (')
    assert warning.endswith('but scheduling will not be possible.')


@cases(
    'answer, option',
    ('bad password', ksa.Unauthorized(), '[placement] auth_type'),
    ('bad certificate', ksa.SSLError(), '[placement]'),
    ('somebody else', (404, '<html/>'), '[placement]'),
    ('JSON of somebody else', (200, '{}'), '[placement]'),
    ('a list of somebody else', (200, '[]'), '[placement]'),
)
def test_permanent_failure_ends_the_start(scripted, answer, option):
    adapter, _ = scripted(answer, raise_exc=False)
    with pytest.raises(errors.OptionError) as caught:
        session.check(adapter)
    assert caught.value.option == option
