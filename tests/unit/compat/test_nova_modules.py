# SPDX-License-Identifier: Apache-2.0
"""Modules under nova's names, as plugins find them."""

import importlib
import logging
import sys

import pytest

from novasched import errors
from novasched.compat import nova_modules
from novasched.compat.nova_exceptions import NovaException, NoValidHost
from novasched.objects.context import RequestContext
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.legacy.overcommit import RamFilter
from novasched.scheduler.hosts import HostState
from novasched.scheduler.weighers import BaseHostWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

CONF = object()


@pytest.fixture(autouse=True)
def installed():
    """Install the import shim for the length of a test."""
    finders = list(sys.meta_path)
    nova_modules.install(CONF, lambda: [RamFilter], list)
    yield
    sys.meta_path[:] = finders
    forget()


def forget():
    for name in [each for each in sys.modules if each.partition('.')[0] == 'nova']:
        del sys.modules[name]


@pytest.fixture
def nova():
    """Import by name."""

    def found(module, name):
        return getattr(importlib.import_module(module), name)

    return found


@pytest.mark.parametrize(
    ('module', 'name', 'ours'),
    [
        ('nova.filters', 'BaseFilter', BaseHostFilter),
        ('nova.scheduler.filters', 'BaseHostFilter', BaseHostFilter),
        ('nova.weights', 'BaseWeigher', BaseHostWeigher),
        ('nova.scheduler.weights', 'BaseHostWeigher', BaseHostWeigher),
        ('nova.conf', 'CONF', CONF),
        ('nova.context', 'RequestContext', RequestContext),
        ('nova.scheduler.host_manager', 'HostState', HostState),
    ],
)
def test_names_that_plugins_import_are_ours(nova, module, name, ours):
    assert nova(module, name) is ours


@pytest.mark.parametrize(
    ('module', 'name'),
    [
        ('filters.affinity_filter', 'ServerGroupAntiAffinityFilter'),
        ('filters.affinity_filter', '_GroupHostsFilter'),
        ('filters.affinity_filter', 'GroupAffinityFilter'),
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


def test_functions_that_plugins_call_at_import_are_there(nova):
    assert nova('nova.i18n', '_LW')('text') == 'text'
    assert nova('nova.openstack.common.log', 'getLogger')('novasched.x')
    for name in ('all_filters', 'standard_filters'):
        assert nova('nova.scheduler.filters', name)() == [RamFilter]
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
def test_helpers_of_nova_filters_read_host_aggregates_and_instances(
    nova, name, arguments, expected
):
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
        ('from nova.exception import Odd', 'nova.exception.Odd'),
        ('from nova.utils import get_ksa_adapter', 'nova.utils.get_ksa_adapter'),
        ('from nova import db', 'nova.db'),
        ('from nova.scheduler.filters import Nope', 'nova.scheduler.filters.Nope'),
        ('import nova.scheduler.filters.nope', 'nova.scheduler.filters.nope'),
        ('import nova.scheduler.filters.legacy', 'nova.scheduler.filters.legacy'),
        ('from nova.scheduler.weights import nope', 'nova.scheduler.weights.nope'),
    ],
)
def test_missing_module_or_name_is_named(nova, statement, missing):
    with pytest.raises(ImportError, match=f'^novasched lends plugins no {missing}: '):
        exec(statement, {})


def test_an_attribute_that_is_not_lent_is_named(nova):
    with pytest.raises(AttributeError, match=r'lends plugins no nova\.objects'):
        nova('nova', 'objects')


def test_the_same_configuration_changes_nothing():
    before = importlib.import_module('nova.conf'), list(sys.meta_path)
    nova_modules.install(CONF, list, list)
    assert (importlib.import_module('nova.conf'), sys.meta_path) == before


