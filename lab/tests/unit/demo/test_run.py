# SPDX-License-Identifier: Apache-2.0
"""What the demo asks for, and what it takes for good."""

from __future__ import annotations

import dataclasses

import pytest

from novasched_lab.demo.run import DemoResult, orders


def row(name, status, fault=None):
    return {'name': name, 'status': status, 'fault': fault}


HUGE = row('huge', 'ERROR', 'No valid host was found. ')
REFUSED = row('app-1', 'ERROR', 'Exceeded maximum number of retries.')
GOOD = DemoResult(
    2, [row('web', 'ACTIVE'), HUGE], {'ACTIVE': 1, 'ERROR': 1}, hosts_agree=1
)


@pytest.mark.parametrize(
    ('hosts', 'expected'),
    [(1, [1, 1, 1]), (8, [4, 4, 1]), (200, [10, 100, 1])],
)
def test_the_orders_fit_the_hosts(hosts, expected):
    made = list(orders(hosts, None))
    assert [each.count for each in made] == expected
    assert made[-1].flavor.name == 'x1.huge'


@pytest.mark.parametrize(
    ('change', 'is_good'),
    [
        pytest.param({}, True, id='all is as it must be'),
        pytest.param({'hosts_agree': 0}, False, id='placement has it elsewhere'),
        pytest.param({'left_in_placement': 1}, False, id='something is left'),
        pytest.param(
            {'servers': [*GOOD.servers, REFUSED]}, True, id='one was refused everywhere'
        ),
        pytest.param(
            {'servers': [*GOOD.servers, row('app-1', 'ERROR')]},
            False,
            id='one has failed without a word',
        ),
        pytest.param(
            {'servers': [*GOOD.servers, row('app-1', 'BUILD')]},
            False,
            id='one is not built',
        ),
        pytest.param(
            {'servers': [row('web', 'ACTIVE'), row('huge', 'ACTIVE')]},
            False,
            id='the huge one fits',
        ),
    ],
)
def test_what_is_good(change, is_good):
    made = dataclasses.replace(GOOD, **change)
    assert made.is_good == is_good
    assert made.as_dict()['is_good'] == is_good
