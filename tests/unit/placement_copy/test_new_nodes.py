# SPDX-License-Identifier: Apache-2.0
"""Compute nodes that have registered since the copy of placement was read."""

import pytest

from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.new_nodes import LAG_S, NewNodes
from tests.unit.placement_copy.providers import look


class Wakes(CopyKeeper):
    """A copy that counts how often it was woken."""

    woken = 0

    def want(self, aggregates):
        self.woken += 1
        super().want(aggregates)


@pytest.fixture
def nodes():
    return dict.fromkeys('ab')


@pytest.fixture
def mirror(store, clock):
    made = Wakes(store, clock)
    made.keep_up()
    clock.advance(1)
    return made


@pytest.fixture
def new(mirror, nodes, clock):
    return NewNodes(mirror, nodes.keys, clock)


def read_later(mirror, clock):
    clock.advance(1)
    look(mirror)


def provide(store, name):
    store.totals[name], store.used[name], store.generations[name] = 4, 0, 0


def withdraw(store, name):
    for each in (store.totals, store.used, store.generations):
        del each[name]


def test_nothing_lags_before_a_copy_is_read(store, nodes, clock):
    nodes['c'] = None
    assert not NewNodes(CopyKeeper(store, clock), nodes.keys, clock).are_missing()


def test_copy_lags_while_it_does_not_show_a_new_node(new, mirror, nodes, store, clock):
    assert not new.are_missing()
    nodes['c'] = None
    assert new.are_missing()
    read_later(mirror, clock)
    assert new.are_missing()
    provide(store, 'c')
    read_later(mirror, clock)
    assert not new.are_missing()
    assert mirror.woken == 1


def test_node_registered_before_the_first_look_is_waited_for(
    new, mirror, nodes, store, clock
):
    nodes['c'] = None
    provide(store, 'c')
    assert new.are_missing()
    assert new.are_missing()
    assert mirror.woken == 1
    read_later(mirror, clock)
    assert not new.are_missing()


def test_node_of_first_look_is_old_once_a_later_copy_lacks_it(
    new, mirror, nodes, clock
):
    nodes['c'] = None
    assert new.are_missing()
    read_later(mirror, clock)
    assert not new.are_missing()
    nodes['d'] = None
    assert new.are_missing()
    assert mirror.woken == 2


def test_node_that_placement_never_knows_is_not_waited_for(new, mirror, nodes, clock):
    assert not new.are_missing()
    nodes['c'] = None
    read_later(mirror, clock)
    assert new.are_missing()
    clock.advance(LAG_S + 1)
    assert not new.are_missing()


def test_known_node_that_loses_its_inventory_is_not_waited_for(
    new, mirror, store, clock
):
    read_later(mirror, clock)
    for _ in range(2):
        assert not new.are_missing()
        withdraw(store, 'b')
        read_later(mirror, clock)
        assert not new.are_missing()
        provide(store, 'b')
        read_later(mirror, clock)
    assert mirror.woken == 0


def test_same_nodes_and_copy_are_compared_once(mirror, nodes, clock):
    class Counted(set):
        compared = 0

        def __sub__(self, other):
            self.compared += 1
            return super().__sub__(other)

    known = Counted(nodes)
    new = NewNodes(mirror, lambda: known, clock)
    for _ in range(3):
        assert not new.are_missing()
    read_later(mirror, clock)  # nothing has changed
    assert not new.are_missing()
    assert known.compared == 1


def test_nothing_lags_without_a_copy(clock):
    assert not NewNodes(None, dict.fromkeys('a').keys, clock).are_missing()
