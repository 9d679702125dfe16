# SPDX-License-Identifier: Apache-2.0
"""Levels of trust are believed for a while, then asked for again."""

import datetime
import threading

import pytest

from novasched.external.attestation import (
    Attested,
    KnownLevels,
    TrustedFilter,
    attested,
)
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

NOW = datetime.datetime(2026, 5, 4, 12, 0, 0)  # noqa: DTZ001
FRESH, OLD = '2026-05-04T12:00:00Z', '2026-05-04T11:00:00Z'


class FakeServer:
    """Attests nodes as it is told, and counts how often it is asked."""

    def __init__(self, **times):
        self.times = {'n1': FRESH, 'n2': FRESH, **times}
        self.polled = []

    def poll(self, nodes):
        self.polled.append(list(nodes))
        levels = {'n1': 'trusted', 'n2': 'untrusted'}
        states = [
            {'host_name': node, 'trust_lvl': levels[node], 'vtime': self.times[node]}
            for node in nodes
            if node in levels
        ]
        return attested({'hosts': states}, NOW)


class TellingLock:
    """A lock that tells when a second thread is about to wait for it."""

    def __init__(self):
        self.lock, self.second, self.count = threading.Lock(), threading.Event(), 0

    def __enter__(self):
        self.count += 1
        if self.count == 2:
            self.second.set()
        self.lock.acquire()

    def __exit__(self, *problem):
        self.lock.release()


def cloud():
    return factories.hosts(nodename=['n1', 'n2', 'n3'])


def rule(server, clock=None):
    return TrustedFilter(KnownLevels(server.poll, 60, clock or FakeClock(NOW)))


def passes(rule, node, level):
    state = next(host for host in cloud().states() if host.nodename == node)
    specs = {} if level is None else {'trust:trusted_host': level}
    return rule.host_passes(state, factories.request(extra_specs=specs))


def test_the_first_use_asks_for_all_nodes_and_serves_those_that_follow():
    server = FakeServer()
    rule_ = rule(server)
    assert passes(rule_, 'n1', None)
    assert server.polled == []
    assert passes(rule_, 'n1', 'trusted')
    assert server.polled == [['n1', 'n2', 'n3']]
    assert not passes(rule_, 'n2', 'trusted')
    assert passes(rule_, 'n2', 'untrusted')
    assert len(server.polled) == 1


@cases(
    'times, node, level, expected, polls',
    ('nobody attests it', {}, 'n3', 'trusted', False, 3),
    ('nobody attests it, as was asked', {}, 'n3', 'unknown', True, 3),
    ('a time that cannot be read', {'n1': 'yesterday'}, 'n1', 'trusted', False, 1),
    ('which is unknown', {'n1': 'yesterday'}, 'n1', 'unknown', True, 1),
    ('a level that is always old', {'n1': OLD}, 'n1', 'trusted', True, 3),
)
def test_unknown_or_outdated_level_is_asked_for_each_time(
    times, node, level, expected, polls
):
    server = FakeServer(**times)
    rule_ = rule(server)
    assert [passes(rule_, node, level) for _ in range(3)] == [expected] * 3
    assert len(server.polled) == polls


@pytest.mark.parametrize(
    ('seconds', 'polls'),
    [pytest.param(60, 1, id='not yet old'), pytest.param(61, 2, id='old')],
)
def test_levels_grow_old(seconds, polls):
    server, clock = FakeServer(), FakeClock(NOW)
    rule_ = rule(server, clock)
    assert passes(rule_, 'n1', 'trusted')
    clock.advance(seconds)
    assert passes(rule_, 'n1', 'trusted')
    assert len(server.polled) == polls


def test_many_hosts_share_a_poll():
    server = FakeServer(n1=OLD, n2=OLD)
    request = factories.request(extra_specs={'trust:trusted_host': 'trusted'})
    assert rule(server).apply(cloud(), request).nodename.tolist() == ['n1']
    assert len(server.polled) == 1


def test_a_poll_without_answers_makes_every_level_unknown():
    answers = [{'a': Attested('trusted', NOW), 'other': Attested('trusted', NOW)}, {}]
    clock = FakeClock(NOW)
    levels = KnownLevels(lambda nodes: answers.pop(0), 60, clock)
    assert levels.look_up(['a'], ['a', 'b']) == {'a': 'trusted'}
    assert [levels.last(node) for node in ('a', 'b', 'other')] == [
        'trusted',
        'unknown',
        'unknown',
    ]
    clock.advance(61)
    assert levels.look_up(['a'], ['a', 'b']) == {'a': 'unknown'}
    assert levels.last('a') == 'unknown'


def test_threads_that_wait_for_a_poll_share_it():
    lock = TellingLock()
    entered, leave = threading.Event(), threading.Event()
    polls, found = [], []

    def poll(nodes):
        polls.append(list(nodes))
        entered.set()
        assert leave.wait(30)
        return {}

    levels = KnownLevels(poll, 60, FakeClock(NOW), lock)
    threads = [
        threading.Thread(target=lambda: found.append(levels.look_up(['a'], ['a'])))
        for _ in range(2)
    ]
    threads[0].start()
    assert entered.wait(30)
    threads[1].start()
    assert lock.second.wait(30)
    leave.set()
    for thread in threads:
        thread.join(30)
    assert found == [{'a': 'unknown'}] * 2
    assert polls == [['a']]
