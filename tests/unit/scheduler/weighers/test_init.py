# SPDX-License-Identifier: Apache-2.0
"""What all weighers have in common: clamping, normalising, multipliers."""

import numpy as np
import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.plugins import profile_from_conf
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers import (
    BaseHostWeigher,
    WeighedHost,
    Weigher,
    normalize,
)
from novasched.scheduler.weighers.resources import BuildFailureWeigher, RAMWeigher
from novasched.scheduler.weighers.shares import RAMShareWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

RAM = 'ram_weight_multiplier'


class NameLength(BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return len(host_state.host)


class ByPlace(NameLength):
    def weigh_objects(self, weighed_obj_list, weight_properties):
        names = sorted(weighed.obj.host for weighed in weighed_obj_list)
        return [names.index(weighed.obj.host) for weighed in weighed_obj_list]

    def weight_multiplier(self, host_state):
        return 2 if host_state.host == 'b' else 3


class Plain(Weigher):
    def weigh(self, hosts, request):
        return np.ones(len(hosts))


class Doubled(RAMWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return 2 * super()._weigh_object(host_state, spec_obj)


class Ranks(RAMWeigher):
    def weigh_objects(self, weighed_obj_list, weight_properties):
        raw = super().weigh_objects(weighed_obj_list, weight_properties)
        return (sorted(raw).index(each) - 1 for each in raw)


class ByHost(RAMWeigher):
    def weight_multiplier(self, host_state):
        return super().weight_multiplier(host_state) * len(host_state.host)


class OfOld(RAMWeigher):
    def weight_multiplier(self):
        return super().weight_multiplier() + 1


class Static(RAMWeigher):
    @staticmethod
    def weight_multiplier(host_state):
        return len(host_state.host)


class OfClass(RAMWeigher):
    @classmethod
    def weight_multiplier(cls, host_state):
        return len(host_state.host)


class OfObject(RAMWeigher):
    def __init__(self):
        super().__init__()
        self.weight_multiplier = lambda host: 5.0


class Negated(BuildFailureWeigher):
    def weight_multiplier(self, host_state):
        return 7


class Bounded(NameLength):
    def __init__(self):
        super().__init__()
        self.minval = 2

    @property
    def maxval(self):
        return 3


class Gives(BaseHostWeigher):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return self.given


class Nothing(BaseHostWeigher):
    """Defines no hook."""


@cases(
    'weigher, expected',
    ('columns, clamped', RAMWeigher(), [0, 3, 5]),
    ('_weigh_object, clamped', Doubled(), [0, 6, 10]),
    ('weigh_objects is not clamped', Ranks(), [-1, 0, 1]),
    ('host by host', NameLength(), [1, 3, 5]),
    ('bounds that are not of the class', Bounded(), [2, 3, 3]),
    ('too few', Gives([True, 0.5]), [1, 0.5]),
    ('none', Gives([]), []),
    ('large', Gives((1, 10**30, -1)), [1, 1e30, -1]),
    ('an array', Gives(np.array([1, 2, 3])), [1, 2, 3]),
)
def test_weights(weigher, expected):
    hosts = factories.hosts(host=['a', 'bbb', 'ccccc'], free_ram_mb=[-2, 3, 5])
    weights = adapted(weigher).weights(hosts, factories.request())
    assert weights.tolist() == expected


@cases(
    'weigher, problem',
    ('None', Gives([1, None]), 'None is no number'),
    ('text', Gives(['5', '6']), "'5' is no number"),
    ('lists', Gives([[1], [2]]), 'more than one number'),
    ('nothing', Gives(None), 'not iterable'),
    ('no hook', Nothing(), 'Nothing does not define _weigh_object'),
)
def test_value_that_is_no_weight_is_refused(weigher, problem):
    with pytest.raises(TypeError, match=problem):
        adapted(weigher).weights(factories.hosts(2), factories.request())


@cases(
    'weigher, expected',
    ('by host', ByHost(2.0), [2.0, 15.0]),
    ('without a host, as before Stein', OfOld(2.0), [3.0, 3.0]),
    ('a static method', Static(), [1.0, 3.0]),
    ('a method of the class', OfClass(), [1.0, 3.0]),
    ('set on the object', OfObject(), [5.0, 5.0]),
    ('not negated by the built-in', Negated(), [7.0, 7.0]),
)
def test_multipliers_of_a_subclass(weigher, expected):
    aggregate = factories.aggregate(1, **{RAM: '5'})
    hosts = factories.hosts(host=['a', 'bbb'], aggregates=[(), (aggregate,)])
    assert adapted(weigher).multipliers(hosts).tolist() == expected


def test_a_host_on_its_way_shows_itself_as_in_nova():
    host = factories.hosts(1).state(0)
    weighed = WeighedHost(host, 2.0)
    assert repr(weighed) == f'WeighedHost [host: {host!r}, weight: 2.0]'
    assert weighed.to_dict() == {'weight': 2.0, 'host': 'h1'}


NAN = float('nan')


@pytest.mark.parametrize(
    ('raw', 'low', 'high', 'expected'),
    [
        ([], None, None, []),
        ([NAN, 1, 2], None, None, [NAN, NAN, NAN]),
        ([1, NAN, 2], None, None, [0.0, NAN, 1.0]),
        ([1, 2, NAN], None, None, [0.0, 1.0, NAN]),
        ([NAN, 1, 2], 0, 20, [NAN, 0.05, 0.1]),
        ([0, 5, 10, 30], 0, 20, [0.0, 0.25, 0.5, 1.5]),
        ([1, 2], None, 1, [0, 0]),
    ],
)
def test_normalize(raw, low, high, expected):
    found = normalize(np.array(raw, float), low, high)
    np.testing.assert_array_equal(found, expected)


def test_the_multiplier_is_an_option():
    conf = make_conf()
    conf.set_override(RAM, -2.5, 'filter_scheduler')
    assert RAMWeigher.from_conf(conf).multiplier == -2.5


def test_a_weigher_without_an_option_counts_once():
    aggregate = factories.aggregate(1, **{RAM: '5'})
    hosts = factories.hosts(aggregates=[(aggregate,), ()])
    assert Plain.from_conf(None).multipliers(hosts).tolist() == [1.0, 1.0]


def test_a_plugin_weighs_host_by_host():
    hosts = factories.hosts(host=['a', 'ccc', 'b'])
    plugin = NameLength.from_conf(None)
    assert plugin.weigh(hosts, factories.request()).tolist() == [1, 3, 1]
    assert plugin.multipliers(hosts).tolist() == [1.0, 1.0, 1.0]


def test_a_plugin_weighs_the_whole_set_with_multipliers_of_its_own():
    hosts = factories.hosts(host=['a', 'ccc', 'b'])
    assert ByPlace().weigh(hosts, factories.request()).tolist() == [0, 2, 1]
    assert adapted(ByPlace()).multipliers(hosts).tolist() == [3.0, 3.0, 2.0]


SHARE = 'ram_share_weight_multiplier'


def test_weigher_of_ours_takes_no_part_while_its_multiplier_is_zero():
    profile = profile_from_conf(make_conf())
    off = {each.name for each in profile.weighers} - {
        each.name for each in profile.shown_weighers
    }
    assert off == {
        'CPUShareWeigher',
        'DiskShareWeigher',
        'KeepRoomWeigher',
        'RAMShareWeigher',
        'SameHostWeigher',
    }
    hosts, request = factories.hosts(2), factories.request()
    weighed = weigh(profile.weighers, hosts, request)
    assert [w.name for w in weighed.weighings] == [
        each.name for each in profile.shown_weighers
    ]


@cases(
    'multiplier, metadata, totals',
    ('off', 0.0, {}, [0, 0]),
    ('on', 2.0, {}, [0, 2]),
    ('on in an aggregate', 0.0, {SHARE: '3'}, [0, 3]),
    ('off in an aggregate', 2.0, {SHARE: '0'}, [0, 0]),
)
def test_option_or_aggregate_turns_a_weigher_of_ours_on(multiplier, metadata, totals):
    hosts = factories.hosts(
        free_ram_mb=[1024, 4096], aggregates=[(), (factories.aggregate(**metadata),)]
    )
    weighed = weigh([RAMShareWeigher(multiplier)], hosts, factories.request())
    assert weighed.totals.tolist() == totals
    assert len(weighed.weighings) == bool(multiplier or metadata)
    other = hosts.with_columns(aggregates=factories.hosts(2).aggregates)
    again = weigh([RAMShareWeigher(multiplier)], other, factories.request())
    assert len(again.weighings) == bool(multiplier)
