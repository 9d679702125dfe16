# SPDX-License-Identifier: Apache-2.0
"""How often the copy of placement is looked at, and how thoroughly."""

from novasched import errors
from novasched.placement_copy.copy import CopyKeeper
from tests.support.tables.cases import cases
from tests.unit.placement_copy.providers import ONE, look


@cases(
    'max_age_s, idle_s, wait_s',
    ('a request came', 60, 59, 1),
    ('none came for a minute', 60, 61, 5),
    ('the copy is to be young', 10, 61, 1),
)
def test_an_idle_copy_is_looked_at_less_often(store, clock, max_age_s, idle_s, wait_s):
    mirror = CopyKeeper(store, clock, max_age_s)
    for _ in range(2):
        look(mirror)
        clock.advance(1)
    mirror.candidates(ONE)
    clock.advance(idle_s)
    assert mirror._schedule.wait_s(clock.monotonic()) == wait_s
    mirror.candidates(ONE)
    assert mirror._schedule.wait_s(clock.monotonic()) == 1


@cases('reads_fast', ('by its database', True), ('by its API', False))
def test_thorough_reads_are_rarer_without_requests(store, clock, reads_fast):
    """Once a minute, where that takes many requests; and when a request comes."""
    store.reads_fast = reads_fast
    mirror = CopyKeeper(store, clock)

    def thorough(seconds):
        store.reads.clear()
        for _ in range(0, seconds, 5):
            clock.advance(5)
            look(mirror)
        return [how for how, _ in store.reads].count('thorough')

    look(mirror)
    mirror.candidates(ONE)
    assert thorough(20) == 2
    clock.advance(61)
    look(mirror)
    assert thorough(20) == (2 if reads_fast else 0)
    assert (thorough(60) >= 4) == reads_fast
    mirror.candidates(ONE)
    assert thorough(5) == (0 if reads_fast else 1)


def test_a_store_that_is_slow_and_fails_is_asked_less_and_less_often(store, clock):
    store.reads_fast = False
    mirror, pauses = CopyKeeper(store, clock), []
    store.problem = errors.StoreFailed('Placement', 'away')
    for _ in range(7):
        look(mirror)
        pauses.append(mirror._schedule.pause_s)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    store.problem = None
    look(mirror)
    assert mirror._schedule.pause_s == 1
