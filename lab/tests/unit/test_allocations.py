# SPDX-License-Identifier: Apache-2.0
"""Handing over what consumers hold, and letting it go."""

import pytest
import requests

from lab.tests.unit.fakes import context
from novasched import errors
from novasched_lab.allocations import Allocations
from tests.support.tables.cases import cases
from tests.unit.placement.conftest import scripted

__all__ = ['scripted']

HELD = {'rp': {'resources': {'VCPU': 1}, 'generation': 3}}
CODE = 'placement.concurrent_update'
CONFLICT = {'errors': [{'code': CODE, 'detail': 'provider generation'}]}
CHANGED = {'errors': [{'code': CODE, 'detail': 'consumer generation conflict'}]}


def held(allocations, generation=1):
    body = {
        'allocations': allocations,
        'consumer_generation': generation,
        'project_id': 'p',
        'user_id': 'u',
    }
    return 200, body if allocations else {'allocations': {}}


DONE, FULL, EMPTY = (204, ''), held(HELD), held({})


def test_a_swap_gives_all_to_the_other_consumer(scripted):
    adapter, script = scripted(FULL, EMPTY, DONE)
    assert Allocations(adapter).swap(context(), 'i', 'm')
    assert script.asked[-1] == 'POST /allocations'
    body = script.body(2)
    assert body['i'] == {
        'allocations': {},
        'project_id': 'p',
        'user_id': 'u',
        'consumer_generation': 1,
    }
    assert body['m']['allocations'] == {'rp': {'resources': {'VCPU': 1}}}
    assert body['m']['consumer_generation'] is None


@cases(
    'answers, swapped',
    ('it was done before', [EMPTY, FULL], True),
    ('nobody holds anything', [EMPTY, EMPTY], False),
    (
        'a provider changed meanwhile',
        [FULL, EMPTY, (409, CONFLICT), FULL, EMPTY, DONE],
        True,
    ),
    (
        'the answer was lost',
        [FULL, EMPTY, requests.ConnectionError('gone'), EMPTY, FULL],
        True,
    ),
    ('placement refuses', [FULL, EMPTY, (400, '')], False),
    ('providers keep changing', [FULL, EMPTY, (409, CONFLICT)] * 4, False),
)
def test_how_a_swap_ends(scripted, answers, swapped):
    adapter, _ = scripted(*answers)
    assert Allocations(adapter).swap(context(), 'i', 'm') == swapped


@cases(
    'answers',
    ('another changes the consumer', [FULL, EMPTY, (409, CHANGED)]),
    ('it cannot be read', [(500, '')]),
)
def test_consumer_that_is_not_certain_is_not_swapped(scripted, answers):
    adapter, _ = scripted(*answers)
    with pytest.raises(errors.AllocationUpdateFailed):
        Allocations(adapter).swap(context(), 'i', 'm')


@cases(
    'answers, removed',
    ('at once', [DONE], True),
    ('there is nothing', [(404, '')], True),
    ('at the second time', [(500, ''), DONE], True),
    ('placement refuses', [(400, '')], False),
    ('placement fails', [(500, '')] * 4, False),
)
def test_how_removing_ends(scripted, answers, removed):
    adapter, _ = scripted(*answers)
    assert Allocations(adapter).remove(context(), 'i') == removed
