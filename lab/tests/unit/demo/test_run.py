# SPDX-License-Identifier: Apache-2.0
"""What the demo asks for, and what it takes for good."""

import dataclasses

import pytest

from novasched_lab.demo.run import DemoResult, orders
from tests.support.tables.cases import cases


def row(name, status, fault=None):
    return {'name': name, 'status': status, 'fault': fault}


HUGE = row('huge', 'ERROR', 'No valid host was found. ')
REFUSED = row('app-1', 'ERROR', 'Exceeded maximum number of retries.')
GOOD = DemoResult(
    2, [row('web', 'ACTIVE'), HUGE], {'ACTIVE': 1, 'ERROR': 1}, hosts_agree=1
)


@pytest.mark.parametrize(
    ('hosts', 'expected'), [(1, [1, 1, 1]), (8, [4, 4, 1]), (200, [10, 100, 1])]
)
def test_the_orders_fit_the_hosts(hosts, expected):
    made = list(orders(hosts, None))
    assert [each.count for each in made] == expected
    assert [each.flavor.name for each in made] == ['m1.small', 'm1.medium', 'x1.huge']


@cases(
    'change, is_good',
    ('all is as it must be', {}, True),
    ('placement has it elsewhere', {'hosts_agree': 0}, False),
    ('something is left', {'left_in_placement': 1}, False),
    ('one was refused everywhere', {'servers': [*GOOD.servers, REFUSED]}, True),
    (
        'one has failed without a word',
        {'servers': [*GOOD.servers, row('app-1', 'ERROR')]},
        False,
    ),
    ('one is not built', {'servers': [*GOOD.servers, row('app-1', 'BUILD')]}, False),
    (
        'the huge one fits',
        {'servers': [row('web', 'ACTIVE'), row('huge', 'ACTIVE')]},
        False,
    ),
)
def test_demo_is_good_if_all_servers_agree_and_nothing_is_left(change, is_good):
    made = dataclasses.replace(GOOD, **change)
    assert made.is_good == is_good
    assert made.as_dict()['is_good'] == is_good
