# SPDX-License-Identifier: Apache-2.0
"""What plugins find under the names of nova, while they are loaded."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from novasched import lending
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.ram import RamFilter
from novasched.scheduler.weighers import BaseHostWeigher
from tests import factories

CONF = object()


@pytest.fixture
def nova():
    """Lend nova to a test, which imports what it wants by name."""

    def found(module, name):
        return getattr(importlib.import_module(module), name)

    with lending.nova(CONF, lambda: [RamFilter], list):
        yield found


@pytest.mark.parametrize(
    ('module', 'name'),
    [
        ('nova.filters', 'BaseFilter'),
        ('nova.scheduler.filters', 'BaseHostFilter'),
    ],
)
def test_the_bases_of_filters_are_ours(nova, module, name):
    assert nova(module, name) is BaseHostFilter


@pytest.mark.parametrize(
    ('module', 'name'),
    [('nova.weights', 'BaseWeigher'), ('nova.scheduler.weights', 'BaseHostWeigher')],
)
def test_the_bases_of_weighers_are_ours(nova, module, name):
    assert nova(module, name) is BaseHostWeigher


@pytest.mark.parametrize(
    ('module', 'name'),
    [
        ('filters.affinity_filter', 'ServerGroupAntiAffinityFilter'),
        ('filters.affinity_filter', '_GroupAffinityFilter'),
        ('filters.aggregate_instance_extra_specs', 'AggregateInstanceExtraSpecsFilter'),
        ('filters.availability_zone_filter', 'AvailabilityZoneFilter'),
        ('filters.exact_ram_filter', 'ExactRamFilter'),
        ('filters.extra_specs_ops', 'match'),
        ('filters.io_ops_filter', 'AggregateIoOpsFilter'),
        ('filters.json_filter', 'JsonFilter'),
        ('filters.ram_filter', 'RamFilter'),
        ('filters.trusted_filter', 'TrustedFilter'),
        ('filters.type_filter', 'AggregateTypeAffinityFilter'),
        ('filters.type_filter', 'TypeAffinityFilter'),
        ('weights.compute', 'BuildFailureWeigher'),
        ('weights.ram', 'RAMWeigher'),
        ('weights.affinity', 'ServerGroupSoftAffinityWeigher'),
    ],
)
def test_built_ins_are_ours(nova, module, name):
    found = nova(f'nova.scheduler.{module}', name)
    assert found.__name__ == name
    assert found.__module__.startswith('novasched.')


def test_the_configuration_is_that_of_the_daemon(nova):
    assert nova('nova.conf', 'CONF') is CONF


def test_translations_leave_a_text_as_it_is(nova):
    assert nova('nova.i18n', '_LW')('text') == 'text'


def test_old_plugins_find_a_log(nova):
    assert nova('nova.openstack.common.log', 'getLogger')('novasched.x')


def test_all_that_are_installed(nova):
    assert nova('nova.scheduler.filters', 'all_filters')() == [RamFilter]
    assert nova('nova.scheduler.weights', 'all_weighers')() == []


@pytest.mark.parametrize(
    ('name', 'arguments', 'expected'),
    [
        ('aggregate_values_from_key', ['k'], {'1,2', '3'}),
        ('aggregate_metadata_get_by_host', ['k'], {'k': {'1', '2', '3'}}),
        ('instance_uuids_overlap', ['one'], True),
        ('instance_uuids_overlap', [['two', 'one']], True),
        ('instance_uuids_overlap', [['two']], False),
        ('other_types_on_host', [1], True),
    ],
)
def test_what_filters_ask_of_a_host(nova, name, arguments, expected):
    host = factories.hosts(
        aggregates=[(factories.aggregate(1, k='1,2'), factories.aggregate(2, k='3'))],
        instances=[{'one': object()}],
    ).state(0)
    found = nova('nova.scheduler.filters.utils', name)(host, *arguments)
    assert found == expected


@pytest.mark.parametrize(
    ('arguments', 'expected', 'lines'),
    [
        ([set(), 7], 7, 0),
        ([{'10'}, 7], 10, 0),
        ([{'10', '9'}, 7], 9, 1),
        ([{'1.5', '2'}, 7, float], 1.5, 1),
        ([{'1', '2'}, 7, int, max], 2, 1),
    ],
)
def test_numbers_of_aggregates(nova, caplog, arguments, expected, lines):
    caplog.set_level(logging.INFO, 'novasched')
    found = nova('nova.scheduler.filters.utils', 'validate_num_values')
    assert found(*arguments) == expected
    told = [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]
    line = '2 values found, of which the minimum value will be used.'
    assert told == [line] * lines


def test_a_value_that_is_no_number_is_raised(nova):
    with pytest.raises(ValueError, match='x'):
        nova('nova.scheduler.filters.utils', 'validate_num_values')({'x'}, 7)


def test_the_multiplier_of_aggregates(nova):
    aggregate = factories.aggregate(1, m='2.5')
    hosts = factories.hosts(aggregates=[(aggregate,), ()])
    found = nova('nova.scheduler.utils', 'get_weight_multiplier')
    assert [found(host, 'm', 1.0) for host in hosts.states()] == [2.5, 1.0]


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ([[1, 2, 3]], [0.0, 0.5, 1.0]),
        ([[]], []),
        ([[5, 5]], [0, 0]),
        ([[0, 5, 10], 0, 20], [0.0, 0.25, 0.5]),
    ],
)
def test_normalize(nova, arguments, expected):
    assert nova('nova.weights', 'normalize')(*arguments) == expected


def test_candidates_are_narrowed(nova, caplog):
    caplog.set_level(logging.DEBUG, 'novasched')
    host = factories.hosts(allocation_candidates=[[1, 2]]).state(0)

    class Even(nova('nova.scheduler.filters', 'CandidateFilterMixin')):
        """A filter of a site."""

    assert Even().filter_candidates(host, lambda c: c % 2 == 0) == [2]
    assert host.allocation_candidates == [2]
    told = [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]
    assert told == [
        'Even tries allocation candidate: 1',
        'Even rejected allocation candidate: 1',
        'Even tries allocation candidate: 2',
        'Even accepted allocation candidate: 2',
    ]


@pytest.mark.parametrize(
    ('statement', 'missing'),
    [
        ('import nova.virt', 'nova.virt'),
        ('from nova import db', 'nova.db'),
        ('from nova.scheduler.filters import Nope', 'nova.scheduler.filters.Nope'),
        ('import nova.scheduler.filters.nope', 'nova.scheduler.filters.nope'),
        ('from nova.scheduler.weights import nope', 'nova.scheduler.weights.nope'),
    ],
)
def test_what_is_not_lent_is_named(nova, statement, missing):
    with pytest.raises(ImportError, match=f'^novasched lends plugins no {missing}$'):
        exec(statement, {})


def test_an_attribute_that_is_not_lent_is_named(nova):
    with pytest.raises(AttributeError, match=r'lends plugins no nova\.objects'):
        nova('nova', 'objects')


def test_afterwards_there_is_no_nova():
    with lending.nova(CONF, list, list):
        importlib.import_module('nova.scheduler.filters')
    assert 'nova' not in {name.partition('.')[0] for name in sys.modules}
    with pytest.raises(ModuleNotFoundError, match="No module named 'nova'"):
        importlib.import_module('nova')


def test_nova_that_is_installed_is_left_alone(tmp_path):
    (tmp_path / 'nova.py').write_text('REAL = True\n')
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    try:
        with lending.nova(CONF, list, list):
            assert importlib.import_module('nova').REAL
        assert sys.modules.pop('nova').REAL
    finally:
        sys.path.remove(str(tmp_path))
        importlib.invalidate_caches()
