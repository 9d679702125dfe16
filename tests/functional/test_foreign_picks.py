# SPDX-License-Identifier: Apache-2.0
"""Messages of other schedulers about their picks, of which any field may be wrong."""

from __future__ import annotations

import json

import pytest

from novasched.cluster.assumed import AssumedInstances
from novasched.rpc.shared_picks import PickSender, PicksEndpoint
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NODES = factories.numa_topology(
    factories.numa_cell(0, range(4)), factories.numa_cell(1, range(4, 8))
)
FILTERS = ['NUMATopologyFilter', 'PciPassthroughFilter']


@pytest.fixture
def made(cloud):
    hosts = [
        Host(
            f'h{number}',
            numa_topology=NODES,
            pci_stats=factories.pools(4),
            memory_mb=9000 - number,
        )
        for number in range(3)
    ]
    return cloud(hosts, filter_scheduler={'enabled_filters': FILTERS})


@pytest.fixture
def scheduler(made):
    return made.compose()


@pytest.fixture
def message(scheduler):
    """The message of another scheduler that has picked h0: a cell and a device."""
    sent = []
    sender = PickSender(lambda **message: sent.append(message), lambda *counted: None)
    other = AssumedInstances(on_pick=sender)
    view = other.see(lambda: scheduler.view.hosts(None))
    (host,) = [each for each in view.hosts.states() if each.host == 'h0']
    request = factories.request(
        instance_uuid=new_uuids()[0],
        **factories.pinned(),
        pci_requests=factories.devices(),
    )
    other.add(host, view.base, request)
    sender.send(dict(sender._waiting))
    return json.loads(json.dumps(sent[-1]))


def fields(primitive, *path):
    """Return the fields of an object inside of another one."""
    for name in path:
        primitive = primitive['nova_object.data'][name]
        if isinstance(primitive, list):
            (primitive,) = primitive
    return primitive['nova_object.data']


def change(*path, **values):
    """Return what changes fields of an object in the request of a pick."""

    def changed(pick):
        fields(pick['request'], *path).update(values)

    return changed


CELL = 'numa_topology', 'cells'
DEVICES = 'pci_requests', 'requests'


@pytest.mark.scenario('F26')
@cases(
    'spoil',
    ('a time without a zone', lambda p: p.update(updated='2026-11-21T12:00:00')),
    ('infinite usage', lambda p: p.update(takes=[float('inf')] * 5)),
    ('limits of another kind', lambda p: p.update(limits=p['request'])),
    ('a cell without memory', lambda p: fields(p['request'], *CELL).pop('memory')),
    ('no CPUs', lambda p: fields(p['request'], *CELL).pop('pcpuset')),
    ('an unknown policy', change(*CELL, cpu_policy='nonsense')),
    ('pages of text', change(*CELL, pagesize='many')),
    ('memory beyond all', change('flavor', memory_mb=2**62)),
    ('memory beyond numbers', change('flavor', memory_mb=2**70)),
    ('memory of text', change('flavor', memory_mb='much')),
    ('many devices', change(*DEVICES, count=10**9)),
    ('devices of no kind', change(*DEVICES, spec=[{'vendor_id': ['8086']}])),
    ('no request', lambda p: p.update(request=None)),
)
def test_no_message_about_a_pick_fails_a_request(made, scheduler, message, spoil):
    (pick,) = message['changes'].values()
    spoil(pick)
    assumed = scheduler.manager.driver.context.assumed
    endpoint = PicksEndpoint(lambda: assumed, 'this one', lambda *counted: None)
    endpoint.take_in(None, **message)
    for _ in range(2):
        assert len(made.ask(scheduler, new_uuids())) == 1


def test_whole_message_takes_the_cell_and_the_device(made, scheduler, message):
    assumed = scheduler.manager.driver.context.assumed
    counted = []
    endpoint = PicksEndpoint(lambda: assumed, 'this one', lambda *c: counted.append(c))
    endpoint.take_in(None, **message)
    assert counted == [('received', 1)]
    cells = [
        factories.guest_cell(n, cpus=range(4 * n, 4 * n + 4), policy='dedicated')
        for n in range(2)
    ]
    whole = {'numa_topology': factories.guest_topology(*cells), 'vcpus': 8}
    assert made.ask(scheduler, new_uuids(), **whole) == [['h1']]
