# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a provider, and what is no answer to the question."""

import pytest
import requests

from novasched.placement.allocations import (
    LOOKUPS_TIMEOUT_S,
    MOST_ASKED,
    holders,
    usages,
)
from novasched.placement.client import PlacementClient
from novasched.ports import QueryFailed
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases


@pytest.mark.parametrize('uuids', [[], ['a', 'b']])
def test_aggregates(scripted, context, uuids):
    body = {'aggregates': uuids, 'resource_provider_generation': 3}
    adapter, script = scripted((200, body))
    assert PlacementClient(adapter).aggregates(context, 'rp') == frozenset(uuids)
    assert script.asked == ['GET /resource_providers/rp/aggregates']
    version = script.requests[0].headers['OpenStack-API-Version']
    assert version == 'placement 1.19'


@cases(
    'status, text',
    ('no such provider', 404, '{"errors": []}'),
    ('a gateway', 503, '<html>sorry</html>'),
    ('not placement', 200, '<html>welcome</html>'),
    ('JSON of somebody else', 200, '[]'),
    ('not a list', 200, '{"aggregates": 1}'),
    ('a text', 200, '{"aggregates": "abc"}'),
)
def test_failures(scripted, context, caplog, status, text):
    adapter, _ = scripted((status, text), (status, text))
    found = PlacementClient(adapter).aggregates(context, 'rp')
    assert found == QueryFailed(status, text, is_unavailable=status == 503)
    assert [r.message for r in caplog.records if r.levelname == 'ERROR'] == [
        'Failed to retrieve aggregates from placement API for resource provider with '
        f'UUID rp. Got {status}: {text}.'
    ]


def test_long_error_text_is_cut_off(scripted, context, caplog):
    adapter, _ = scripted((500, 'x' * 5000))
    found = PlacementClient(adapter).aggregates(context, 'rp')
    assert found == QueryFailed(500, 'x' * 1000, is_unavailable=True)
    (said,) = [r.message for r in caplog.records if r.levelname == 'ERROR']
    assert said.endswith(f'Got 500: {"x" * 1000}.')


def test_silence(scripted, context):
    adapter, _ = scripted(requests.ReadTimeout('slow'))
    found = PlacementClient(adapter).aggregates(context, 'rp')
    assert (found.status, found.is_unavailable) == (0, True)


def test_holders_are_asked_for_by_provider_where_that_is_less(scripted, context):
    body = {'allocations': {'a': {'resources': {'VCPU': 1}}, 'x': {}}}
    adapter, script = scripted((200, body))
    found = PlacementClient(adapter).holders(context, ['a', 'b'], {}, ['rp'])
    assert found == {'a': {'rp'}}
    assert script.asked == ['GET /resource_providers/rp/allocations']
    assert PlacementClient(adapter).holders(context, ['a', 'b'], {}, ()) == {}


def test_none_of_very_many_holders_is_left_out_where_providers_are_named(
    scripted, context
):
    consumers = [f'c{number}' for number in range(MOST_ASKED + 1)]
    providers = [f'rp{number}' for number in range(MOST_ASKED + 2)]
    last = {'allocations': {consumers[-1]: {'resources': {'VCPU': 1}}}}
    empty = [(200, {'allocations': {}})] * (len(providers) - 1)
    adapter, _ = scripted(*empty, (200, last))
    found = PlacementClient(adapter).holders(context, consumers, {}, providers)
    assert found == {consumers[-1]: {providers[-1]}}


def test_else_by_consumer(scripted, context):
    held = {
        'allocations': {'rp': {'resources': {'VCPU': 1}}},
        'consumer_generation': 1,
        'project_id': 'p',
        'user_id': 'u',
    }
    adapter, script = scripted((200, held), (200, {'allocations': {}}))
    found = PlacementClient(adapter).holders(context, ['a', 'b'], {})
    assert found == {'a': {'rp'}}
    assert script.asked == ['GET /allocations/a', 'GET /allocations/b']


@cases(
    'status, text, among',
    ('an error, of a provider', 404, 'no', ['rp']),
    ('nonsense, of a provider', 200, '[]', ['rp']),
    ('an error, of a consumer', 500, 'no', None),
)
def test_unreadable_holders_are_a_failed_query(scripted, context, status, text, among):
    adapter, _ = scripted((status, text), (status, text))
    found = PlacementClient(adapter).holders(context, ['a'], {}, among)
    assert found.status == status


def test_usages_are_asked_for_of_each_provider(scripted, context):
    answers = [(200, {'usages': {'VCPU': each}}) for each in (1, 2)]
    adapter, script = scripted(*answers)
    found = PlacementClient(adapter).usages(context, {'a': 'me', 'b': 'me'})
    assert found == {'a': {'VCPU': 1}, 'b': {'VCPU': 2}}
    asked = [f'GET /resource_providers/{each}/usages' for each in 'ab']
    assert script.asked == asked


@cases(
    'look, body',
    ('usages', lambda *asked: usages(*asked), {'usages': {}}),
    (
        'holders',
        lambda *asked: holders(*asked[:3], None, asked[3]),
        {'allocations': {}},
    ),
)
def test_slow_answers_are_waited_for_together(scripted, context, look, body):
    clock = FakeClock()
    adapter, script = scripted(*[(200, body)] * 100)
    adapter.session.session.hooks['response'] = [lambda *_, **__: clock.advance(8)]
    found = look(adapter, context, [f'u{number}' for number in range(100)], clock)
    assert (found.status, found.is_unavailable) == (0, True)
    assert len(script.asked) == -(-LOOKUPS_TIMEOUT_S // 8)


@cases('status, text', ('an error', 404, 'no'), ('nonsense', 200, '{"usages": [1]}'))
def test_usages_may_not_be_known(scripted, context, status, text):
    adapter, _ = scripted((status, text))
    assert PlacementClient(adapter).usages(context, {'a': 'me'}).status == status
