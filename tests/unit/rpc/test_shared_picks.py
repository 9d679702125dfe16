# SPDX-License-Identifier: Apache-2.0
"""Picks on their way to other schedulers."""

from __future__ import annotations

import json
import logging
import queue
import threading

import numpy as np
import pytest

from novasched.cluster.assumed import FOR_S, AssumedInstances
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestGroup
from novasched.rpc import shared_picks
from novasched.rpc.shared_picks import LONGEST, VERSION, PickSender, PicksEndpoint
from tests.support.clouds import factories
from tests.support.clouds.factories import pinned
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')
WITHIN_S = 20


class Scheduler:
    """Two hosts with a NUMA cell and two devices each, and what is assumed of them."""

    def __init__(self, cast=None):
        self.counted = []
        self.messages = queue.SimpleQueue()
        self.clock = FakeClock()
        self.sender = PickSender(cast or self.cast, self.count, self.clock)
        self.sender.start()
        self.assumed = AssumedInstances(on_pick=self.sender)
        self.endpoint = PicksEndpoint(
            lambda: self.assumed, self.sender.origin, self.count
        )
        topology = factories.numa_topology(factories.numa_cell(0, range(4)))
        self.hosts = factories.hosts(
            2, numa_topology=[topology] * 2, pci_stats=[factories.pools(2)] * 2
        )

    def cast(self, **message):
        if message['changes']:
            self.messages.put(json.loads(json.dumps(message)))

    def count(self, what, number):
        self.counted.append((what, number))

    def see(self):
        return self.assumed.see(lambda: self.hosts)

    def pick(self, uuid=A, **values):
        view = self.see()
        host = view.hosts.state(1)
        request = factories.request(instance_uuid=uuid, **values)
        return self.assumed.add(host, view.base, request)

    def sent(self):
        return self.messages.get(timeout=WITHIN_S)


@pytest.fixture
def one():
    made = Scheduler()
    yield made
    made.sender.close()


@pytest.fixture
def held():
    """One that sends what is picked for A, and is held there until ``goes_on``."""
    began, goes_on = threading.Event(), threading.Event()

    def cast(**message):
        if message['changes']:
            made.cast(**message)
            began.set()
            assert goes_on.wait(WITHIN_S)

    made = Scheduler(cast)
    made.goes_on = goes_on
    made.first = made.pick(A)
    assert began.wait(WITHIN_S)
    yield made
    made.sender.close()


@pytest.fixture
def other():
    return Scheduler()


@cases(
    'values',
    ('cells', pinned()),
    ('devices', {'pci_requests': factories.devices()}),
    (
        'devices of providers',
        {
            'pci_requests': factories.devices(),
            'requested_resources': [RequestGroup(requester_id='x')],
        },
    ),
    ('neither', {'instance_group': factories.group('soft-affinity')}),
)
def test_another_scheduler_sees_what_the_first_picked(one, other, values):
    pick = one.pick(**values)
    message = one.sent()
    assert len(json.dumps(message)) < 5000
    other.endpoint.take_in(None, **message)
    seen, known = (each.see().hosts.snapshot for each in (one, other))
    for name in ('free_ram_mb', 'num_instances', 'numa_topology', 'pci_stats'):
        assert known.column(name).tolist() == seen.column(name).tolist()
    assert [
        each.pick.group for each in other.assumed.picks_after(pick.pick.key, 0)
    ] == [pick.pick.group]
    one.assumed.remove([pick])
    other.endpoint.take_in(None, **one.sent())
    assert len(other.assumed) == 0
    assert other.counted == [('received', 1)] * 2


def test_limits_go_with_it(one, other):
    view = one.see()
    limits = NUMATopologyLimits(cpu_allocation_ratio=2.0, ram_allocation_ratio=1.0)
    host = view.hosts.state(0)
    host.limits['numa_topology'] = limits
    one.assumed.add(host, view.base, factories.request(instance_uuid=A, **pinned()))
    other.endpoint.take_in(None, **one.sent())
    ((heard,),) = [other.assumed.picks_after(('cell1', 'uuid-h1'), 0)]
    assert heard.pick.limits['numa_topology'].cpu_allocation_ratio == 2.0


def test_own_message_is_ordered_among_the_others(one, other):
    mine = one.pick()
    theirs = other.pick(B)
    for message in (other.sent(), one.sent()):
        for each in (one, other):
            each.endpoint.take_in(None, **message)
    for each in (one, other):
        (first, second) = sorted(
            each.assumed.picks_after(mine.pick.key, 0), key=lambda found: found.order
        )
        assert (first.pick.uuid, second.pick.uuid) == (B, A)
        assert (not first.pick.origin) is (each is other)
    assert theirs.order == 1


@cases('number', ('none', {}), ('no number', {'number': 'x'}), ('no pick', 'x'))
def test_own_message_that_cannot_be_read_is_ignored(one, number):
    pick = one.pick()
    message = one.sent()
    message['changes'] = {A: number}
    one.endpoint.take_in(None, **message)
    assert pick.order is None


def test_pick_of_a_request_beyond_all_bounds_is_left_out(one, other):
    one.pick(**pinned())
    message = one.sent()
    flavor = message['changes'][A]['request']['nova_object.data']['flavor']
    flavor['nova_object.data']['root_gb'] = 2**50
    other.endpoint.take_in(None, **message)
    assert other.counted == [('refused', 1)]


def test_largest_pick_is_a_fraction_of_the_limit(one):
    cells = [
        factories.guest_cell(n, cpus=range(64 * n, 64 * n + 64), policy='dedicated')
        for n in range(8)
    ]
    pick = one.pick(vcpus=512, numa_topology=factories.guest_topology(*cells))
    assert len(json.dumps(shared_picks._primitive(pick))) < LONGEST / 4


