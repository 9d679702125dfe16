# SPDX-License-Identifier: Apache-2.0
"""Columns with other values in some rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from novasched.cluster import assumed
from novasched.scheduler.columns import Instances, Lazy, column_identity
from novasched.scheduler.hosts import Categories, Snapshot
from tests.support.clouds import factories
from tests.support.tables.cases import cases


@cases(
    'values, expected',
    ('numbers', [7, 9], [7, 2, 9]),
    ('one that no column holds', [7, 2**70], [7, 2, 2**70]),
)
def test_numbers(values, expected):
    given = np.array([1, 2, 3])
    hosts = Snapshot({'free_ram_mb': given})
    changed = hosts.replace({'free_ram_mb': values}, np.array([0, 2]))
    changed = changed.column('free_ram_mb')
    assert changed.tolist() == expected
    assert given.tolist() == [1, 2, 3]


def test_shapes():
    given = Categories(['a', 'b'], np.array([0, 1, 1]))
    hosts = Snapshot({'pci_stats': given})
    changed = hosts.replace({'pci_stats': ['c']}, np.array([1])).column('pci_stats')
    assert changed.tolist() == ['a', 'c', 'b']
    assert given.tolist() == ['a', 'b', 'b']


def test_column_identity_is_the_array_of_its_values_or_codes():
    codes = np.array([0])
    assert column_identity(codes) is codes
    assert column_identity(Categories(['a'], codes)) is codes


@pytest.mark.parametrize('changed_before', [False, True])
def test_members_are_added_once_the_instances_are_read(changed_before):
    hosts = factories.hosts(instances=[{'x': 1}, {}, {}])
    column = hosts.snapshot.column('instances')
    column[2] = None  # a host that the request does not look at
    reads = []

    def read():
        reads.append(1)
        return Instances(column) if changed_before else column

    hosts = hosts.with_columns(instances=Lazy(read))
    members = {
        place: [SimpleNamespace(uuid=uuid, host=f'h{place}') for uuid in uuids]
        for place, uuids in ((0, 'ab'), (2, 'c'))
    }
    seen = assumed.with_members(hosts, members)
    assert reads == []
    assert sorted(seen.state(0).instances) == ['a', 'b', 'x']
    assert seen.state(0).instances['x'] == 1
    assert (seen.state(1).instances, seen.state(2).instances) == ({}, None)
    assert column[0] == {'x': 1}


def test_without_members_hosts_stay_as_they_are():
    hosts = factories.hosts()
    assert assumed.with_members(hosts, {}) is hosts
