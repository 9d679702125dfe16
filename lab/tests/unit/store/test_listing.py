# SPDX-License-Identifier: Apache-2.0
"""Instances as people look at them."""

from __future__ import annotations

import pytest

from lab.tests.unit.fakes import context
from novasched_lab.store import listing
from novasched_lab.store.events import Fault
from novasched_lab.store.migrations import Migration


@pytest.fixture
def cell(neighbours):
    """A cell with two instances, and their uuids."""
    pairs = neighbours.ask_for(2)
    for instance, _ in pairs:
        neighbours.cell1.create(instance)
    return neighbours.cell1, [instance.uuid for instance, _ in pairs]


def read(servers, ask, *words):
    with servers.database.read() as connection:
        return ask(connection, *words)


def test_live_instances_all_or_some(cell):
    servers, (first, second) = cell
    assert list(read(servers, listing.live)) == [first, second]
    found = read(servers, listing.live, [second])
    assert [(row.name, row.vm_state) for row in found.values()] == [
        ('vm-1', 'building')
    ]
    servers.destroy(second)
    assert list(read(servers, listing.live)) == [first]


def test_the_newest_fault_counts(cell):
    servers, (first, second) = cell
    servers.add_fault(first, Fault('old'))
    servers.add_fault(first, Fault('new'))
    found = read(servers, listing.faults, [first, second])
    assert {uuid: fault.message for uuid, fault in found.items()} == {first: 'new'}


def test_history_has_the_events_of_each_action(cell):
    servers, (first, _) = cell
    servers.start_action(context(), first, 'create')
    servers.add_event(first, 'build', 'h1', 'no room')
    servers.add_event(first, 'build', 'h2')
    servers.start_action(context(), first, 'migrate')
    create, migrate = read(servers, listing.history, first)
    assert [(event.host, event.result) for event in create.events] == [
        ('h1', 'Error'),
        ('h2', 'Success'),
    ]
    assert (create.action, create.message) == ('create', 'Error')
    assert (migrate.action, migrate.events) == ('migrate', ())


def test_moves_are_in_order(cell):
    servers, (first, _) = cell
    for host in ('h1', 'h2'):
        servers.add_migration(Migration.of(first, 'migration', host, host))
    found = read(servers, listing.moves, first)
    assert [each['source_compute'] for each in found] == ['h1', 'h2']


def test_many_mappings_are_asked_for_in_parts():
    uuids = [str(number) for number in range(1001)]
    assert len(list(listing.mapped(uuids))) == 3
