# SPDX-License-Identifier: Apache-2.0
"""Which nodes are all the same to requests for devices."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.device_requests import DeviceRequest
from novasched.scheduler.fit.pools import Pool
from novasched.scheduler.fit.serving import Serving
from novasched.scheduler.fit.sight import sight

FOUR_SOCKETS = {0: 0, 1: 1, 2: 2, 3: 3}
TWO_SOCKETS = {0: 0, 1: 0, 2: 1, 3: 1}
A, B = (frozenset({('name', 'a')}),), (frozenset({('name', 'b')}),)
A_OR_B = (*A, *B)


def pool(name, node, count=1, rp_uuid=None):
    return Pool(frozenset({('name', name)}), node, count, rp_uuid)


def asked(alternatives=A, count=1, policy='legacy'):
    return DeviceRequest(count, alternatives, 'a', 'R', policy)


@pytest.mark.parametrize(('pools', 'requests', 'sockets', 'alike'), [
    pytest.param([], [asked()], FOUR_SOCKETS, [0, 1, 2, 3], id='no devices'),
    pytest.param(
        [pool('a', 1), pool('b', 2), pool('a', 3, 9)], [asked()], FOUR_SOCKETS,
        [1, 3], id='more devices than are asked for',
    ),
    pytest.param(
        [pool('a', 1), pool('a', 3, 2)], [asked(count=2)], FOUR_SOCKETS,
        [1], id='fewer than are asked for',
    ),
    pytest.param(
        [pool('a', 1), pool('b', 1), pool('a', 3), pool('b', 2)], [asked(), asked(B)],
        FOUR_SOCKETS, [1], id='requests that do not meet',
    ),
    pytest.param(
        [pool('a', 1), pool('a', 3, 2), pool('a', 2, 3)], [asked(), asked()],
        FOUR_SOCKETS, [2, 3], id='requests for the same: the sum counts',
    ),
    pytest.param(
        [pool('a', 1), pool('a', 3), pool('a', None)], [asked(), asked()],
        FOUR_SOCKETS, [0, 2], id='requests for the same, and devices near to no node',
    ),
    pytest.param(
        [pool('a', 1), pool('a', 3), pool('a', None)],
        [asked(policy='required'), asked(policy='required')],
        FOUR_SOCKETS, [1, 3], id='devices near to no node are not admitted',
    ),
    pytest.param(
        [pool('a', 1), pool('b', 3), pool('a', 2)], [asked(), asked(A_OR_B), asked(B)],
        FOUR_SOCKETS, [1], id='requests that may take from each other',
    ),
    pytest.param(
        [pool('a', 1), pool('a', 2), pool('b', 3)], [asked(), asked(A_OR_B), asked(B)],
        FOUR_SOCKETS, [1, 2], id='and never have to tell devices apart',
    ),
    pytest.param(
        [pool('a', 1)], [asked(policy='socket')], FOUR_SOCKETS, [0, 2, 3],
        id='sockets with one node each',
    ),
    pytest.param(
        [pool('a', 1)], [asked(policy='socket')], TWO_SOCKETS, [2, 3],
        id='a socket with devices on another node',
    ),
])  # fmt: skip
def test_nodes_that_look_alike(pools, requests, sockets, alike):
    seen = sight([Serving(each, {}, pools) for each in requests], sockets)
    found = [node for node in seen if seen[node] == seen[alike[0]]]
    assert found == alike


def test_a_request_that_stays_near_does_not_see_what_it_may_not_use():
    pools = [pool('a', 1), pool('a', 2, rp_uuid='P')]
    seen = sight([Serving(asked(), {'P': 1}, pools)], FOUR_SOCKETS)
    assert seen[0] == seen[1] != seen[2]


def test_requests_for_several_providers_are_not_alike():
    pools = [pool('a', 1, rp_uuid='P'), pool('a', 2, rp_uuid='Q')]
    each = {'P': 1, 'Q': 1}
    servings = [Serving(asked(), each, pools), Serving(asked(), each, pools)]
    seen = sight(servings, FOUR_SOCKETS)
    assert seen[1] != seen[2]
