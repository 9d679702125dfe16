# SPDX-License-Identifier: Apache-2.0
"""Picks from the copy of placement are looked at before they are claimed."""

from __future__ import annotations

import threading

import pytest

from novasched import errors
from tests.unit.placement_copy.providers import ONE, look


@pytest.fixture
def verified(mirror):
    """Return what tells whether hosts that the copy offered are offered still."""
    found = mirror.candidates(ONE)

    def ask(*names):
        return found.verifier.still_offered(
            [(name, found.requests[name][0]) for name in names]
        )

    return ask


def test_unchanged_pick_is_offered(verified, store, mirror):
    store.take('a', 1)
    assert verified('a', 'b') == [True, True]
    assert mirror.void_picks == 0


def test_changed_pick_is_judged_by_the_query(verified, store, mirror):
    store.totals.update(a=2, b=0)
    assert verified('a', 'b') == [True, False]
    assert mirror.void_picks == 1
    assert [(name, *verified(name)) for name in 'ab'] == [('a', True), ('b', False)]
    store.reads.clear()
    mirror.keep_up()
    assert store.reads == [('changes', [1, 2])]


def test_vanished_pick_is_not_offered(verified, store):
    del store.totals['b']
    assert verified('b') == [False]


def test_a_look_that_hangs_is_waited_for_no_longer_than_that(verified, store, mirror):
    leave = threading.Event()
    mirror._patience_s = 0.05
    store.slow = lambda: leave.wait(10)
    with pytest.raises(errors.CopyError, match=r'did not answer within 0.05 s'):
        verified('a')
    with pytest.raises(errors.CopyError, match='cannot be brought up to date'):
        verified('a')
    leave.set()
    look(mirror)
    assert verified('a') == [True]


def test_a_look_that_fails_says_why(verified, store, mirror, caplog):
    store.problem = errors.StoreFailed('Placement', 'Access denied')
    with pytest.raises(errors.CopyError, match='Access denied'):
        verified('a')
    assert 'Falling back to placement' in caplog.text
    store.problem = None
    look(mirror)
    assert verified('a') == [True]
