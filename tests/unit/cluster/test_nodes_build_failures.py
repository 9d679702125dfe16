# SPDX-License-Identifier: Apache-2.0
"""When failed builds are forgotten, by the times at which their counts changed."""

from novasched.cluster.nodes import BuildFailures
from tests.support.clouds.fakes import FakeClock

NODE, OTHER = ('a', 1), ('a', 2)


def seen(*counts, every_s=40.0, forget_after_s=60.0):
    """Failures of a node whose row had these counts, one after the other."""
    clock = FakeClock()
    failures = BuildFailures(clock, forget_after_s)
    for count in counts:
        failures.see(NODE, count)
        clock.advance(every_s)
    return failures, clock


def test_failures_are_forgotten_after_the_time():
    failures, clock = seen(1)
    assert failures.forgotten() == frozenset()
    clock.advance(20.0)
    assert failures.forgotten() == {NODE}


def test_new_failure_restarts_the_time():
    assert seen(1, 2)[0].forgotten() == frozenset()
    assert seen(1, 1)[0].forgotten() == {NODE}


def test_a_lower_count_is_a_failure_since_the_compute_restarted():
    assert seen(5, 1)[0].forgotten() == frozenset()


def test_a_success_ends_the_failures():
    assert seen(1, 0, 1)[0].forgotten() == frozenset()
    assert seen(1, 0)[0].forgotten() == frozenset()


def test_removed_node_has_no_failures():
    failures, _ = seen(1, 1)
    failures.remove([NODE, OTHER])
    assert failures.forgotten() == frozenset()


def test_nothing_is_forgotten_without_the_option():
    assert seen(1, 1, 1, forget_after_s=None)[0].forgotten() == frozenset()
