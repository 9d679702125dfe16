# SPDX-License-Identifier: Apache-2.0
"""In which order candidates are tried, and what a candidate gives to groups."""

from __future__ import annotations

import logging

import pytest

from novasched.drivers.candidate_order import offers, with_providers
from novasched.objects.request_spec import RequestGroup
from tests import factories

PORT = 'b0000000-0000-4000-8000-000000000001'


def test_the_first_of_each_host_come_first(caplog):
    caplog.set_level(logging.DEBUG, 'novasched.drivers')
    table = factories.hosts(allocation_candidates=[[1, 2, 3], [], [4], [5, 6]])
    found = [(host.host, candidate) for host, candidate in offers(table)]
    assert found == [
        *(('h1', 1), ('h3', 4), ('h4', 5)),
        *(('h1', 2), ('h1', 3), ('h4', 6)),
    ]
    (message,) = caplog.messages
    assert 'candidatefor host (h2, h2)' in message


@pytest.mark.parametrize(
    ('candidate', 'expected'),
    [
        pytest.param(None, [], id='nothing was claimed'),
        pytest.param({'mappings': {'port': [PORT]}}, [PORT], id='it names the group'),
        pytest.param({'mappings': {'': [PORT]}}, [], id='it does not'),
        pytest.param({}, [], id='it is of an old placement'),
    ],
)
def test_groups_are_told_their_providers(candidate, expected):
    groups = [RequestGroup(requester_id='port', provider_uuids=[])]
    request = factories.request(requested_resources=groups)
    (group,) = with_providers(request, candidate).requested_resources
    assert group.provider_uuids == expected
    assert groups[0].provider_uuids == []


def test_a_request_without_groups_is_the_same():
    request = factories.request()
    assert with_providers(request, {'mappings': {}}) is request
