# SPDX-License-Identifier: Apache-2.0
import pytest

from novasched import errors
from novasched_lab.resource_providers import (
    Inventory,
    Provider,
    held_on,
    name_of,
    register,
)
from tests.support.tables.cases import cases
from tests.unit.placement.conftest import scripted

__all__ = ['scripted']

KEY = 'resource_provider_generation'
VCPU = {
    'total': 4,
    'reserved': 0,
    'allocation_ratio': 1.0,
    'min_unit': 1,
    'max_unit': 4,
    'step_size': 1,
}
ROOT = Provider('r', 'h1', {'VCPU': Inventory(4, max_unit=4)})
KNOWN = {'uuid': 'r', 'name': 'h1'}
NOTHING = {'inventories': {}, KEY: 0}
SAME = {'inventories': {'VCPU': VCPU}, KEY: 3}
TRAITS = {'traits': ['OWNER_NOVA'], KEY: 3}


def test_a_provider_that_is_as_it_should_be_is_not_written(scripted):
    adapter, script = scripted((200, KNOWN), (200, SAME), (200, TRAITS))
    register(adapter, [ROOT])
    assert [request.split()[0] for request in script.asked] == ['GET'] * 3


def test_a_provider_is_made(scripted):
    adapter, script = scripted(
        (404, {}), (200, KNOWN), (200, NOTHING), (200, SAME), (200, TRAITS)
    )
    register(adapter, [ROOT])
    assert script.asked[1] == 'POST /resource_providers'
    assert script.body(1) == {'uuid': 'r', 'name': 'h1'}
    assert script.body(3) == {'inventories': {'VCPU': VCPU}, KEY: 0}


def test_another_was_faster(scripted):
    adapter, script = scripted(
        (200, KNOWN), (200, NOTHING), (409, {}), (200, {**NOTHING, KEY: 1}),
        (200, SAME), (200, TRAITS),
    )  # fmt: skip
    register(adapter, [ROOT])
    assert script.body(4)[KEY] == 1


def test_others_are_always_faster(scripted):
    adapter, _ = scripted((200, KNOWN), *([(200, NOTHING), (409, {})] * 4))
    with pytest.raises(errors.SetupError, match='keeps changing'):
        register(adapter, [ROOT])


def test_placement_refuses(scripted):
    adapter, _ = scripted((500, 'broken'))
    with pytest.raises(errors.SetupError, match='broken'):
        register(adapter, [ROOT])


def test_an_aggregate_is_added_once(scripted):
    member = Provider('r', 'h1', {}, frozenset(), frozenset({'two'}))
    adapter, script = scripted(
        (200, KNOWN),
        (200, {'aggregates': ['one'], KEY: 2}),
        (200, {}),
        (200, KNOWN),
        (200, {'aggregates': ['one', 'two'], KEY: 3}),
    )
    register(adapter, [member])
    register(adapter, [member])
    assert script.body(2) == {'aggregates': ['one', 'two'], KEY: 2}
    assert len(script.asked) == 5


def test_consumers(scripted):
    adapter, _ = scripted((200, {'allocations': {'u1': {}, 'u2': {}}}))
    assert held_on(adapter, 'r') == ['u1', 'u2']


@cases(
    'answer, expected',
    ('its name', (200, {'name': 'h1'}), 'h1'),
    ('it is gone', (404, {}), 'uuid'),
    ('no name', (200, {}), 'uuid'),
    ('an error', (500, 'broken'), 'uuid'),
)
def test_the_name_of_a_provider(scripted, answer, expected):
    adapter, _ = scripted(answer)
    assert name_of(adapter, 'uuid') == expected
