# SPDX-License-Identifier: Apache-2.0
"""Requests that cannot be placed: the exact texts, and nothing claimed."""

from __future__ import annotations

import pytest

from tests.live.peer import PeerError

PREFIX = 'No valid host was found. '
NOT_ENOUGH = 'There are not enough hosts available.'


@pytest.mark.parametrize(
    ('request_', 'reason'),
    [
        pytest.param({'flavor': {'vcpus': 41}}, '', id='no provider is large enough'),
        pytest.param(
            {'flavor': {'vcpus': 33}},
            NOT_ENOUGH,
            id='only hosts that are disabled or down are large enough',
        ),
        pytest.param(
            {'flavor': {'extra_specs': {'trait:HW_CPU_X86_SGX': 'required'}}},
            '',
            id='no provider has the trait',
        ),
        pytest.param(
            {'image': {'hw_architecture': 'aarch64'}},
            NOT_ENOUGH,
            id='every host is filtered out',
        ),
        pytest.param(
            {'ignore_hosts': [f'node-{number}' for number in range(1, 7)]},
            NOT_ENOUGH,
            id='every host is ignored',
        ),
        pytest.param(
            {'force_hosts': ['nosuch']},
            'No such host - host: nosuch node: None ',
            id='the forced host is unknown',
        ),
        pytest.param(
            {'force_nodes': ['nosuch.example.org']},
            'No such host - host: None node: nosuch.example.org ',
            id='the forced node is unknown',
        ),
        pytest.param(
            {'destination': {'host': 'nosuch'}},
            'No such host - host: nosuch node: None ',
            id='the requested host is unknown',
        ),
        pytest.param(
            {'destination': {'host': 'node-1', 'node': 'nosuch.example.org'}},
            'No such host - host: node-1 node: nosuch.example.org ',
            id='the requested node is not of the requested host',
        ),
        pytest.param(
            {'destination': {'host': 'node-disabled'}},
            NOT_ENOUGH,
            id='the requested host is disabled',
        ),
        pytest.param(
            {'destination': {'host': 'node-down'}},
            NOT_ENOUGH,
            id='the requested host is down',
        ),
        pytest.param(
            {'destination': {'host': 'node-3'}, 'zone': 'az1'},
            '',
            id='the requested host is in another zone',
        ),
        pytest.param(
            {'force_hosts': ['node-6'], 'flavor': {'vcpus': 13}},
            '',
            id='the forced host is too small',
        ),
    ],
)
def test_no_valid_host(scheduler, request_, reason):
    with pytest.raises(PeerError) as raised:
        scheduler.select(**request_)
    assert (raised.value.name, raised.value.module) == ('NoValidHost', 'nova.exception')
    assert raised.value.text == PREFIX + reason
    assert raised.value.kwargs == {'reason': reason, 'code': 500}
