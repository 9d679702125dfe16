# SPDX-License-Identifier: Apache-2.0
"""Handing over what consumers hold, and letting it go."""

import json

import pytest
from keystoneauth1 import exceptions as ksa

from lab.tests.unit.fakes import context
from novasched import errors
from novasched_lab.allocations import Allocations
from tests.support.tables.cases import cases

HELD = {'rp': {'resources': {'VCPU': 1}, 'generation': 3}}
CONFLICT = {
    'errors': [{'code': 'placement.concurrent_update', 'detail': 'provider generation'}]
}
CHANGED = {
    'errors': [
        {
            'code': 'placement.concurrent_update',
            'detail': 'consumer generation conflict',
        }
    ]
}


class Answer:
    headers = {}

    def __init__(self, status, body=None):
        self.status_code = status
        self.content = json.dumps(body or {}).encode()
        self.text = self.content.decode()


def held(allocations, generation=1):
    body = {
        'allocations': allocations,
        'consumer_generation': generation,
        'project_id': 'p',
        'user_id': 'u',
    }
    return Answer(200, body if allocations else {'allocations': {}})


ASKED = (held(HELD), held({}))


class Adapter:
    """Answers from a list, and keeps what it was asked."""

    auth = None
    endpoint_override = None
    service_type = 'placement'

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def request(self, url, method, **options):
        self.asked.append((method, url, options.get('json')))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_swap_gives_all_to_the_other_consumer():
    adapter = Adapter(held(HELD), held({}), Answer(204))
    assert Allocations(adapter).swap(context(), 'i', 'm')
    method, url, body = adapter.asked[-1]
    assert (method, url) == ('POST', '/allocations')
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
    ('it was done before', [held({}), held(HELD)], True),
    ('nobody holds anything', [held({}), held({})], False),
    (
        'a provider changed meanwhile',
        [
            held(HELD),
            held({}),
            Answer(409, CONFLICT),
            held(HELD),
            held({}),
            Answer(204),
        ],
        True,
    ),
    (
        'the answer was lost',
        [held(HELD), held({}), ksa.ConnectFailure('gone'), held({}), held(HELD)],
        True,
    ),
    ('placement refuses', [held(HELD), held({}), Answer(400)], False),
    (
        'providers keep changing',
        [held(HELD), held({}), Answer(409, CONFLICT)] * 4,
        False,
    ),
)
def test_how_a_swap_ends(answers, swapped):
    assert Allocations(Adapter(*answers)).swap(context(), 'i', 'm') == swapped


def test_a_consumer_that_another_changes_is_left():
    adapter = Adapter(held(HELD), held({}), Answer(409, CHANGED))
    with pytest.raises(errors.AllocationUpdateFailed):
        Allocations(adapter).swap(context(), 'i', 'm')


def test_unreadable_allocation_is_not_swapped():
    with pytest.raises(errors.AllocationUpdateFailed):
        Allocations(Adapter(Answer(500))).swap(context(), 'i', 'm')


@cases(
    'answers, removed',
    ('at once', [Answer(204)], True),
    ('there is nothing', [Answer(404)], True),
    ('at the second time', [Answer(500), Answer(204)], True),
    ('placement refuses', [Answer(400)], False),
    ('placement fails', [Answer(500)] * 4, False),
)
def test_how_removing_ends(answers, removed):
    assert Allocations(Adapter(*answers)).remove(context(), 'i') == removed
