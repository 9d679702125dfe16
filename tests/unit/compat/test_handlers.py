# SPDX-License-Identifier: Apache-2.0
"""Plugins that run filters and weighers themselves."""

import pytest

from novasched import errors
from novasched.compat.nova_modules import HostFilterHandler, HostWeightHandler
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

FEW = f'{NumInstancesFilter.__module__}.NumInstancesFilter'
RAM = f'{RAMWeigher.__module__}.RAMWeigher'


class Once(BaseHostFilter):
    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        return False


class Stops(BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        return None


class First(BaseHostWeigher):
    def weight_multiplier(self, host_state):
        return 3

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [1, 0]


def test_classes_by_path():
    assert HostFilterHandler().get_matching_classes([FEW]) == [NumInstancesFilter]
    assert HostWeightHandler().get_matching_classes([RAM]) == [RAMWeigher]
    with pytest.raises(errors.ClassNotFound):
        HostFilterHandler().get_matching_classes([RAM])


@cases(
    'filters, index, expected',
    ('no filter', [], 0, ['h1', 'h2']),
    ('one', [NumInstancesFilter(5)], 0, ['h1']),
    ('none is left', [Once(), Stops()], 0, []),
    ('once per request', [Once()], 1, ['h1', 'h2']),
    ('stops', [Stops(), Once()], 0, None),
)
def test_filtered(filters, index, expected):
    hosts = factories.hosts(num_instances=[1, 9]).states()
    left = HostFilterHandler().get_filtered_objects(
        filters, hosts, factories.request(), index
    )
    assert (left if left is None else [host.host for host in left]) == expected


def test_weighed():
    hosts = factories.hosts(free_ram_mb=[1, 2, 3]).states()
    weighed = HostWeightHandler().get_weighed_objects(
        [RAMWeigher(), First()], hosts, factories.request()
    )
    shown = [(each.obj.host, round(each.weight, 2)) for each in weighed]
    assert shown == [('h1', 3.33), ('h3', 1.0), ('h2', 0.67)]


def test_a_single_host_is_not_weighed():
    hosts = factories.hosts(1).states()
    (weighed,) = HostWeightHandler().get_weighed_objects([First()], hosts, None)
    assert (weighed.obj.host, weighed.weight) == ('h1', 0.0)
