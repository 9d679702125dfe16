# SPDX-License-Identifier: Apache-2.0
"""Requests that cannot be placed: the exact texts, and nothing claimed."""

import pytest

from tests.live.peer import PeerError
from tests.support.tables.cases import cases

PREFIX = 'No valid host was found. '
NOT_ENOUGH = 'There are not enough hosts available.'


@cases(
    'request_, reason',
    ('no provider is large enough', {'flavor': {'vcpus': 41}}, ''),
    (
        'only hosts that are disabled or down are large enough',
        {'flavor': {'vcpus': 33}},
        NOT_ENOUGH,
    ),
    (
        'no provider has the trait',
        {'flavor': {'extra_specs': {'trait:HW_CPU_X86_SGX': 'required'}}},
        '',
    ),
    (
        'every host is filtered out',
        {'image': {'hw_architecture': 'aarch64'}},
        NOT_ENOUGH,
    ),
    (
        'every host is ignored',
        {'ignore_hosts': [f'node-{number}' for number in range(1, 7)]},
        NOT_ENOUGH,
    ),
    (
        'the forced host is unknown',
        {'force_hosts': ['nosuch']},
        'No such host - host: nosuch node: None ',
    ),
    (
        'the forced node is unknown',
        {'force_nodes': ['nosuch.example.org']},
        'No such host - host: None node: nosuch.example.org ',
    ),
    (
        'the requested host is unknown',
        {'destination': {'host': 'nosuch'}},
        'No such host - host: nosuch node: None ',
    ),
    (
        'the requested node is not of the requested host',
        {'destination': {'host': 'node-1', 'node': 'nosuch.example.org'}},
        'No such host - host: node-1 node: nosuch.example.org ',
    ),
    (
        'the requested host is disabled',
        {'destination': {'host': 'node-disabled'}},
        NOT_ENOUGH,
    ),
    ('the requested host is down', {'destination': {'host': 'node-down'}}, NOT_ENOUGH),
    (
        'the requested host is in another zone',
        {'destination': {'host': 'node-3'}, 'zone': 'az1'},
        '',
    ),
    (
        'the forced host is too small',
        {'force_hosts': ['node-6'], 'flavor': {'vcpus': 13}},
        '',
    ),
)
def test_no_valid_host(scheduler, request_, reason):
    with pytest.raises(PeerError) as raised:
        scheduler.select(**request_)
    assert (raised.value.name, raised.value.module) == ('NoValidHost', 'nova.exception')
    assert raised.value.text == PREFIX + reason
    assert raised.value.kwargs == {'reason': reason, 'code': 500}
