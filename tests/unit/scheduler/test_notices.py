# SPDX-License-Identifier: Apache-2.0
"""What an operator hears of options and aggregates."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.aggregate_image_properties_isolation import (
    AggregateImagePropertiesIsolation,
)
from novasched.scheduler.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from novasched.scheduler.filters.legacy.core import AggregateCoreFilter, CoreFilter
from novasched.scheduler.filters.metrics import MetricsFilter
from novasched.scheduler.filters.num_instances import AggregateNumInstancesFilter
from novasched.scheduler.notices import Notice, notices
from novasched.scheduler.weighers import BaseHostWeigher
from novasched.scheduler.weighers.image_props import ImagePropertiesWeigher
from novasched.scheduler.weighers.metrics import MetricsWeigher
from novasched.scheduler.weighers.ram import RAMWeigher
from tests import factories


def group(**metadata):
    """Return the aggregates of a host: one for each value of the keys, from 1 on."""
    many = zip(*metadata.values(), strict=True)
    keys = list(metadata)
    return tuple(
        factories.aggregate(number, **dict(zip(keys, values, strict=True)))
        for number, values in enumerate(many, 1)
    )


@pytest.mark.parametrize(
    ('plugin', 'key', 'values', 'texts'),
    [
        pytest.param(
            AggregateIoOpsFilter(),
            'max_io_ops_per_host',
            ['8.5'],
            [
                "Could not decode max_io_ops_per_host: 'invalid literal for int() with "
                "base 10: '8.5'' (aggregate agg1)"
            ],
            id='a limit that is no whole number',
        ),
        pytest.param(
            AggregateNumInstancesFilter(),
            'max_instances_per_host',
            ['10', '9'],
            [
                '2 values found, of which the minimum value will be used. '
                '(max_instances_per_host of aggregates agg1, agg2)'
            ],
            id='two limits',
        ),
        pytest.param(
            AggregateNumInstancesFilter(),
            'max_instances_per_host',
            ['9', '9'],
            [],
            id='the same limit twice',
        ),
        pytest.param(
            AggregateCoreFilter(),
            'cpu_allocation_ratio',
            ['many'],
            [
                "Could not decode cpu_allocation_ratio: 'could not convert string to "
                "float: 'many'' (aggregate agg1)"
            ],
            id='a ratio that is no number',
        ),
        pytest.param(
            RAMWeigher(),
            'ram_weight_multiplier',
            ['2', 'abc'],
            [
                '2 values found, of which the minimum value will be used. '
                '(ram_weight_multiplier of aggregates agg1, agg2)',
                "Could not decode 'ram_weight_multiplier' weight multiplier: could not "
                "convert string to float: 'abc' (aggregate agg2)",
            ],
            id='a multiplier that is no number, and another',
        ),
        pytest.param(
            IoOpsFilter(),
            'max_io_ops_per_host',
            ['x'],
            [],
            id='a key that nobody reads',
        ),
        pytest.param(
            CoreFilter(), 'cpu_allocation_ratio', ['x'], [], id='a ratio nobody reads'
        ),
        pytest.param(
            AggregateImagePropertiesIsolation(),
            'ssd',
            ['true'],
            [
                "Aggregate 'agg1' has a metadata key 'ssd' that is not present in the "
                'image metadata.'
            ],
            id='a key that is no property',
        ),
        pytest.param(
            AggregateImagePropertiesIsolation(),
            'os_distro',
            ['linux'],
            [],
            id='a key that is a property',
        ),
        pytest.param(object(), 'os_distro', ['linux'], [], id='a plugin made for nova'),
    ],
)
def test_aggregates(plugin, key, values, texts):
    assert [n.text for n in notices([plugin], [group(**{key: values})])] == texts


class MadeForNova(BaseHostFilter):
    notices = ()

    def __init__(self):
        self.notices = []

    def host_passes(self, host_state, spec_obj):
        return True


class WeigherForNova(BaseHostWeigher):
    option = 'site'

    def _weigh_object(self, host_state, weight_properties):
        return 1


class KnowsUs(AggregateIoOpsFilter):
    def notices(self, groups):
        return [Notice('of a site')]


def test_a_plugin_made_for_nova_may_use_our_names_for_something_else():
    plugins = [MadeForNova(), WeigherForNova()]
    assert notices(plugins, [group(site=['x'])]) == []


def test_a_plugin_that_knows_us_has_its_say():
    assert notices([KnowsUs()], []) == [Notice('of a site')]


def test_two_values_are_for_information_and_nonsense_is_a_warning():
    found = notices([RAMWeigher()], [group(ram_weight_multiplier=['2', 'abc'])])
    assert [notice.warning for notice in found] == [False, True]


def test_hosts_in_the_same_aggregates_are_told_of_once():
    one, other = group(max_io_ops_per_host=['x']), group(max_io_ops_per_host=['x', 'y'])
    found = notices([AggregateIoOpsFilter()] * 2, [one, one, other, ()])
    assert [notice.text.rpartition(' (')[2] for notice in found] == [
        'max_io_ops_per_host of aggregates agg1, agg2)',
        'aggregate agg1)',
        'aggregate agg2)',
    ]


@pytest.mark.parametrize(
    ('key', 'notices_of_keys'),
    [
        pytest.param('hw.os_distro', 1, id='of the namespace, no property'),
        pytest.param('os_distro', 0, id='of another namespace'),
    ],
)
def test_the_namespace_is_warned_of(key, notices_of_keys):
    filter_ = AggregateImagePropertiesIsolation('hw')
    first, *others = notices([filter_], [group(**{key: ['windows']})])
    assert first.text.startswith('It is no longer possible to filter on arbitrary')
    assert len(others) == notices_of_keys


def ignoring(option, items):
    return [Notice(f'Ignoring the invalid elements of the option {option}: {items}')]


SETTING = ['bad', 'cpu.percent=x', 'cpu.percent=3', '=1']


@pytest.mark.parametrize(
    ('plugins', 'option'),
    [
        pytest.param(
            [MetricsFilter([], SETTING[:2]), MetricsWeigher(1.0, SETTING[:3])],
            'metrics.weight_setting',
            id='metrics, for both who read it',
        ),
        pytest.param(
            [ImagePropertiesWeigher(1.0, iter(SETTING[:3]))],
            'filter_scheduler.image_props_weight_setting',
            id='image properties',
        ),
    ],
)
def test_settings(plugins, option):
    assert notices(plugins, []) == ignoring(option, 'bad, cpu.percent=x')


def test_nothing_odd():
    plugins = [MetricsFilter(['cpu.percent']), MetricsWeigher(1.0, ['cpu.percent=1'])]
    assert notices(plugins, [group(os_distro=['linux'])]) == []
