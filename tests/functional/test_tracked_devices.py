# SPDX-License-Identifier: Apache-2.0
"""Dry runs count the PCI devices that placement tracks, as requests get them."""

import json

import pytest

from novasched.inspection.questions import capacity, plan
from novasched.inspection.session import session
from novasched.inspection.session.catalogue import flavor_of
from novasched.inspection.session.orders import BootOrder, CapacityOrder
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.commands import sources
from tests.functional.conftest import Host, named_uuid
from tests.functional.test_capacity import filled
from tests.support.clouds import factories

FILTERS = ['ComputeFilter', 'PciPassthroughFilter']
CLASS = 'CUSTOM_PCI_10DE_1DB4'
CARD = {'vendor_id': '10de', 'product_id': '1db4'}
ALIASES = {
    'gpu': {**CARD, 'device_type': 'type-PCI'},
    'fast': {'resource_class': CLASS, 'traits': 'CUSTOM_FAST'},
}
SMALL = 'vcpus=1,ram=512,disk=1'
CARDS = {
    'two': [{}, {'traits': ['CUSTOM_FAST']}],
    'used': [{'reserved': 1}],
    'one': [{}],
}
"""Cards of each host. The one of ``used`` serves one server ever, and has: the compute
reserves it, and its row has it still."""


@pytest.fixture
def made(cloud):
    """Make a cloud with cards."""
    hosts, providers = [Host('none')], []
    for name, cards in CARDS.items():
        pools = [
            {**CARD, 'dev_type': 'type-PCI', 'rp_uuid': named_uuid(f'{name} {number}')}
            for number in range(len(cards))
        ]
        hosts.append(Host(name, pci_stats=factories.pools(*pools)))
        providers += [
            Provider(
                named_uuid(f'{name} {number}'),
                f'{name}_{number}',
                {CLASS: Inventory(1, reserved=card.get('reserved', 0))},
                parent=hosts[-1].uuid,
                traits=frozenset(['OWNER_NOVA', *card.get('traits', ())]),
            )
            for number, card in enumerate(cards)
        ]
    made = cloud(
        hosts,
        filter_scheduler={'enabled_filters': FILTERS, 'pci_in_placement': True},
        pci={
            'alias': [
                json.dumps({'name': name, **each}) for name, each in ALIASES.items()
            ]
        },
    )
    for path in (f'/resource_classes/{CLASS}', '/traits/CUSTOM_FAST'):
        assert made.adapter.put(path, microversion='1.36').status_code == 201
    provide(made.adapter, providers)
    return made


@pytest.mark.parametrize(
    ('wanted', 'expected'),
    [
        pytest.param('gpu:1', {'two': 2, 'one': 1}, id='a card'),
        pytest.param('gpu:2', {'two': 1}, id='two cards'),
        pytest.param('fast:1', {'two': 1}, id='a card with a trait'),
        pytest.param('fast:1,gpu:1', {'two': 1}, id='a card of each alias'),
        pytest.param('gpu:3', {}, id='more cards than a host has'),
    ],
)
def test_plan_and_capacity_are_what_requests_get(made, wanted, expected):
    text = f'{SMALL},pci_passthrough:alias={wanted}'
    most = sum(expected.values())
    with session.opened(made.conf, sources=sources(made)) as opened:
        counted = capacity.answer(opened, CapacityOrder((text,), 'host')).rows
        asked = opened.maker.boot(flavor_of(text), order=BootOrder(count=most + 1))
        planned = plan.boot(opened.run, asked)
    assert {row.by: row.slots for row in counted if row.slots} == expected
    assert (planned.asked, planned.fits) == (most + 1, most)
    got = filled(
        made,
        vcpus=1,
        memory_mb=512,
        root_gb=1,
        pci_requests=asked.request.pci_requests,
        requested_resources=asked.request.requested_resources,
    )
    assert got == expected
