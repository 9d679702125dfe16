# SPDX-License-Identifier: Apache-2.0
"""What an operator hears of options and aggregates."""

import logging

from novasched.compat import plugin_adapter
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.aggregate import AggregateImagePropertiesIsolation
from novasched.scheduler.filters.host_limit import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    IoOpsFilter,
)
from novasched.scheduler.filters.legacy.overcommit import (
    AggregateCoreFilter,
    CoreFilter,
)
from novasched.scheduler.filters.metrics import MetricsFilter
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers import BaseHostWeigher, Weigher
from novasched.scheduler.weighers.image_props import ImagePropertiesWeigher
from novasched.scheduler.weighers.metrics import MetricsWeigher
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases


def group(**metadata):
    """Return the aggregates of a host: one for each value of the keys, from 1 on."""
    many = zip(*metadata.values(), strict=True)
    keys = list(metadata)
    return tuple(
        factories.aggregate(number, **dict(zip(keys, values, strict=True)))
        for number, values in enumerate(many, 1)
    )


class PassesAll(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return True


def warned_of(plugins, groups):
    """Return the warnings of a profile with the plugins."""
    filters = [
        plugin_adapter.adapted(each)
        for each in plugins
        if isinstance(each, BaseHostFilter)
    ]
    weighers = [
        plugin_adapter.adapted(each) for each in plugins if isinstance(each, Weigher)
    ]
    return Profile(filters, weighers).config_warnings(groups)


IO_OPS, INSTANCES = 'max_io_ops_per_host', 'max_instances_per_host'
CPUS, RAM = 'cpu_allocation_ratio', 'ram_weight_multiplier'
SEVERAL = '2 values found, of which the minimum value will be used. '
NOT_WHOLE = "Could not decode max_io_ops_per_host: 'invalid literal for int() with base"
NO_RATIO = "Could not decode cpu_allocation_ratio: 'could not convert string to float: "
NO_MULTIPLIER = "Could not decode 'ram_weight_multiplier' weight multiplier: could not "
NO_PROPERTY = "Aggregate 'agg1' has a metadata key 'ssd' that is not present in the "


@cases(
    'plugin, key, values, texts',
    (
        'a limit that is no whole number',
        AggregateIoOpsFilter(),
        IO_OPS,
        ['8.5'],
        [f"{NOT_WHOLE} 10: '8.5'' (aggregate agg1)"],
    ),
    (
        'two limits',
        AggregateNumInstancesFilter(),
        INSTANCES,
        ['10', '9'],
        [f'{SEVERAL}({INSTANCES} of aggregates agg1, agg2)'],
    ),
    ('the same limit twice', AggregateNumInstancesFilter(), INSTANCES, ['9', '9'], []),
    (
        'a ratio that is no number',
        AggregateCoreFilter(),
        CPUS,
        ['many'],
        [f"{NO_RATIO}'many'' (aggregate agg1)"],
    ),
    (
        'a multiplier that is no number, and another',
        RAMWeigher(),
        RAM,
        ['2', 'abc'],
        [
            f'{SEVERAL}({RAM} of aggregates agg1, agg2)',
            f"{NO_MULTIPLIER}convert string to float: 'abc' (aggregate agg2)",
        ],
    ),
    ('a key that nobody reads', IoOpsFilter(), IO_OPS, ['x'], []),
    ('a ratio nobody reads', CoreFilter(), CPUS, ['x'], []),
    ('a plugin made for nova', PassesAll(), 'os_distro', ['linux'], []),
    (
        'a key that is no property',
        AggregateImagePropertiesIsolation(),
        'ssd',
        ['true'],
        [f'{NO_PROPERTY}image metadata.'],
    ),
    ('a property', AggregateImagePropertiesIsolation(), 'os_distro', ['linux'], []),
)
def test_aggregates(plugin, key, values, texts):
    assert [n.text for n in warned_of([plugin], [group(**{key: values})])] == texts


class MadeForNova(PassesAll):
    config_warnings = ()

    def __init__(self):
        self.config_warnings = []


class WeigherForNova(BaseHostWeigher):
    option = 'site'

    def _weigh_object(self, host_state, weight_properties):
        return 1


class KnowsUs(AggregateIoOpsFilter):
    def config_warnings(self, groups):
        return [PluginWarning('of a site')]


def test_a_plugin_made_for_nova_may_use_our_names_for_something_else():
    weigher = plugin_adapter.adopt(WeigherForNova, BaseHostWeigher)()
    assert warned_of([MadeForNova(), weigher], [group(site=['x'])]) == []


def test_a_plugin_that_knows_us_has_its_say():
    assert warned_of([KnowsUs()], []) == [PluginWarning('of a site')]


def test_two_values_are_for_information_and_nonsense_is_a_warning():
    found = warned_of([RAMWeigher()], [group(ram_weight_multiplier=['2', 'abc'])])
    assert [each.level for each in found] == [logging.INFO, logging.WARNING]


def test_aggregates_of_several_hosts_are_named_once():
    one, other = group(max_io_ops_per_host=['x']), group(max_io_ops_per_host=['x', 'y'])
    found = warned_of([AggregateIoOpsFilter()] * 2, [one, one, other, ()])
    assert [each.text.rpartition(' (')[2] for each in found] == [
        'max_io_ops_per_host of aggregates agg1, agg2)',
        'aggregate agg1)',
        'aggregate agg2)',
    ]


@cases(
    'key, warnings_of_keys',
    ('of the namespace, no property', 'hw.os_distro', 1),
    ('of another namespace', 'os_distro', 0),
)
def test_the_namespace_is_warned_of(key, warnings_of_keys):
    filter_ = AggregateImagePropertiesIsolation('hw')
    first, *others = warned_of([filter_], [group(**{key: ['windows']})])
    assert first.text.startswith('It is no longer possible to filter on arbitrary')
    assert len(others) == warnings_of_keys


def ignoring(option, items):
    return [
        PluginWarning(f'Ignoring the invalid elements of the option {option}: {items}')
    ]


SETTING = ['bad', 'cpu.percent=x', 'cpu.percent=3', '=1']


@cases('plugins, option',
    ('metrics, for both who read it',
     [MetricsFilter([], SETTING[:2]), MetricsWeigher(1.0, SETTING[:3])],
     'metrics.weight_setting'),
    ('image properties', [ImagePropertiesWeigher(1.0, iter(SETTING[:3]))],
     'filter_scheduler.image_props_weight_setting'),
)  # fmt: skip
def test_settings(plugins, option):
    assert warned_of(plugins, []) == ignoring(option, 'bad, cpu.percent=x')


def test_nothing_odd():
    plugins = [MetricsFilter(['cpu.percent']), MetricsWeigher(1.0, ['cpu.percent=1'])]
    assert warned_of(plugins, [group(os_distro=['linux'])]) == []
