# SPDX-License-Identifier: Apache-2.0
"""Checks of filters and weighers, for those who write some."""

import re

import pytest

from novasched import errors, testing
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.tables.cases import cases

FILTER = NumInstancesFilter(5)
REQUEST = testing.request()
FREE, FULL = testing.hosts(num_instances=[0]), testing.hosts(num_instances=[5])
BOTH = testing.hosts(num_instances=[0, 5])
WHY = 'h1 (too-many-instances: 5 instances, limit 5)'


def test_assertion_that_holds_is_silent():
    testing.assert_passes(FILTER, FREE, REQUEST)
    testing.assert_rejects(FILTER, FULL, REQUEST)
    testing.assert_rejects(FILTER, FULL, REQUEST, 'too-many-instances')


@cases(
    ('check', 'hosts', 'code', 'said'),
    (
        'a host is rejected',
        testing.assert_passes,
        FULL,
        [],
        f'NumInstancesFilter rejects {WHY}',
    ),
    ('a host passes', testing.assert_rejects, BOTH, [], 'NumInstancesFilter passes h1'),
    (
        'a host is rejected for another reason',
        testing.assert_rejects,
        FULL,
        ['not-enough-ram'],
        f'not not-enough-ram: {WHY}',
    ),
)
def test_failed_assertion_says_why(check, hosts, code, said):
    with pytest.raises(AssertionError, match=re.escape(said)):
        check(FILTER, hosts, REQUEST, *code)


def test_weights_are_by_host():
    hosts = testing.hosts(
        free_ram_mb=[1024, 3072, 2048],
        aggregates=[(testing.aggregate(1, ram_weight_multiplier='9'),), (), ()],
    )
    found = testing.weigh(RAMWeigher(2.0), hosts, REQUEST)
    assert found.raw == {'h1': 1024.0, 'h2': 3072.0, 'h3': 2048.0}
    assert found.normalized == {'h1': 1024 / 3072, 'h2': 1.0, 'h3': 2048 / 3072}
    assert found.multipliers == {'h1': 9.0, 'h2': 2.0, 'h3': 2.0}
    assert found.ranked == ['h1', 'h2', 'h3']


def test_one_host_is_not_weighed():
    with pytest.raises(ValueError, match='fewer than two'):
        testing.weigh(RAMWeigher(), FREE, REQUEST)


@cases(
    ('path', 'text', 'name', 'value'),
    (
        'a filter',
        'novasched.scheduler.filters.host_limit.NumInstancesFilter',
        '[filter_scheduler]\nmax_instances_per_host = 7\n',
        'limit',
        7,
    ),
    (
        'a weigher',
        'novasched.scheduler.weighers.resources.RAMWeigher',
        '[filter_scheduler]\nram_weight_multiplier = 3.0\n',
        'multiplier',
        3.0,
    ),
    (
        'a filter made for nova',
        'tests.plugins.spare_ram.SpareRamFilter',
        '',
        'RUN_ON_REBUILD',
        False,
    ),
)
def test_a_plugin_is_made_as_the_service_makes_it(path, text, name, value):
    assert getattr(testing.load(path, text), name) == value


def test_class_that_is_no_plugin_is_not_loaded():
    with pytest.raises(errors.ClassNotFound, match='correct type'):
        testing.load('pathlib.Path')
