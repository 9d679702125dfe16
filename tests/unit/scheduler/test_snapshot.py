# SPDX-License-Identifier: Apache-2.0
"""Columns that are never changed, and what plugins set on hosts besides."""

import fractions

import numpy as np

from novasched.scheduler.hosts import Snapshot
from novasched.scheduler.snapshot import Snapshot as Defined
from tests.support.clouds import factories
from tests.support.tables.cases import cases

NAN = float('nan')


def with_value(name, value):
    """Return hosts of which the second was given a value by a plugin."""
    hosts = factories.hosts(2)
    host = hosts.state(1)
    setattr(host, name, value)
    return hosts.keep([hosts.state(0), host])


@cases(
    'name, value',
    ('a fraction of a MiB', 'free_ram_mb', 8190.5),
    ('None instead of a number', 'free_ram_mb', None),
    ('more than 64 bits', 'num_instances', 2**70),
    ('a text instead of a number', 'num_instances', '16'),
    ('a list instead of a number', 'num_io_ops', [1, 2]),
    ('not a number', 'vcpus_used', NAN),
    ('a text for a ratio', 'cpu_allocation_ratio', '16.0'),
    ('more than a float holds', 'cpu_allocation_ratio', 10**400),
    ('a third', 'ram_allocation_ratio', fractions.Fraction(1, 3)),
    ('a text instead of a flag', 'service_disabled', 'no'),
)
def test_a_host_shows_what_is_not_of_the_kind_of_its_column(name, value):
    before = factories.hosts(1).state(0)
    hosts = with_value(name, value)
    first, second = hosts.states()
    assert getattr(second, name) is value
    assert getattr(hosts, name).dtype == object
    assert getattr(first, name) == getattr(before, name)
    assert type(getattr(first, name)) is type(getattr(before, name))


@cases(
    'name, value, shown',
    ('a number', 'free_ram_mb', 7, 7),
    ('a whole number', 'free_ram_mb', 7.0, 7),
    ('a number of numpy', 'free_ram_mb', np.int64(-7), -7),
    ('a flag', 'free_ram_mb', True, 1),
    ('a whole ratio', 'cpu_allocation_ratio', 2, 2.0),
    ('no ratio', 'cpu_allocation_ratio', None, None),
    ('a ratio that is none', 'cpu_allocation_ratio', NAN, None),
    ('no version', 'hypervisor_version', None, None),
    ('half a version', 'hypervisor_version', 7.5, 7.5),
    ('a flag for a flag', 'service_disabled', True, True),
)
def test_a_column_of_numbers_stays_one(name, value, shown):
    hosts = with_value(name, value)
    found = getattr(hosts.state(1), name)
    assert (found, type(found)) == (shown, type(shown))
    assert getattr(hosts, name).dtype == getattr(factories.hosts(1), name).dtype


def test_unknown_numbers_are_unknown_beside_an_object():
    hosts = factories.hosts(
        cpu_allocation_ratio=[NAN, 2.0], hypervisor_version=[NAN, 8002002]
    )
    first, second = hosts.states()
    third = hosts.state(1)
    third.cpu_allocation_ratio = third.hypervisor_version = 'x'
    first, second = hosts.keep([first, third]).states()
    assert (first.cpu_allocation_ratio, second.cpu_allocation_ratio) == (None, 'x')
    assert (first.hypervisor_version, second.hypervisor_version) == (None, 'x')


def test_whole_numbers_are_whole_beside_an_object():
    hosts = factories.hosts(2)
    host = hosts.state(1)
    host.hypervisor_version = 'x'
    first, _ = hosts.keep([hosts.state(0), host]).states()
    assert (first.hypervisor_version, type(first.hypervisor_version)) == (8002002, int)


def test_columns_are_shared_until_one_changes():
    snapshot = factories.hosts(2).snapshot
    apart = snapshot.for_new_request()
    assert Snapshot is Defined
    assert apart.shares_columns(snapshot)
    assert apart.plugin_attributes is not snapshot.plugin_attributes
    changed = snapshot.with_columns({'uuid': np.array(['a', 'b'], object)})
    assert not changed.shares_columns(snapshot)
    assert changed.plugin_attributes is snapshot.plugin_attributes
    assert len(changed) == 2


def test_materialized_value_is_rebuilt_for_another_value():
    snapshot = factories.hosts(1).snapshot
    one, other = (1, 2), (3,)
    shown = snapshot.materialized(0, 'name', one, list)
    assert snapshot.materialized(0, 'name', one, list) is shown
    assert snapshot.materialized(0, 'name', other, list) == [3]
    assert snapshot.shown_of(0) == {'name': [3]}
    assert snapshot.shown_of(1) == {}
