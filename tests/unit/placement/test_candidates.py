# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates, and what is no answer to the query."""

from __future__ import annotations

import pytest
import requests

from novasched.placement.candidates import candidates
from novasched.ports import Candidates, QueryFailed

QUERY = 'limit=1000&resources=VCPU%3A1&root_required=OWNER_NOVA%2C%21X'
ONE = {'allocations': {'rp': {'resources': {'VCPU': 1}}}, 'mappings': {'': ['rp']}}


def test_candidates(scripted, context):
    adapter, script = scripted(
        (200, {'allocation_requests': [ONE], 'provider_summaries': {'rp': {}, 'c': {}}})
    )
    found = candidates(adapter, context, QUERY)
    assert found == Candidates([ONE], '1.36')
    assert script.asked == [f'GET /allocation_candidates?{QUERY}']
    version = script.requests[0].headers['OpenStack-API-Version']
    assert version == 'placement 1.36'


def test_none_is_an_answer(scripted, context):
    adapter, _ = scripted((200, {'allocation_requests': [], 'provider_summaries': {}}))
    assert candidates(adapter, context, QUERY) == Candidates([], '1.36')


@pytest.mark.parametrize(
    ('status', 'text'),
    [
        pytest.param(400, '{"errors": []}', id='a bad query'),
        pytest.param(503, '<html>sorry</html>', id='a gateway'),
        pytest.param(200, '<html>welcome</html>', id='not placement'),
        pytest.param(200, '[]', id='JSON of somebody else'),
    ],
)
def test_failures(scripted, context, caplog, status, text):
    adapter, _ = scripted((status, text))
    assert candidates(adapter, context, QUERY) == QueryFailed(status, text)
    assert [r.message for r in caplog.records if r.levelname == 'ERROR'] == [
        'Failed to retrieve allocation candidates from placement API for filters: '
        f'{QUERY}\nGot {status}: {text}.'
    ]


def test_silence(scripted, context):
    adapter, _ = scripted(requests.ReadTimeout('slow'))
    failed = candidates(adapter, context, QUERY)
    assert isinstance(failed, QueryFailed)
    assert failed.status == 0