def test_of_several_configurations_the_last_holds(nova):
    assert nova('nova.conf', 'CONF') is CONF
    count, other = len(sys.meta_path), object()
    nova_modules.install(other, list, list)
    assert nova('nova.conf', 'CONF') is other
    assert len(sys.meta_path) == count


@pytest.fixture
def real(tmp_path):
    """Nova, installed."""
    (tmp_path / 'nova.py').write_text('REAL = True\n')
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(tmp_path))
    importlib.invalidate_caches()


def test_nova_that_is_installed_is_not_used(real, nova):
    assert not hasattr(importlib.import_module('nova'), 'REAL')
    assert nova('nova.conf', 'CONF') is CONF


def test_nova_that_was_imported_before_is_left_alone(real):
    forget()
    (ours,) = [
        each for each in sys.meta_path if type(each) is nova_modules.NovaImporter
    ]
    sys.meta_path.remove(ours)
    assert importlib.import_module('nova').REAL
    nova_modules.install(CONF, list, list)
    assert importlib.import_module('nova').REAL


@pytest.mark.parametrize(
    ('old', 'today'),
    [
        ('oslo.config.cfg', 'oslo_config.cfg'),
        ('oslo.serialization.jsonutils', 'oslo_serialization.jsonutils'),
        ('oslo.utils', 'oslo_utils'),
        ('nova.openstack.common.jsonutils', 'oslo_serialization.jsonutils'),
        ('nova.openstack.common.timeutils', 'oslo_utils.timeutils'),
    ],
)
def test_libraries_by_their_names_of_old(old, today):
    found = vars(importlib.import_module(old))
    today = vars(importlib.import_module(today))
    names = [name for name in today if not name.startswith('__')]
    assert names
    assert all(found[name] is today[name] for name in names)


def test_a_library_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match=r'oslo\.nope'):
        importlib.import_module('oslo.nope')


def test_handlers_know_all_that_are_installed(nova):
    filters = nova('nova.scheduler.filters', 'HostFilterHandler')()
    assert filters.get_all_classes() == [RamFilter]
    path = 'nova.scheduler.filters.ram_filter.RamFilter'
    assert filters.get_matching_classes([path]) == [RamFilter]
    assert nova('nova.scheduler.weights', 'HostWeightHandler')().get_all_classes() == []


def test_errors_and_contexts(nova):
    error = nova('nova.exception', 'NoValidHost')
    assert issubclass(error, nova('nova.exception', 'NovaException'))
    assert nova('nova.context', 'get_admin_context')().is_admin


def test_a_subclass_of_nova_s_driver_is_refused(nova):
    base = nova('nova.scheduler.filter_scheduler', 'FilterScheduler')
    text = 'no subclasses of FilterScheduler: derive Mine from nova.scheduler.driver'
    with pytest.raises(TypeError, match=text):
        type('Mine', (base,), {})


class TooHot(NovaException):
    msg_fmt = 'Host %(host)s is too hot.'


@cases(
    'problem, text',
    ('nothing', NovaException(), 'An unknown exception occurred.'),
    ('a text', NovaException('so'), 'so'),
    ('keywords', TooHot(host='h1'), 'Host h1 is too hot.'),
    ('other keywords', TooHot(node='n1'), TooHot.msg_fmt),
    ('no host, a text', NoValidHost('so'), 'so'),
    ('a reason', NoValidHost(reason='so'), 'No valid host was found. so'),
    ('no host, nothing', NoValidHost(), NoValidHost.msg_fmt),
)
def test_the_text_of_an_exception(problem, text):
    assert str(problem) == problem.format_message() == text


def test_callers_find_the_base_where_nova_has_it():
    assert NovaException.__module__ == 'nova.exception'
    assert TooHot(host='h1').kwargs == {'code': 500, 'host': 'h1'}


def test_no_valid_host_is_ours_too():
    assert isinstance(NoValidHost(), errors.NoValidHost)
    assert [NoValidHost(reason='so').reason, NoValidHost('so').reason] == ['so', 'so']
