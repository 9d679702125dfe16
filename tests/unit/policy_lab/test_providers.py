# SPDX-License-Identifier: Apache-2.0
"""Recorded providers as a table."""

import numpy as np

from novasched.policy_lab.cloud import plain_cloud
from novasched.policy_lab.providers import of_rows, table_of
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.columns import Categories
from novasched.scheduler.hosts import HostTable
from tests.support.clouds.traces import HOSTS

LIMITS = {'capacity': 8, 'min_unit': 1, 'max_unit': 4, 'step_size': 1, 'used': 3}


def provider(parent=None, classes=(), traits=(), aggregates=()):
    inventories = dict.fromkeys(classes, LIMITS)
    return {
        'parent': parent,
        'inventories': inventories,
        'traits': traits,
        'aggregates': aggregates,
    }


def test_trees_and_what_providers_have_come_back():
    table = table_of(
        {
            'cell': provider('host', ['MEMORY_MB']),
            'host': provider(None, ['VCPU'], ['HW_CPU'], ['rack']),
            'lost': provider('unknown'),
        }
    )
    assert table.uuids == ['host', 'cell', 'lost']
    assert table.roots.tolist() == [0, 0, 2]
    assert table.inventories['MEMORY_MB'].rows.tolist() == [1]
    assert table.used(0, 'VCPU') == 3
    assert table.inventories['VCPU'].most_in_sum.tolist() == [4]
    assert table.having_all(['HW_CPU']).tolist() == [True, False, False]
    assert table.in_any(['rack']).tolist() == [True, False, False]


def test_order_of_hosts_stays():
    names = [f'h{number}' for number in range(30)]
    assert table_of({name: provider() for name in names}).uuids == names


def test_rows_of_hosts_have_their_aggregates():
    groups = [(Aggregate(1, 'rack', 'rack'), Aggregate(2, None, 'old')), ()]
    hosts = HostTable(plain_cloud(HOSTS).snapshot()).with_columns(
        aggregates=Categories(groups, np.array([0, 1, 1, 0, 1], np.intp))
    )
    table = table_of(of_rows(hosts))
    assert table.in_any(['rack']).tolist() == [True, False, False, True, False]
