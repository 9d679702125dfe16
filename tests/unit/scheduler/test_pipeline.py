# SPDX-License-Identifier: Apache-2.0
"""Filter, weigh, rank and pick."""

import collections
import contextlib
import random

import numpy as np
import pytest

from novasched import errors
from novasched.compat import plugin_adapter
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
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NAN = float('nan')
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


class RaisesF(BaseHostFilter):
    def __init__(self, problem):
        self.problem = problem

    def host_passes(self, host_state, spec_obj):
        raise self.problem


class Unlucky(BaseHostWeigher):
    option = 'x'
    multipliers = (1,)

    def __init__(self):
        self.weights = {'a': 1}

    def weigh(self, number):
        return 2 * number

    def _weigh_object(self, host_state, weight_properties):
        return self.weigh(host_state.free_ram_mb)


class Remembers(BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        host_state.seen = getattr(host_state, 'seen', 0) + 1
        host_state.free_ram_mb += 5
        return host_state.seen

    def weight_multiplier(self, host_state):
        return host_state.seen


class Broken(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        raise KeyError('nonsense')


class BrokenMultiplier(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return 1

    def weight_multiplier(self, host_state):
        return 'many'


class Stops(PassF):
    def filter_all(self, filter_obj_list, spec_obj):
        return None


class Twice(PassF):
    def filter_all(self, filter_obj_list, spec_obj):
        return [host for host in filter_obj_list for _ in range(2)]


class GivesNames(PassF):
    def filter_all(self, filter_obj_list, spec_obj):
        return [host.host for host in filter_obj_list]


class AllF(FailF):
    def filter_all(self, filter_obj_list, spec_obj):
        return filter_obj_list[:1]


class Trims(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        host_state.limits['vcpu'] = 4
        host_state.allocation_candidates = host_state.allocation_candidates[1:]
        return len(host_state.allocation_candidates)


class Gives(BaseHostWeigher):
    def __init__(self, *given):
        super().__init__()
        self.given = list(given)

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return self.given


def funnel(filters, count, request=None, index=0):
    profile = Profile(factories.adapted(filters), ())
    hosts = factories.hosts(count)
    request = request or factories.request()
    return decide(profile, hosts, request, random.Random(1), index).funnel()


def steps(text):
    """Return nova's text of filters, given as their names and counts."""
    found = [step.split() for step in text.split(', ') if step]
    return [f'{name}: (start: {start}, end: {end})' for name, start, end in found]


@cases(
    'filters, count, expected',
    ('none is left', [PassF(), FailF()], 4, 'PassF 4 4, FailF 4 0'),
    ('stops', [FailF(), PassF()], 4, 'FailF 4 0'),
    ('no host: the first filter is blamed', [PassF(), PassF()], 0, 'PassF 0 0'),
    ('no filters', [], 4, ''),
    ('once, first', [OnceF()], 4, 'OnceF 4 0'),
    ('its own idea of when', [NeverRuns()], 4, ''),
    ('who says to stop leaves no trace', [PassF(), Stops(), FailF()], 4, 'PassF 4 4'),
    ('the same host twice', [Twice(), PassF()], 2, 'Twice 2 4, PassF 4 4'),
)
def test_filters(filters, count, expected):
    assert funnel(filters, count) == steps(expected)


@cases(
    'filters, expected',
    ('only those for it', [PassF(), FailF(), RebF()], 'PassF 4 4, FailF 4 4, RebF 4 0'),
    ('a rule about the whole set', [AllF()], 'AllF 4 1'),
)
def test_filters_of_a_rebuild(filters, expected):
    assert funnel(filters, 4, REBUILD) == steps(expected)


def test_a_filter_that_runs_once_leaves_no_trace_of_the_second_instance():
    assert funnel([OnceF()], 4, index=1) == []


def test_a_rebuild_asks_only_filters_for_rebuilds():
    run_filters(factories.adapted([BrokenF()]), factories.hosts(1), REBUILD)


def test_without_filters_the_hosts_stay_as_they_are():
    hosts = factories.hosts(2)
    assert run_filters([], hosts, factories.request())[0] is hosts


@cases(
    'asked, hosts, ran',
    ('anywhere', {}, [], True),
    ('forced', {'force_hosts': ['h2']}, ['h2'], False),
    ('all ignored', {'ignore_hosts': ['h1', 'h2']}, [], False),
)
def test_forced_hosts_skip_filters(asked, hosts, ran):
    decision = decide(
        Profile(factories.adapted([FailF()]), ()),
        factories.hosts(2),
        factories.request(**asked),
        random.Random(1),
    )
    assert decision.ranked.host.tolist() == hosts
    assert decision.filters_ran is ran
    assert bool(decision.steps) is ran


def test_later_filters_and_the_claim_see_what_a_filter_did():
    hosts = factories.hosts(allocation_candidates=[[1, 2, 3], [1, 2], [1]])
    survivors, _ = run_filters(
        factories.adapted([Trims(), Trims()]), hosts, factories.request()
    )
    assert survivors.host.tolist() == ['h1']
    assert survivors.allocation_candidates.tolist() == [[3]]
    assert survivors.limits.tolist() == [{'vcpu': 4}]


@pytest.mark.parametrize('filter_', [BrokenF(), BrokenIndex(), GivesNames()])
def test_a_filter_that_raises_is_named(filter_):
    with pytest.raises(errors.ExtensionFailed) as raised:
        run_filters(
            factories.adapted([filter_]), factories.hosts(1), factories.request()
        )
    assert raised.value.extension == type(filter_).__name__


@pytest.mark.parametrize('weigher', [Broken(), BrokenMultiplier(), Gives(1, 2, 3)])
def test_a_weigher_that_raises_is_named(weigher):
    with pytest.raises(errors.ExtensionFailed) as raised:
        weigh(factories.adapted([weigher]), factories.hosts(2), factories.request())
    assert raised.value.extension == type(weigher).__name__


@cases(
    'problem',
    ('it wants no host', errors.NoValidHost('for a reason')),
    ('a metric is missing', errors.MetricNotFound('m', 'h', 'n')),
    ('a database is down', errors.StoreFailed('cell1', 'down')),
)
def test_errors_that_say_all_pass_as_they_are(problem):
    with pytest.raises(type(problem)):
        run_filters([RaisesF(problem)], factories.hosts(1), factories.request())


def test_filter_that_reads_an_unset_field_is_named():
    with pytest.raises(errors.ExtensionFailed, match='RaisesF failed: UnsetField'):
        run_filters(
            [RaisesF(errors.UnsetField('is_bfv'))],
            factories.hosts(1),
            factories.request(),
        )


def test_a_weigher_may_use_our_names_for_something_else():
    hosts = factories.hosts(free_ram_mb=[1, 2])
    adopted = plugin_adapter.adopt(Unlucky, BaseHostWeigher)
    made = plugin_adapter.make(adopted, None, 'weight_classes')
    assert made.option == 'x'
    weighed = weigh(factories.adapted([made]), hosts, factories.request())
    (weighing,) = weighed.weighings
    assert weighing.raw.tolist() == [2.0, 4.0]
    assert weighing.multipliers.tolist() == [1.0, 1.0]


def test_attribute_set_by_a_weigher_is_seen_from_then_on():
    hosts = factories.hosts(free_ram_mb=[1, 2])
    profile = Profile((), factories.adapted([Remembers(), Remembers(), RAMWeigher()]))
    decision = decide(profile, hosts, factories.request(), random.Random(1))
    raw = [weighing.raw.tolist() for weighing in decision.weighed.weighings]
    assert raw == [[1, 1], [2, 2], [11, 12]]
    multipliers = [each.multipliers.tolist() for each in decision.weighed.weighings]
    assert multipliers == [[1, 1], [2, 2], [1, 1]]
    assert [host.seen for host in decision.ranked.states()] == [2, 2]
    assert decision.ranked.free_ram_mb.tolist() == [12, 11]
    assert hosts.free_ram_mb.tolist() == [1, 2]


@pytest.mark.parametrize('count', [0, 1])
def test_a_single_host_is_not_weighed(count):
    weighed = weigh(
        factories.adapted([Broken()]), factories.hosts(count), factories.request()
    )
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


def test_a_host_without_a_weight_gets_none():
    weighed = weigh(
        factories.adapted([Gives(1, 3)]), factories.hosts(3), factories.request()
    )
    assert weighed.totals.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_array_equal(weighed.weighings[0].raw, [1.0, 3.0, np.nan])


def test_a_watch_sees_every_filter_and_weigher():
    seen = []

    @contextlib.contextmanager
    def watch(kind, name, hosts):
        seen.append(f'{kind} {name} begins')
        yield
        seen.append(f'{kind} {name} ends')

    profile = Profile(factories.adapted([PassF(), NeverRuns()]), (RAMWeigher(),))
    hosts = factories.hosts(2)
    decide(profile, hosts, factories.request(), random.Random(1), watch=watch)
    assert seen == [
        f'{each} {what}'
        for each in ('Filter PassF', 'Filter NeverRuns', 'Weigher RAMWeigher')
        for what in ('begins', 'ends')
    ]


def test_an_infinite_multiplier_is_no_error():
    aggregate = factories.aggregate(1, ram_weight_multiplier='inf')
    hosts = factories.hosts(free_ram_mb=[1, 2], aggregates=[(aggregate,), ()])
    weighed = weigh([RAMWeigher()], hosts, factories.request())
    assert weighed.totals.tolist() == [float('inf'), 1.0]


@pytest.mark.parametrize('totals', [[0.05, NAN, 0.1], [NAN, 0.05, 0.1]])
def test_nan_orders_as_a_sort_of_this_python_does(totals):
    """As in nova. Python 3.13 sorts otherwise than those before."""
    found = [totals[place] for place in descending(np.array(totals))]
    assert repr(found) == repr(sorted(totals, reverse=True))


@cases(
    'totals',
    ('no ties', lambda rng: rng.random(1000)),
    ('many ties', lambda rng: rng.integers(0, 30, 1000)),
    ('a few ties', lambda rng: rng.integers(0, 9999, 1000)),
    ('ties side by side', lambda rng: np.repeat(rng.permutation(500), 2)),
    ('one moves', lambda rng: np.r_[5, np.arange(1000, 0, -1)]),
    ('and ties', lambda rng: np.r_[5, np.arange(1000, 0, -1) // 9]),
    ('upwards', lambda rng: np.r_[np.arange(1000, 0, -1) // 9, 5]),
    ('up or down', lambda rng: np.r_[9, 1, 7, 7, 5, 1]),
    ('up, past another', lambda rng: np.r_[9, 7, 6, 8, 7, 5]),
    ('runs', lambda rng: np.r_[np.arange(99, 50, -1), np.arange(80, 20, -1)]),
    ('turned around', lambda rng: np.arange(1000)),
)
def test_descending_orders_as_a_stable_sort_does(totals):
    made = totals(np.random.default_rng(1)).astype(float)
    assert descending(made).tolist() == np.argsort(-made, kind='stable').tolist()


def frequencies(shuffle, size, draws=3000):
    """Hosts h2 = h3 (30) > h4 (20) > h1 (10): orders and how often they came."""
    profile = Profile((), (RAMWeigher(),), size, shuffle)
    hosts = factories.hosts(free_ram_mb=[10, 30, 30, 20])
    totals = weigh(profile.weighers, hosts, factories.request()).totals
    rng = random.Random(7)
    return collections.Counter(
        ' '.join(hosts[pick(profile, totals, rng)].host) for _ in range(draws)
    )


ANY = ('h2 h3 h4 h1', 'h3 h2 h4 h1', 'h4 h2 h3 h1', 'h1 h2 h3 h4')
BEST_THREE = ('h2 h3 h4 h1', 'h3 h2 h4 h1', 'h4 h2 h3 h1', 'h4 h3 h2 h1')


@cases(
    'shuffle, size, expected',
    ('defaults', False, 1, {'h2 h3 h4 h1': 6}),
    ('best two', False, 2, {'h2 h3 h4 h1': 3, 'h3 h2 h4 h1': 3}),
    ('any', False, 99, dict.fromkeys(ANY, 1.5)),
    ('shuffled', True, 1, {'h2 h3 h4 h1': 3, 'h3 h2 h4 h1': 3}),
    ('shuffled, best three', True, 3, dict(zip(BEST_THREE, (2, 2, 1, 1), strict=True))),
)
def test_chance(shuffle, size, expected):
    """Orders come as often as expected, in sixths of all draws."""
    found = frequencies(shuffle, size)
    assert found.keys() == expected.keys()
    for order, sixths in expected.items():
        assert found[order] / 3000 == pytest.approx(sixths / 6, abs=0.04)


@pytest.mark.parametrize('count', [0, 1])
def test_pick_of_few(count):
    profile = Profile((), (), 5, True)
    assert pick(profile, np.zeros(count), random.Random(1)).tolist() == [*range(count)]
