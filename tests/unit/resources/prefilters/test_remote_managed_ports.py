# SPDX-License-Identifier: Apache-2.0
"""Ports whose other end is in a smart network card."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched.resources.prefilters.remote_managed_ports import (
    remote_managed_ports_filter,
)
from novasched.resources.prefilters.requirements import Facts, Port, Requirements
from tests import factories

P1, P2, N1 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(3))
NORMAL, REMOTE = Port('normal', N1, None), Port('remote-managed', N1, None)


def request(*networks):
    asked = [NetworkRequest(**each) for each in networks]
    return factories.request(requested_networks=NetworkRequestList(objects=asked))


def never():
    raise AssertionError


@pytest.mark.parametrize(
    'asked',
    [
        pytest.param(factories.request(), id='an unset list'),
        pytest.param(request(), id='an empty list'),
        pytest.param(request({'network_id': N1}, {}), id='no port'),
    ],
)
def test_nobody_is_asked_without_ports(asked):
    assert remote_managed_ports_filter(asked, Facts(ports=never)) is None


@pytest.mark.parametrize(
    ('ports', 'found'),
    [
        pytest.param((NORMAL, NORMAL), False, id='none'),
        pytest.param((NORMAL, REMOTE), True, id='one of two'),
    ],
)
def test_remote_managed_ports(ports, found):
    facts = Facts(ports=lambda: dict(zip((P1, P2), ports, strict=True)))
    asked = request({'network_id': N1}, {'port_id': P1}, {'port_id': P2})
    trait = 'COMPUTE_REMOTE_MANAGED_PORTS'
    note = f'remote_managed_ports_filter request filter added trait {trait}'
    expected = Requirements(root_required=frozenset({trait}), notes=(note,))
    assert remote_managed_ports_filter(asked, facts) == (expected if found else None)


def test_a_port_that_cannot_be_looked_up_ends_the_request():
    def fail():
        raise errors.PortNotFound(P1)

    with pytest.raises(errors.PortNotFound):
        remote_managed_ports_filter(request({'port_id': P1}), Facts(ports=fail))
