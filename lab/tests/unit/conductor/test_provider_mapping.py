# SPDX-License-Identifier: Apache-2.0
"""Which providers serve the groups of a request."""

from __future__ import annotations

import json

import pytest

from lab.tests.unit.fakes import selection
from novasched import errors
from novasched.objects.request_spec import RequestGroup
from novasched_lab.conductor import provider_mapping
from tests import factories


def with_groups(*names):
    groups = [RequestGroup(requester_id=name, resources={'A': 1}) for name in names]
    return factories.request(requested_resources=groups)


def test_each_group_gets_the_providers_of_its_name():
    claim = json.dumps({'mappings': {'': ['r'], 'one': ['p1'], 'two': ['p2']}})
    request = with_groups('one', 'two')
    made = provider_mapping.fill(request, selection('h', allocation_request=claim))
    assert [g.provider_uuids for g in made.requested_resources] == [['p1'], ['p2']]
    assert request.requested_resources[0].provider_uuids == []


def test_a_request_without_groups_needs_nothing():
    request = factories.request()
    assert provider_mapping.fill(request, selection('h')) is request


def test_a_group_that_is_left_out_is_an_error():
    with pytest.raises(errors.InvalidRequest, match='one'):
        provider_mapping.fill(with_groups('one'), selection('h'))


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        pytest.param('null', None, id='nothing needs to be claimed'),
        pytest.param(None, None, id='nothing is said'),
        pytest.param('{"a": 1}', {'a': 1}, id='an object'),
    ],
)
def test_the_candidate_of_a_selection(text, expected):
    found = provider_mapping.candidate_of(selection('h', allocation_request=text))
    assert found == expected


@pytest.mark.parametrize('text', ['{', '[]'])
def test_text_that_is_no_candidate(text):
    with pytest.raises(errors.InvalidRequest):
        provider_mapping.candidate_of(selection('h', allocation_request=text))
