# SPDX-License-Identifier: Apache-2.0
"""Warnings about names and options of older releases."""

import pytest

from novasched.compat import deprecated_options
from tests.support.tables.cases import cases


def test_by_default_nothing_is_said(conf):
    assert list(deprecated_options.warnings(conf)) == []


@pytest.mark.parametrize(
    ('named', 'said'),
    [
        (
            'nova.scheduler.filter_scheduler.FilterScheduler',
            ['FilterScheduler is called filter_scheduler today.'],
        ),
        (
            'caching_scheduler',
            ['is caching_scheduler, not filter_scheduler: candidates come from a copy'],
        ),
        (
            'nova.scheduler.caching_scheduler.CachingScheduler',
            ['is caching_scheduler, not filter_scheduler: candidates come from a copy'],
        ),
        ('chance_scheduler', ['chance_scheduler, not filter_scheduler: hosts are']),
        (
            'nova.scheduler.chance.ChanceScheduler',
            ['is called chance_scheduler today.', 'is chance_scheduler, not'],
        ),
        ('own.Driver', ['is own.Driver, not filter_scheduler: it alone answers']),
    ],
)
def test_drivers(conf, named, said):
    conf.set_override('driver', named, 'scheduler')
    lines = list(deprecated_options.warnings(conf))
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert line.startswith('[scheduler] driver')
        assert words in line


@pytest.mark.parametrize(
    ('named', 'said'),
    [
        ('nova.scheduler.host_manager.HostManager', 'what every cloud has today.'),
        ('ironic_host_manager', 'not needed today: an instance takes all of a bare'),
        (
            'nova.scheduler.ironic_host_manager.IronicHostManager',
            'not needed today: an instance takes all of a bare',
        ),
        ('own.HostManager', 'which is not loaded: '),
    ],
)
def test_host_managers(conf, named, said):
    conf.set_override('host_manager', named, 'scheduler')
    (line,) = deprecated_options.warnings(conf)
    assert line.startswith(f'[scheduler] host_manager is {named}, which is ')
    assert said in line


FILTERS, STANDARD = 'filter_scheduler', 'nova.scheduler.filters.standard_filters'


@cases(
    'group, values, said',
    (
        'standard filters',
        FILTERS,
        {'available_filters': ['own.Filter', STANDARD]},
        f'[filter_scheduler] available_filters: {STANDARD} is called '
        'nova.scheduler.filters.all_filters today.',
    ),
    (
        'filters of bare machines',
        FILTERS,
        {'use_baremetal_filters': True, 'baremetal_enabled_filters': ['A', 'B']},
        '[filter_scheduler] use_baremetal_filters is deprecated: '
        'baremetal_enabled_filters is what runs. Set enabled_filters to A,B for the '
        'same filters.',
    ),
    (
        'a file for filters that is missing',
        None,
        {'scheduler_json_config_location': '/none.json'},
        '[DEFAULT] scheduler_json_config_location is /none.json, which cannot be read',
    ),
)
def test_old_options_of_filters_are_a_warning(conf, group, values, said):
    for name, value in values.items():
        conf.set_override(name, value, group)
    (line,) = deprecated_options.warnings(conf)
    assert line.startswith(said)


@cases(
    'filters, warned',
    ('no filter either', ['ComputeFilter'], 1),
    ('a filter does it', ['AvailabilityZoneFilter'], 0),
)
def test_unchecked_zones_are_a_warning(conf, filters, warned):
    conf.set_override('query_placement_for_availability_zone', False, 'scheduler')
    conf.set_override('enabled_filters', filters, 'filter_scheduler')
    assert len(list(deprecated_options.warnings(conf))) == warned
