# SPDX-License-Identifier: Apache-2.0
"""Older forms of objects."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.request_spec import Destination, RequestSpec
from novasched_lab.conductor.backport import backported
from tests import factories

VERSIONS = {'RequestSpec': '1.12', 'Flavor': '1.1', 'Destination': '1.2'}


def test_an_object_and_those_in_it_take_older_forms():
    request = factories.request(requested_destination=Destination(host='h'))
    made = backported(request.obj_to_primitive(), VERSIONS)
    assert made['nova_object.version'] == '1.12'
    data = made['nova_object.data']
    assert data['flavor']['nova_object.version'] == '1.1'
    assert 'requested_networks' not in data
    assert data['requested_destination']['nova_object.version'] == '1.2'


def test_an_object_that_is_newer_than_ours_is_read_as_far_as_we_can():
    primitive = factories.request().obj_to_primitive()
    primitive['nova_object.version'] = '1.99'
    versions = {'RequestSpec': RequestSpec.VERSION}
    assert backported(primitive, versions)['nova_object.version'] == RequestSpec.VERSION


@pytest.mark.parametrize(
    ('primitive', 'versions'),
    [
        pytest.param({}, VERSIONS, id='no object'),
        pytest.param('text', VERSIONS, id='text'),
        pytest.param(factories.request().obj_to_primitive(), {}, id='no version'),
    ],
)
def test_nonsense(primitive, versions):
    with pytest.raises(errors.InvalidRequest):
        backported(primitive, versions)
