# SPDX-License-Identifier: Apache-2.0
"""Columns that are never changed, and what plugins set on hosts besides."""

from __future__ import annotations

import fractions

import numpy as np
import pytest

from novasched.scheduler.hosts import Snapshot
from novasched.scheduler.snapshot import Snapshot as Defined
from tests import factories

NAN = float('nan')


def with_value(name, value):
    """Return hosts of which the second was given a value by a plugin."""
    hosts = factories.hosts(2)
    host = hosts.state(1)
    setattr(host, name, value)
    return hosts.keep([hosts.state(0), host])


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        pytest.param('free_ram_mb', 8190.5, id='a fraction of a MiB'),
        pytest.param('free_ram_mb', None, id='None instead of a number'),
        pytest.param('num_instances', 2**70, id='more than 64 bits'),
        pytest.param('num_instances', '16', id='a text instead of a number'),
        pytest.param('num_io_ops', [1, 2], id='a list instead of a number'),
        pytest.param('vcpus_used', NAN, id='not a number'),
        pytest.param('cpu_allocation_ratio', '16.0', id='a text for a ratio'),
        pytest.param('cpu_allocation_ratio', 10**400, id='more than a float holds'),
        pytest.param('ram_allocation_ratio', fractions.Fraction(1, 3), id='a third'),
        pytest.param('service_disabled', 'no', id='a text instead of a flag'),
    ],
)
def test_a_host_shows_what_is_not_of_the_kind_of_its_column(name, value):
    before = factories.hosts(1).state(0)
    hosts = with_value(name, value)
    first, second = hosts.states()
    assert getattr(second, name) is value
    assert getattr(hosts, name).dtype == object
    assert getattr(first, name) == getattr(before, name)
    assert type(getattr(first, name)) is type(getattr(before, name))


@pytest.mark.parametrize(
    ('name', 'value', 'shown'),
    [
        pytest.param('free_ram_mb', 7, 7, id='a number'),
        pytest.param('free_ram_mb', 7.0, 7, id='a whole number'),
        pytest.param('free_ram_mb', np.int64(-7), -7, id='a number of numpy'),
        pytest.param('free_ram_mb', True, 1, id='a flag'),
        pytest.param('cpu_allocation_ratio', 2, 2.0, id='a whole ratio'),
        pytest.param('cpu_allocation_ratio', None, None, id='no ratio'),
        pytest.param('cpu_allocation_ratio', NAN, None, id='a ratio that is none'),
        pytest.param('hypervisor_version', None, None, id='no version'),
        pytest.param('hypervisor_version', 7.5, 7.5, id='half a version'),
        pytest.param('service_disabled', True, True, id='a flag for a flag'),
    ],
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
    apart = snapshot.apart()
    assert Snapshot is Defined
    assert apart.shares_columns(snapshot)
    assert apart.own is not snapshot.own
    changed = snapshot.with_columns({'uuid': np.array(['a', 'b'], object)})
    assert not changed.shares_columns(snapshot)
    assert changed.own is snapshot.own
    assert len(changed) == 2


def test_what_a_host_shows_is_made_anew_when_the_value_is_another():
    snapshot = factories.hosts(1).snapshot
    one, other = (1, 2), (3,)
    shown = snapshot.shown(0, 'name', one, list)
    assert snapshot.shown(0, 'name', one, list) is shown
    assert snapshot.shown(0, 'name', other, list) == [3]
    assert snapshot.shown_of(0) == {'name': [3]}
    assert snapshot.shown_of(1) == {}
