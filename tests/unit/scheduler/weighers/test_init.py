# SPDX-License-Identifier: Apache-2.0
"""What all weighers have in common: clamping, normalising, multipliers."""

from __future__ import annotations

import numpy as np
import pytest
from oslo_config import cfg

from novasched.scheduler.weighers import (
    BaseHostWeigher,
    Weigher,
    clamp,
    lowest_multiplier,
    normalize,
)
from novasched.scheduler.weighers.ram import OPTS, RAMWeigher
from tests import factories

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


@pytest.mark.parametrize(
    ('raw', 'low', 'high', 'expected'),
    [
        ([1, 2, 3], None, None, [0.0, 0.5, 1.0]),
        ([5], None, None, [0]),
        ([5, 5], None, None, [0, 0]),
        ([0, 0], None, None, [0, 0]),
        ([5, 5], 0, None, [1.0, 1.0]),
        ([0, 5, 10], 0, 20, [0.0, 0.25, 0.5]),
        ([5, 30], 0, 20, [0.25, 1.5]),
        ([3, 3], 3, None, [0, 0]),
        ([1, 2], None, 1, [0, 0]),
        ([0.1, 0.2, 0.3], None, None, [0.0, 0.5000000000000001, 1.0]),
    ],
)
def test_normalize(raw, low, high, expected):
    assert normalize(np.array(raw, float), low, high).tolist() == expected


@pytest.mark.parametrize(
    ('low', 'high', 'expected'),
    [
        (None, None, [-1.0, 5.0]),
        (0, None, [0.0, 5.0]),
        (None, 3, [-1.0, 3.0]),
        (0, 3, [0.0, 3.0]),
    ],
)
def test_clamp(low, high, expected):
    assert clamp(np.array([-1, 5]), low, high).tolist() == expected


@pytest.mark.parametrize(
    ('values', 'expected'),
    [
        ([], 1.0),
        (['2'], 2.0),
        ([' 3 '], 3.0),
        (['inf'], float('inf')),
        (['2', '3'], 2.0),
        (['2', '2'], 2.0),
        (['2.0', '2'], 2.0),
        (['-1', '5'], -1.0),
        (['abc', '2'], 1.0),
        ([''], 1.0),
        (['1,2'], 1.0),
        (['abc'], 1.0),
    ],
)
def test_multipliers_of_aggregates(values, expected):
    assert lowest_multiplier(set(values), 1.0) == expected
    aggregates = tuple(
        factories.aggregate(number, **{RAM: value})
        for number, value in enumerate(values)
    )
    hosts = factories.hosts(aggregates=[aggregates, ()])
    assert RAMWeigher(1.0).multipliers(hosts).tolist() == [expected, 1.0]


def test_the_multiplier_is_an_option():
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTS['filter_scheduler'], 'filter_scheduler')
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
    assert ByPlace().multipliers(hosts).tolist() == [3.0, 3.0, 2.0]
