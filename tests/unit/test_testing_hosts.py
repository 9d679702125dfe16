# SPDX-License-Identifier: Apache-2.0
"""Tables of hosts for the tests of plugins."""

import pytest

from novasched import testing
from tests.support.tables.cases import cases


def test_hosts_differ_in_what_is_given():
    made = testing.hosts(free_ram_mb=[1, 2], host_ip=['a', 'b'])
    assert made.host.tolist() == ['h1', 'h2']
    assert made.nodename.tolist() == ['h1', 'h2']
    assert made.free_ram_mb.tolist() == [1, 2]
    assert made.num_instances.tolist() == [0, 0]


def test_hosts_share_no_dict():
    first, second = testing.hosts(2).states()
    first.limits['vcpu'] = 1
    assert second.limits == {}


@cases(
    'columns, error, said',
    (
        'columns that hosts do not have',
        {'free_ram': [1], 'x': [1]},
        TypeError,
        'no columns free_ram, x',
    ),
    (
        'another number of values',
        {'count': 2, 'free_ram_mb': [1]},
        ValueError,
        'not 2 values: free_ram_mb',
    ),
)
def test_mistakes_are_named(columns, error, said):
    with pytest.raises(error, match=said):
        testing.hosts(**columns)
