# SPDX-License-Identifier: Apache-2.0
"""Whether chosen nodes are near the networks that a guest asks for."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.networks import elsewhere, sight
from novasched.scheduler.fit.topology import Networks
from tests import topologies

A, B, AB = frozenset('a'), frozenset('b'), frozenset('ab')
TUNNEL = Networks(tunneled=True)


@pytest.mark.parametrize(('near', 'far', 'asked', 'missed'), [
    pytest.param(Networks(A), None, Networks(A), '', id='on the chosen node'),
    pytest.param(
        None, Networks(A), Networks(A), 'physical network a', id='on another node'
    ),
    pytest.param(None, Networks(B), Networks(A), '', id='on no node'),
    pytest.param(Networks(A), Networks(A), Networks(A), '', id='on both'),
    pytest.param(
        Networks(A), Networks(B), Networks(AB), 'physical network b', id='one of two'
    ),
    pytest.param(
        None, Networks(AB, True), Networks(AB, True),
        'physical network a and physical network b and tunnelled networks',
        id='everything elsewhere',
    ),
    pytest.param(TUNNEL, None, TUNNEL, '', id='a tunnel on the chosen node'),
    pytest.param(None, TUNNEL, TUNNEL, 'tunnelled networks', id='a tunnel elsewhere'),
    pytest.param(TUNNEL, TUNNEL, TUNNEL, '', id='tunnels on both'),
    pytest.param(None, None, TUNNEL, '', id='tunnels on no node'),
    pytest.param(None, TUNNEL, Networks(), '', id='nothing asked for'),
])  # fmt: skip
def test_what_only_other_nodes_are_near_to(near, far, asked, missed):
    cells = [
        topologies.host_cell(id=0, network_metadata=near),
        topologies.host_cell(id=8, network_metadata=far),
    ]
    assert elsewhere(cells, {0}, asked) == missed


def test_only_what_is_asked_for_is_seen():
    cell = topologies.host_cell(network_metadata=Networks(AB, True))
    assert sight(cell, Networks(A)) == Networks(A, False)
    assert sight(cell, TUNNEL) == TUNNEL