def test_repeated_pick_is_not_acknowledged_by_an_earlier_message(one):
    one.assumed.remove([one.pick()])
    again = one.pick()
    message = one.sent()
    while not message['changes'][A] or message['changes'][A]['number'] != again.number:
        one.endpoint.take_in(None, **message)
        assert again.order is None
        message = one.sent()
    one.endpoint.take_in(None, **message)
    assert again.order == 1


def test_waiting_changes_are_sent_together_once_per_instance(held):
    held.assumed.remove([held.first])
    held.assumed.remove([held.pick(B), held.pick(A)])
    held.goes_on.set()
    first, second = held.sent(), held.sent()
    assert [*first['changes']] == [A]
    assert second['changes'] == {A: None, B: None}


def test_pick_goes_with_the_end_of_the_pick_of_another_scheduler(held, other):
    other.pick(B)
    held.endpoint.take_in(None, **other.sent())
    pick = held.pick(B)
    held.assumed.granted([B], [pick])
    held.goes_on.set()
    for _ in range(2):
        other.endpoint.take_in(None, **held.sent())
    origin = held.sender.origin
    known = [(one.pick.uuid, one.pick.origin) for one in other.see().picks]
    assert known == [(A, origin), (B, origin)]


def test_all_hear_whose_pick_is_over_though_another_was_made_meanwhile(held, other):
    """The instance is asked for again here, and nothing is claimed for it."""
    other.pick(B)
    held.endpoint.take_in(None, **other.sent())
    held.assumed.remove_instances([B])
    held.assumed.remove([held.pick(B)])
    held.goes_on.set()
    for _ in range(2):
        other.endpoint.take_in(None, **held.sent())
    assert [each.pick.uuid for each in other.assumed._all(lambda one: True)] == [A]


@cases('ended', ('no list', {A: 'x'}), ('no origins', {A: [1]}))
def test_an_end_that_cannot_be_read_is_left_out(one, other, ended):
    one.assumed.remove([one.pick()])
    message = one.sent()
    while message['changes'][A] is not None:
        message = one.sent()
    other.endpoint.take_in(None, **message | {'ended': ended})
    assert other.counted == [('refused', 1)]


def test_outdated_change_is_not_sent(held):
    held.pick(B)
    held.clock.advance(FOR_S)
    held.pick(C)
    held.goes_on.set()
    first, second = held.sent(), held.sent()
    assert [[*first['changes']], [*second['changes']]] == [[A], [C]]


def test_so_many_wait_at_most():
    goes_on = threading.Event()
    made = Scheduler(lambda **message: goes_on.wait(WITHIN_S))
    for number in range(shared_picks.MOST_WAITING + shared_picks.MOST_AT_ONCE + 1):
        made.sender(str(number), None)
    assert ('lost', 1) in made.counted
    made.sender.close()
    goes_on.set()


def test_a_broker_that_is_away_costs_but_loss(one, caplog):
    caplog.set_level(logging.INFO)

    def fail(**message):
        raise ConnectionError('no broker')

    away = PickSender(fail, one.count)
    over = shared_picks._PickChange(0.0, None, frozenset())
    for _ in range(2):
        away.send({A: over})
    away._cast = one.cast
    away.send({A: over})
    assert one.counted == [('lost', 1), ('lost', 1), ('sent', 1)]
    assert [record.levelname for record in caplog.records] == ['WARNING', 'INFO']


@cases(
    'change',
    ('nothing of it', {'request': None}),
    ('another request', {'uuid': B}),
    ('no usage', {'used': [1]}),
    ('no numbers', {'takes': ['x'] * 5}),
    ('a number beyond all', {'takes': [2**70] * 5}),
    ('an infinite number', {'takes': [float('inf')] * 5}),
    ('no number at all', {'used': [float('nan')] * 5}),
    ('no time', {'updated': 'noon'}),
    ('a time without a zone', {'updated': '2026-11-21T12:00:00'}),
    ('more than a pick says', {'more': 'x' * LONGEST}),
    ('limits of another kind', {'limits': {'nova_object.name': 'Flavor'}}),
    ('limits without an object', {'limits': 'x'}),
)
def test_a_bad_pick_is_left_out_and_named_once(one, other, change, caplog):
    one.pick(**pinned())
    message = one.sent()
    (good,) = message['changes'].values()
    bad = {**good, **change}
    uuid = bad.pop('uuid', A)
    changes = {uuid: bad, B if uuid == A else A: None}
    message['changes'] = changes
    for _ in range(2):
        other.endpoint.take_in(None, **message)
    assert other.counted == [('refused', 1), ('received', 1)] * 2
    assert len(other.assumed) == 0
    assert len([r for r in caplog.records if r.levelname == 'WARNING']) == 1
    assert np.array_equal(other.see().hosts.free_ram_mb, other.hosts.free_ram_mb)


@cases(
    'change',
    ('a version to come', {'version': VERSION + 1}),
    ('no changes', {'changes': None}),
    ('too many changes', {'changes': dict.fromkeys(map(str, range(101)))}),
    ('an origin too long', {'origin': 'x' * 65}),
    ('no ends', {'ended': None}),
)
def test_a_message_that_is_not_understood_is_named_once(one, other, change, caplog):
    one.pick()
    message = one.sent() | change
    for _ in range(2):
        other.endpoint.take_in(None, **message)
    assert other.counted == [('refused', 1)] * 2
    assert len(caplog.records) == 1
