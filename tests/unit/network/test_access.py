# SPDX-License-Identifier: Apache-2.0
"""Token and catalog of a request, as keystoneauth asks for them."""

from __future__ import annotations

import pytest

from novasched.network.access import UserAccess
from novasched.objects.context import RequestContext

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
