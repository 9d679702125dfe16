# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from novasched import errors
from novasched_lab.compute.inventories import Inventories
from novasched_lab.compute.machines import Provider

ROOT = Provider('r', 'h1', None, {'VCPU': {'total': 4}}, frozenset({'OWNER_NOVA'}))
KEY = 'resource_provider_generation'
NOTHING = {'inventories': {}, KEY: 0}
SAME = {'inventories': {'VCPU': {'total': 4}}, KEY: 3}
KNOWN = {'resource_providers': [{'uuid': 'r'}]}


def test_a_provider_that_is_as_it_should_be_is_not_written(scripted):
    adapter, script = scripted((200, KNOWN), (200, SAME))
    Inventories(adapter).provide({'r': [ROOT]})
    assert [request.split()[0] for request in script.asked] == ['GET', 'GET']


def test_a_provider_is_made(scripted):
    adapter, script = scripted(
        (200, {'resource_providers': []}), (200, {'uuid': 'r'}), (200, NOTHING),
        (200, SAME),
    )  # fmt: skip
    Inventories(adapter).provide({'r': [ROOT]})
    assert script.asked[1] == 'POST /resource_providers'
    assert script.body(1) == {'uuid': 'r', 'name': 'h1'}
    assert script.body(3) == {'inventories': {'VCPU': {'total': 4}}, KEY: 0}


def test_another_was_faster(scripted):
    adapter, script = scripted(
        (200, KNOWN), (200, NOTHING), (409, {}), (200, {**NOTHING, KEY: 1}), (200, SAME)
    )
    Inventories(adapter).provide({'r': [ROOT]})
    assert script.body(4)[KEY] == 1


def test_others_are_always_faster(scripted):
    adapter, _ = scripted((200, KNOWN), *([(200, NOTHING), (409, {})] * 4))
    with pytest.raises(errors.StoreFailed, match='keeps changing'):
        Inventories(adapter).provide({'r': [ROOT]})


def test_placement_refuses(scripted):
    adapter, _ = scripted((200, KNOWN), (500, 'broken'))
    with pytest.raises(errors.StoreFailed, match='500 broken'):
        Inventories(adapter).provide({'r': [ROOT]})


def test_a_disabled_host_has_a_trait(scripted):
    adapter, script = scripted((200, {'traits': ['OWNER_NOVA'], KEY: 2}), (200, {}))
    Inventories(adapter).set_disabled(ROOT, True)
    assert script.body(1)['traits'] == ['COMPUTE_STATUS_DISABLED', 'OWNER_NOVA']


def test_an_aggregate_is_added_once(scripted):
    adapter, script = scripted(
        (200, {'aggregates': ['one'], KEY: 2}),
        (200, {}),
        (200, {'aggregates': ['one', 'two'], KEY: 3}),
    )
    inventories = Inventories(adapter)
    for _ in range(2):
        inventories.add_aggregate('r', 'two')
    assert script.body(1) == {'aggregates': ['one', 'two'], KEY: 2}
    assert len(script.asked) == 3


def test_consumers(scripted):
    adapter, _ = scripted((200, {'allocations': {'u1': {}, 'u2': {}}}))
    assert Inventories(adapter).consumers('r') == {'u1', 'u2'}
