# SPDX-License-Identifier: Apache-2.0
"""Compute nodes that have registered since the copy of placement was read."""

import pytest

from novasched.placement_copy.copy import LAG_S, CopyKeeper
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
def mirror(store, nodes, clock):
    made = Wakes(store, clock, nodes=nodes.keys)
    made.keep_up()
    clock.advance(1)
    return made


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
    assert not CopyKeeper(store, clock, nodes=nodes.keys).lacks_nodes()


def test_copy_lags_while_it_does_not_show_a_new_node(mirror, nodes, store, clock):
    assert not mirror.lacks_nodes()
    nodes['c'] = None
    assert mirror.lacks_nodes()
    read_later(mirror, clock)
    assert mirror.lacks_nodes()
    provide(store, 'c')
    read_later(mirror, clock)
    assert not mirror.lacks_nodes()
    assert mirror.woken == 1


def test_node_registered_before_the_first_look_is_waited_for(
    mirror, nodes, store, clock
):
    nodes['c'] = None
    provide(store, 'c')
    assert mirror.lacks_nodes()
    assert mirror.lacks_nodes()
    assert mirror.woken == 1
    read_later(mirror, clock)
    assert not mirror.lacks_nodes()


def test_node_of_first_look_is_old_once_a_later_copy_lacks_it(mirror, nodes, clock):
    nodes['c'] = None
    assert mirror.lacks_nodes()
    read_later(mirror, clock)
    assert not mirror.lacks_nodes()
    nodes['d'] = None
    assert mirror.lacks_nodes()
    assert mirror.woken == 2


def test_node_that_placement_never_knows_is_not_waited_for(mirror, nodes, clock):
    assert not mirror.lacks_nodes()
    nodes['c'] = None
    read_later(mirror, clock)
    assert mirror.lacks_nodes()
    clock.advance(LAG_S + 1)
    assert not mirror.lacks_nodes()


def test_known_node_that_loses_its_inventory_is_not_waited_for(mirror, store, clock):
    read_later(mirror, clock)
    for _ in range(2):
        assert not mirror.lacks_nodes()
        withdraw(store, 'b')
        read_later(mirror, clock)
        assert not mirror.lacks_nodes()
        provide(store, 'b')
        read_later(mirror, clock)
    assert mirror.woken == 0


def test_same_nodes_and_copy_are_compared_once(store, nodes, clock):
    class Counted(set):
        compared = 0

        def __sub__(self, other):
            self.compared += 1
            return super().__sub__(other)

    known = Counted(nodes)
    mirror = CopyKeeper(store, clock, nodes=lambda: known)
    mirror.keep_up()
    clock.advance(1)
    for _ in range(3):
        assert not mirror.lacks_nodes()
    read_later(mirror, clock)  # nothing has changed
    assert not mirror.lacks_nodes()
    assert known.compared == 1
