# SPDX-License-Identifier: Apache-2.0
"""Requests that race for the last room, whose claims placement lets through, in any
order of their steps: no host ends over capacity, and no room is left unused."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.claiming.request import MOST_ABORTS, ScheduleRequest
from novasched.claiming.verification import RACING, ProviderCapacity, RemainingCapacity
from novasched.objects.context import RequestContext
from novasched.ports import Claimed, ClaimRequest

SEEDS = st.integers(0, 2**32)
HOSTS = st.lists(st.integers(1, 40), min_size=1, max_size=3)
AMOUNTS = st.lists(st.integers(1, 3), min_size=2, max_size=12).filter(
    lambda amounts: sum(amounts) <= RACING
)
"""Claims of several sizes: together no more than the smallest one allows for."""
ALIKE = st.integers(2, 12).map(lambda number: [1] * number)


class Cloud:
    """Hosts with so many CPUs, and who holds how many of which; ``past`` are the usages
    that copies may show still. With ``together``, claims that wait go as one POST."""

    def __init__(self, capacities, rng, together):
        self.capacities = dict(enumerate(capacities))
        self.held = {}
        self.rng = rng
        self.past = [Counter()]
        self._together = together
        self._waiting, self._granted = {}, {}

    def used(self):
        used = Counter()
        for host, amount in self.held.values():
            used[host] += amount
        return used

    def wait(self, consumer, host, amount):
        """Add a claim to those that wait."""
        self._waiting[consumer] = host, amount

    def is_granted(self, consumer):
        """Send what waits, unless it was sent; return whether a claim got through."""
        if consumer in self._waiting:
            claims = dict(self._waiting)
            if not self._together:
                claims = {consumer: claims[consumer]}
            for each in claims:
                del self._waiting[each]
            self._send(claims)
        return consumer in self._granted

    def _send(self, claims):
        """Let a POST through, or split it by a host without room; it is written
        later."""
        used = self.used()
        for host, amount in claims.values():
            used[host] += amount
        asked = dict.fromkeys(host for host, _ in claims.values())
        full = [host for host in asked if used[host] > self.capacities[host]]
        if not full:
            self._granted.update(dict.fromkeys(claims, claims))
        elif len(claims) > 1:
            refused = [each for each, (host, _) in claims.items() if host == full[0]]
            others = [each for each in claims if each not in refused]
            half = (len(refused) + 1) // 2
            for part in (others, refused[:half], refused[half:]):
                if part:
                    self._send({each: claims[each] for each in part})

    def write(self, consumer):
        """Write the POST that a claim was in, unless it is written."""
        claims = self._granted.pop(consumer)
        self.held.update(claims)
        claims.clear()
        self.past = [*self.past, self.used()][-RACING:]

    def undo(self, consumer):
        """Write that a consumer holds nothing."""
        del self.held[consumer]
        self.past = [*self.past, self.used()][-RACING:]

    def fitting(self, used, amount):
        found = self.capacities.items()
        return [host for host, has in found if used[host] + amount <= has]

    def is_over(self, consumer, known, host, amount):
        """What the product finds, for a request that knew of these usages."""
        resources = {
            str(each): {'resources': {'VCPU': {'capacity': has, 'used': known[each]}}}
            for each, has in self.capacities.items()
        }
        wanted = {'allocations': {str(host): {'resources': {'VCPU': amount}}}}
        remaining = RemainingCapacity(resources)
        remaining.take(wanted)
        made = [(ClaimRequest(consumer, wanted), Claimed(consumer))]
        request = ScheduleRequest(RequestContext(), None)
        return ProviderCapacity(self, request, remaining).after(made)

    def usages(self, context, mine):
        return {str(each): {'VCPU': number} for each, number in self.used().items()}


def request(cloud, consumer, amount, looks):
    """Take the steps of a request, with those of others between; return its yields."""
    yields = 0
    while yields < MOST_ABORTS:
        known = cloud.rng.choice(cloud.past)
        yield
        if not (hosts := cloud.fitting(known, amount)):
            known = cloud.used()
            if not (hosts := cloud.fitting(known, amount)):
                return yields
        host = hosts[0]
        cloud.wait(consumer, host, amount)
        yield
        is_granted = cloud.is_granted(consumer)
        yield
        if not is_granted:
            continue
        cloud.write(consumer)
        yield
        if not looks or cloud.is_over(consumer, known, host, amount) is None:
            return yields
        yields += 1
        yield
        cloud.undo(consumer)
    return yields


def race(capacities, amounts, seed, looks=True, together=False):
    """Return the cloud once all requests have ended, and the most yields of one."""
    rng, most = random.Random(seed), 0
    cloud = Cloud(capacities, rng, together)
    cloud.held = {
        f'older-{host}': (host, rng.randint(0, has))
        for host, has in enumerate(capacities)
    }
    cloud.past = [cloud.used()]
    left = [
        request(cloud, str(number), amount, looks)
        for number, amount in enumerate(amounts)
    ]
    while left:
        one = rng.choice(left)
        try:
            next(one)
        except StopIteration as end:
            most = max(most, end.value)
            left.remove(one)
    return cloud, most


def is_over(cloud):
    used = cloud.used()
    return any(used[host] > has for host, has in cloud.capacities.items())


@given(HOSTS, AMOUNTS, SEEDS, st.booleans())
def test_no_host_is_left_over_capacity(capacities, amounts, seed, together):
    cloud, most = race(capacities, amounts, seed, together=together)
    assert not is_over(cloud)
    assert most < MOST_ABORTS


@given(HOSTS, ALIKE, SEEDS, st.booleans())
def test_no_room_is_left_unused(capacities, amounts, seed, together):
    cloud, _ = race(capacities, amounts, seed, together=together)
    served = len(cloud.held) - len(capacities)
    assert served == len(amounts) or not cloud.fitting(cloud.used(), 1)


@pytest.mark.parametrize('together', [False, True])
def test_without_the_look_hosts_are_left_over_capacity(together):
    assert any(
        is_over(race([4], [1] * 8, seed, looks=False, together=together)[0])
        for seed in range(50)
    )
