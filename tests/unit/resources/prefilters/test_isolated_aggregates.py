# SPDX-License-Identifier: Apache-2.0
"""Which aggregates a request must keep out of."""

from __future__ import annotations

import pytest

from novasched.resources.prefilters.isolated_aggregates import isolate_aggregates
from novasched.resources.prefilters.requirements import Facts
from novasched.scheduler.aggregates import Aggregate
from tests import factories

METADATA = (
    {'trait:CUSTOM_A': 'required'},
    {'trait:CUSTOM_A': 'required', 'trait:CUSTOM_B': 'required'},
    {'trait:CUSTOM_C': 'forbidden', 'CUSTOM_D': 'required'},
)


def never():
    raise AssertionError


def facts(metadata, required):
    aggregates = [
        Aggregate(n, f'A{n}', 'name', metadata=one) for n, one in enumerate(metadata, 1)
    ]
    return Facts(tuple(aggregates), required_traits=required)


@pytest.mark.parametrize(
    ('required', 'left_out'),
    [
        pytest.param('', {'A1', 'A2'}, id='no trait'),
        pytest.param('A', {'A2'}, id='one of two traits is not enough'),
        pytest.param('AB', set(), id='all traits'),
        pytest.param('CD', {'A1', 'A2'}, id='traits that nobody keeps hosts for'),
    ],
)
def test_isolated_aggregates(required, left_out):
    traits = frozenset(f'CUSTOM_{letter}' for letter in required)
    added = isolate_aggregates(factories.request(), facts(METADATA, lambda: traits))
    assert added.not_member_of == left_out


def test_without_isolated_aggregates_nobody_asks_for_the_traits():
    assert isolate_aggregates(factories.request(), facts(METADATA[2:], never)) is None
