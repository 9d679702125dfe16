# SPDX-License-Identifier: Apache-2.0
"""Compute nodes that have registered since the copy of placement was read."""

from novasched.mirror.copy import PlacementMirror
from novasched.mirror.new_nodes import LAG_S, NewNodes
from tests.unit.mirror.providers import look


def test_copy_lags_while_it_does_not_show_a_new_node(store, clock):
    nodes = dict.fromkeys('ab')
    mirror = PlacementMirror(store, clock)
    new = NewNodes(mirror, nodes.keys, clock)
    assert not new.are_missing()  # no copy was read: placement is asked anyway
    mirror.keep_up()
    assert not new.are_missing()
    nodes['c'] = None
    assert new.are_missing()
    store.totals['c'], store.used['c'], store.generations['c'] = 4, 0, 0
    look(mirror)
    assert not new.are_missing()


def test_node_that_placement_never_knows_is_not_waited_for(mirror, clock):
    new = NewNodes(mirror, dict.fromkeys('abc').keys, clock)
    assert new.are_missing()
    clock.advance(LAG_S + 1)
    assert not new.are_missing()


def test_nothing_lags_without_a_copy(clock):
    assert not NewNodes(None, dict.fromkeys('a').keys, clock).are_missing()
