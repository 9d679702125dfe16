# SPDX-License-Identifier: Apache-2.0
"""Tables of hosts, and views of one host."""

import numpy as np
import pytest

from novasched.scheduler.hosts import Lazy, Snapshot
from tests.support.clouds import factories


def test_a_table_is_rows_in_an_order():
    hosts = factories.hosts(free_ram_mb=[1, 2, 3])
    some = hosts[np.array([2, 0])]
    assert len(some) == 2
    assert some.host.tolist() == ['h3', 'h1']
    assert some.free_ram_mb.tolist() == [3, 1]
    assert some[np.array([False, True])].host.tolist() == ['h1']


def test_a_host_has_the_columns_as_python_values():
    hosts = factories.hosts(
        free_ram_mb=[5],
        hypervisor_version=[8002002],
        cpu_allocation_ratio=[4.0],
        aggregates=[(factories.aggregate(1, ssd='true'),)],
    )
    host = hosts.state(0)
    assert (host.host, host.free_ram_mb) == ('h1', 5)
    assert type(host.free_ram_mb) is int
    assert type(host.hypervisor_version) is int
    assert host.cpu_allocation_ratio == 4.0
    assert host.aggregates[0].metadata == {'ssd': 'true'}


def test_unknown_numbers_are_none_on_a_host():
    nan = float('nan')
    host = factories.hosts(hypervisor_version=[nan], cpu_allocation_ratio=[nan]).state(
        0
    )
    assert host.hypervisor_version is None
    assert host.cpu_allocation_ratio is None


def test_the_text_form_is_novas():
    host = factories.hosts(
        host=['h1'],
        nodename=['n1'],
        free_ram_mb=[4],
        free_disk_mb=[5],
        num_io_ops=[6],
        num_instances=[7],
        allocation_candidates=[[{}, {}]],
    ).state(0)
    assert repr(host) == (
        '(h1, n1) ram: 4MB disk: 5MB io_ops: 6 instances: 7, allocation_candidates: 2'
    )


def test_keep_returns_the_hosts_with_what_was_set_on_them():
    nan = float('nan')
    hosts = factories.hosts(
        cpu_allocation_ratio=[nan, 1.0, 2.0], hypervisor_type=['a', 'a', 'b']
    )
    first, _, third = hosts.states()
    third.cpu_allocation_ratio = 16.0
    third.limits = {'vcpu': 16}
    first.hypervisor_type = 'c'
    kept = hosts.keep(iter([third, first]))
    assert kept.host.tolist() == ['h3', 'h1']
    assert kept.hypervisor_type.tolist() == ['b', 'c']
    assert [host.cpu_allocation_ratio for host in kept.states()] == [16.0, None]
    assert kept.limits.tolist() == [{'vcpu': 16}, {}]
    assert hosts.hypervisor_type.tolist() == ['a', 'a', 'b']


def test_keep_without_changes_shares_the_snapshot():
    hosts = factories.hosts(2)
    assert hosts.keep(hosts.states()).snapshot is hosts.snapshot
    assert len(hosts.keep([])) == 0


def test_replace_changes_one_row_in_a_new_table():
    hosts = factories.hosts(free_ram_mb=[1, 2], hypervisor_type=['a', 'a'])
    changed = hosts.replace(1, free_ram_mb=7, hypervisor_type='b')
    assert changed.free_ram_mb.tolist() == [1, 7]
    assert changed.hypervisor_type.tolist() == ['a', 'b']
    assert hosts.free_ram_mb.tolist() == [1, 2]
    assert changed.snapshot.column('host') is hosts.snapshot.column('host')


@pytest.mark.parametrize('column', [np.array(['h1'], object), Lazy(lambda: ['h1'])])
def test_every_column_can_be_had_as_a_lazy_one(column):
    snapshot = Snapshot({'host': np.array(['h1'], object), 'name': column})
    assert list(snapshot.lazy('name').column()) == ['h1']
