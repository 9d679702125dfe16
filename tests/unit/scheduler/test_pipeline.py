# SPDX-License-Identifier: Apache-2.0
"""Filter, weigh, rank and pick."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest

from novasched import errors
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.pipeline import (
    Profile,
    decide,
    descending,
    pick,
    run_filters,
    weigh,
)
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.ram import RAMWeigher
from tests import factories

REBUILD = factories.request(scheduler_hints={'_nova_check_type': ['rebuild']})


class PassF(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return True


class FailF(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return False


class RebF(FailF):
    RUN_ON_REBUILD = True


class OnceF(FailF):
    run_filter_once_per_request = True


class BrokenF(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        raise KeyError('nonsense')


class NeverRuns(FailF):
    def run_filter_for_index(self, index):
        return False


class BrokenIndex(FailF):
    def run_filter_for_index(self, index):
        raise TypeError('no index')


class RefusesF(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        raise errors.InvalidRequest('for a reason')


class Broken(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        raise KeyError('nonsense')


class BrokenMultiplier(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return 1

    def weight_multiplier(self, host_state):
        return 'many'


def funnel(filters, count, request=None, index=0):
    profile = Profile(tuple(filters), ())
    hosts = factories.hosts(count)
    request = request or factories.request()
    return decide(profile, hosts, request, random.Random(1), index).funnel()


@pytest.mark.parametrize(
    ('filters', 'count', 'request_', 'index', 'expected'),
    [
        pytest.param(
            [PassF(), FailF()],
            4,
            None,
            0,
            ['PassF: (start: 4, end: 4)', 'FailF: (start: 4, end: 0)'],
            id='none is left',
        ),
        pytest.param(
            [FailF(), PassF()], 4, None, 0, ['FailF: (start: 4, end: 0)'], id='stops'
        ),
        pytest.param(
            [PassF(), PassF()],
            0,
            None,
            0,
            ['PassF: (start: 0, end: 0)'],
            id='no host at the start: the first filter is blamed',
        ),
        pytest.param([], 4, None, 0, [], id='no filters'),
        pytest.param(
            [OnceF()], 4, None, 0, ['OnceF: (start: 4, end: 0)'], id='once, first'
        ),
        pytest.param([OnceF()], 4, None, 1, [], id='once, second: no trace'),
        pytest.param([NeverRuns()], 4, None, 0, [], id='its own idea of when'),
        pytest.param(
            [PassF(), FailF(), RebF()],
            4,
            REBUILD,
            0,
            [
                'PassF: (start: 4, end: 4)',
                'FailF: (start: 4, end: 4)',
                'RebF: (start: 4, end: 0)',
            ],
            id='rebuild',
        ),
    ],
)
def test_filters(filters, count, request_, index, expected):
    assert funnel(filters, count, request_, index) == expected


def test_a_rebuild_asks_only_filters_for_rebuilds():
    run_filters([BrokenF()], factories.hosts(1), REBUILD)


def test_without_filters_the_hosts_stay_as_they_are():
    hosts = factories.hosts(2)
    assert run_filters([], hosts, factories.request())[0] is hosts


@pytest.mark.parametrize(
    ('asked', 'hosts', 'ran'),
    [
        pytest.param({}, [], True, id='anywhere'),
        pytest.param({'force_hosts': ['h2']}, ['h2'], False, id='forced'),
        pytest.param({'ignore_hosts': ['h1', 'h2']}, [], False, id='all ignored'),
    ],
)
def test_forced_hosts_skip_filters(asked, hosts, ran):
    decision = decide(
        Profile((FailF(),), ()),
        factories.hosts(2),
        factories.request(**asked),
        random.Random(1),
    )
    assert decision.ranked.host.tolist() == hosts
    assert decision.filters_ran is ran
    assert bool(decision.steps) is ran


@pytest.mark.parametrize('filter_', [BrokenF(), BrokenIndex()])
def test_a_filter_that_raises_is_named(filter_):
    with pytest.raises(errors.ExtensionFailed) as raised:
        run_filters([filter_], factories.hosts(1), factories.request())
    assert raised.value.extension == type(filter_).__name__


@pytest.mark.parametrize('weigher', [Broken(), BrokenMultiplier()])
def test_a_weigher_that_raises_is_named(weigher):
    with pytest.raises(errors.ExtensionFailed) as raised:
        weigh([weigher], factories.hosts(2), factories.request())
    assert raised.value.extension == type(weigher).__name__


def test_errors_of_our_own_pass_as_they_are():
    with pytest.raises(errors.InvalidRequest):
        run_filters([RefusesF()], factories.hosts(1), factories.request())


@pytest.mark.parametrize('count', [0, 1])
def test_a_single_host_is_not_weighed(count):
    weighed = weigh([Broken()], factories.hosts(count), factories.request())
    assert weighed.totals.tolist() == [0.0] * count
    assert weighed.weighings == ()


def test_weighings_are_kept():
    hosts = factories.hosts(free_ram_mb=[-1, 2, 4])
    weighed = weigh([RAMWeigher(2.0)], hosts, factories.request())
    (weighing,) = weighed.weighings
    assert weighing.name == 'RAMWeigher'
    assert weighing.raw.tolist() == [0.0, 2.0, 4.0]
    assert weighing.normalized.tolist() == [0.0, 0.5, 1.0]
    assert weighing.multipliers.tolist() == [2.0, 2.0, 2.0]
    assert weighed.totals.tolist() == [0.0, 1.0, 2.0]


def test_an_infinite_multiplier_is_no_error():
    aggregate = factories.aggregate(1, ram_weight_multiplier='inf')
    hosts = factories.hosts(free_ram_mb=[1, 2], aggregates=[(aggregate,), ()])
    weighed = weigh([RAMWeigher()], hosts, factories.request())
    assert weighed.totals.tolist() == [float('inf'), 1.0]


@pytest.mark.parametrize(
    ('totals', 'order'),
    [
        ([], []),
        ([1.0], [0]),
        ([1.0, 3.0, 3.0, 2.0], [1, 2, 3, 0]),
        ([0.0, -0.0, 0.0], [0, 1, 2]),
        ([float('inf'), 1.0, float('inf')], [0, 2, 1]),
        ([2.0] * 40 + [3.0] + [2.0] * 40, [40, *range(40), *range(41, 81)]),
    ],
)
def test_descending_keeps_ties_in_order(totals, order):
    assert descending(np.array(totals)).tolist() == order


def frequencies(shuffle, size, draws=3000):
    """Hosts h2 = h3 (30) > h4 (20) > h1 (10): orders and how often they came."""
    profile = Profile((), (RAMWeigher(),), size, shuffle)
    hosts = factories.hosts(free_ram_mb=[10, 30, 30, 20])
    totals = weigh(profile.weighers, hosts, factories.request()).totals
    rng = random.Random(7)
    return collections.Counter(
        ' '.join(hosts[pick(profile, totals, rng)].host) for _ in range(draws)
    )


@pytest.mark.parametrize(
    ('shuffle', 'size', 'expected'),
    [
        pytest.param(False, 1, {'h2 h3 h4 h1': 1}, id='defaults'),
        pytest.param(
            False, 2, {'h2 h3 h4 h1': 1 / 2, 'h3 h2 h4 h1': 1 / 2}, id='best two'
        ),
        pytest.param(
            False,
            99,
            {
                'h2 h3 h4 h1': 1 / 4,
                'h3 h2 h4 h1': 1 / 4,
                'h4 h2 h3 h1': 1 / 4,
                'h1 h2 h3 h4': 1 / 4,
            },
            id='any',
        ),
        pytest.param(
            True, 1, {'h2 h3 h4 h1': 1 / 2, 'h3 h2 h4 h1': 1 / 2}, id='shuffled'
        ),
        pytest.param(
            True,
            3,
            {
                'h2 h3 h4 h1': 1 / 3,
                'h3 h2 h4 h1': 1 / 3,
                'h4 h2 h3 h1': 1 / 6,
                'h4 h3 h2 h1': 1 / 6,
            },
            id='shuffled, best three',
        ),
    ],
)
def test_chance(shuffle, size, expected):
    found = frequencies(shuffle, size)
    assert found.keys() == expected.keys()
    for order, share in expected.items():
        assert found[order] / 3000 == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize('count', [0, 1])
def test_pick_of_few(count):
    profile = Profile((), (), 5, True)
    assert pick(profile, np.zeros(count), random.Random(1)).tolist() == [*range(count)]


def test_totals_belong_to_the_ranked_hosts():
    decision = decide(
        Profile((), (RAMWeigher(),)),
        factories.hosts(free_ram_mb=[1, 4, 2]),
        factories.request(),
        random.Random(1),
    )
    assert decision.ranked.host.tolist() == ['h2', 'h3', 'h1']
    assert decision.totals.tolist() == [1.0, 0.5, 0.25]
    assert decision.weighed.hosts.host.tolist() == ['h1', 'h2', 'h3']
