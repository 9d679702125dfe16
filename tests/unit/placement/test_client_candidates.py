# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates, and what is no answer to the query."""

import json

import pytest
import requests

from novasched.placement.client import PlacementClient
from novasched.ports import Candidates, QueryFailed
from tests.support.tables.cases import cases

QUERY = 'limit=1000&resources=VCPU%3A1&root_required=OWNER_NOVA%2C%21X'
ONE = {'allocations': {'rp': {'resources': {'VCPU': 1}}}, 'mappings': {'': ['rp']}}


def candidates(adapter, context, query, is_quiet=False):
    client = PlacementClient(adapter, is_unavailable=lambda: is_quiet)
    return client.candidates(context, query)


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


SUMMARY = {'resources': {'VCPU': {'capacity': 4, 'used': 1}}, 'traits': ['X']}


@cases(
    'text',
    (
        'as placement writes it',
        '{"allocation_requests": [%s], "provider_summaries": {"rp": %s}}',
    ),
    (
        'with other white space',
        '\n{ "allocation_requests" :[%s]\t,\r\n"provider_summaries":{"rp":%s} }\n',
    ),
    (
        'with something in between',
        '{"allocation_requests": [%s], "new": 1, "provider_summaries": {"rp": %s}}',
    ),
)
def test_summaries(scripted, context, text):
    adapter, _ = scripted((200, text % (json.dumps(ONE), json.dumps(SUMMARY))))
    found = candidates(adapter, context, QUERY)
    assert found.requests == [ONE]
    assert dict(found.summaries) == {'rp': SUMMARY}
    assert len(found.summaries) == 1


def test_one_summary_is_parsed_alone(scripted, context):
    text = '{"allocation_requests": [], "provider_summaries": {"o": {"x": NONE}, %s}}'
    adapter, _ = scripted((200, text % f'"rp": {json.dumps(SUMMARY)}'))
    found = candidates(adapter, context, QUERY)
    assert found.summaries['rp'] == SUMMARY


def test_summaries_in_another_order(scripted, context):
    body = {'provider_summaries': {'rp': SUMMARY}, 'allocation_requests': [ONE]}
    adapter, _ = scripted((200, body))
    found = candidates(adapter, context, QUERY)
    assert (found.requests, found.summaries) == ([ONE], {'rp': SUMMARY})


def ours(caplog):
    """What novasched said; libraries may say what they like."""
    return [r for r in caplog.records if r.name.startswith('novasched')]


def test_broken_summaries_do_not_keep_anybody_from_the_candidates(
    scripted, context, caplog
):
    offered = json.dumps([ONE])
    text = f'{{"allocation_requests": {offered}, "provider_summaries": ?}}'
    adapter, _ = scripted((200, text))
    found = candidates(adapter, context, QUERY)
    assert found.requests == [ONE]
    assert ours(caplog) == []
    assert (dict(found.summaries), len(found.summaries)) == ({}, 0)
    assert [r.message for r in ours(caplog) if r.levelname == 'WARNING'] == [
        'The provider summaries of placement are no JSON: '
        f'Expecting value: line 1 column {text.index("?") + 1} (char {text.index("?")})'
    ]


@cases(
    'status, text',
    ('a bad query', 400, '{"errors": []}'),
    ('a gateway', 503, '<html>sorry</html>'),
    ('not placement', 200, '<html>welcome</html>'),
    ('JSON of somebody else', 200, '[]'),
    (
        'an answer that breaks off',
        200,
        '{"allocation_requests": [], "provider_summaries": {',
    ),
)
def test_failures(scripted, context, caplog, status, text):
    adapter, _ = scripted((status, text), (status, text))
    assert candidates(adapter, context, QUERY) == QueryFailed(
        status, text, status >= 500
    )
    assert [r.message for r in caplog.records if r.levelname == 'ERROR'] == [
        'Failed to retrieve allocation candidates from placement API for filters: '
        f'{QUERY}. Got {status}: {text}.'
    ]


def holding(**fields):
    return {'allocations': {'rp': fields}, 'mappings': {}}


@pytest.mark.parametrize('later', [True, False], ids=['parsed later', 'all at once'])
@pytest.mark.parametrize(
    'requests_',
    [
        None,
        5,
        {'0': ONE},
        [ONE, {}],
        [1],
        [{'allocations': ['rp']}],
        [{'allocations': {'rp': 1}}],
        [holding()],
        [holding(resources=[])],
        [holding(resources={'VCPU': '1'})],
        [{**ONE, 'mappings': ['rp']}],
        [{**ONE, 'mappings': {'': 'rp'}}],
    ],
    ids=str,
)
def test_malformed_candidates_are_a_failed_query(scripted, context, requests_, later):
    body = {'allocation_requests': requests_, 'provider_summaries': {}}
    text = json.dumps(body if later else dict(reversed(body.items())))
    adapter, _ = scripted((200, text))
    assert candidates(adapter, context, QUERY) == QueryFailed(200, text)


@pytest.mark.parametrize('later', [True, False], ids=['parsed later', 'all at once'])
@pytest.mark.parametrize(
    ('summaries', 'usable'),
    [
        (None, []),
        ([1], []),
        ({'x': 3, 'rp': SUMMARY}, ['rp']),
        (
            {'x': {'root_provider_uuid': ['r']}, 'rp': {'root_provider_uuid': 'r'}},
            ['rp'],
        ),
    ],
    ids=str,
)
def test_malformed_summaries_are_ignored(
    scripted, context, caplog, summaries, usable, later
):
    body = {'allocation_requests': [ONE], 'provider_summaries': summaries}
    adapter, _ = scripted((200, body if later else dict(reversed(body.items()))))
    found = candidates(adapter, context, QUERY)
    assert (found.requests, list(found.summaries)) == ([ONE], usable)
    assert [r.message for r in caplog.records if r.levelname == 'WARNING'] == [
        'Ignoring malformed provider_summaries from placement'
    ]


def test_long_error_text_is_cut_off(scripted, context, caplog):
    adapter, _ = scripted((200, 'x' * 5000))
    failed = candidates(adapter, context, QUERY)
    assert failed == QueryFailed(200, 'x' * 1000)
    own = [r for r in caplog.records if r.name.startswith('novasched')]
    assert max(len(record.message) for record in own) < 1300


def test_silence(scripted, context):
    adapter, _ = scripted(requests.ReadTimeout('slow'))
    failed = candidates(adapter, context, QUERY)
    assert isinstance(failed, QueryFailed)
    assert failed.status == 0
