# SPDX-License-Identifier: Apache-2.0
"""Prefilters by network."""

import pytest

from novasched import errors
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched.resources.prefilters import (
    remote_managed_ports_filter,
    routed_networks_filter,
)
from novasched.resources.requirements import (
    NetworkOrSubnet,
    Port,
    PrefilterContext,
    Requirements,
)
from tests.support.clouds import factories
from tests.support.tables.cases import cases

P1, P2, N1, N2, S1 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(5))
NETWORK = NetworkOrSubnet('network', N1)
OTHER = NetworkOrSubnet('network', N2)
SUBNET = NetworkOrSubnet('subnet', S1)
REACH = {
    NETWORK: frozenset({'A2', 'A1'}),
    OTHER: frozenset(),
    SUBNET: frozenset({'A3'}),
}


def request(*networks):
    asked = [NetworkRequest(**each) for each in networks]
    return factories.request(requested_networks=NetworkRequestList(objects=asked))


def added(asked, ports=None, reach=REACH):
    def reach_of(places):
        return {place: reach[place] for place in places}

    facts = PrefilterContext(ports=lambda: ports or {}, reach=reach_of)
    return routed_networks_filter(asked, facts)


@cases(
    'asked',
    ('an unset list', factories.request()),
    ('an empty list', request()),
    ('neither port nor network', request({}, {'network_id': None})),
    ('no network yet', request({'network_id': 'auto'}, {'network_id': 'none'})),
)
def test_nothing_to_reach(asked):
    assert added(asked, reach={}) is None


def test_a_network_is_reached_by_any_of_its_segments():
    assert added(request({'network_id': N1})) == Requirements(
        member_of=(frozenset({'A1', 'A2'}),),
        notes=(
            'routed_networks_filter request filter added the following aggregates for '
            f'network ID {N1}: A1, A2',
        ),
    )


def test_every_entry_counts_and_one_without_does_not():
    asked = request({'network_id': N1}, {}, {'network_id': N2}, {'network_id': N1})
    assert added(asked).member_of == (REACH[NETWORK],) * 2


def test_a_network_without_segments_restricts_nothing():
    assert not added(request({'network_id': N2})).adds


@cases(
    'port, place',
    ('an address: its subnet', Port('normal', N1, S1), SUBNET),
    ('none yet: the network', Port('normal', N1, None), NETWORK),
    ('nothing is known of it', Port('normal', None, None), None),
)
def test_ports(port, place):
    found = added(request({'port_id': P1, 'network_id': N2}), {P1: port})
    assert (found and found.member_of) == (place and (REACH[place],))


@pytest.mark.parametrize(
    ('entry', 'place', 'text'),
    [
        ({'network_id': N1}, NETWORK, f'the network {N1}'),
        ({'port_id': P1}, SUBNET, f'the subnet {S1}'),
    ],
)
def test_network_without_known_aggregates_refuses_the_request(entry, place, text):
    ports = {P1: Port('normal', N1, S1)}
    found = added(request({'network_id': N2}, entry), ports, {**REACH, place: None})
    assert found == Requirements(refused=f'Aggregates not found for {text}')


NORMAL, REMOTE = Port('normal', N1, None), Port('remote-managed', N1, None)


def never():
    raise AssertionError


@cases(
    'asked',
    ('an unset list', factories.request()),
    ('an empty list', request()),
    ('no port', request({'network_id': N1}, {})),
)
def test_network_service_is_not_queried_without_ports(asked):
    assert remote_managed_ports_filter(asked, PrefilterContext(ports=never)) is None


@cases(
    'ports, found',
    ('none', (NORMAL, NORMAL), False),
    ('one of two', (NORMAL, REMOTE), True),
)
def test_remote_managed_ports(ports, found):
    facts = PrefilterContext(ports=lambda: dict(zip((P1, P2), ports, strict=True)))
    asked = request({'network_id': N1}, {'port_id': P1}, {'port_id': P2})
    trait = 'COMPUTE_REMOTE_MANAGED_PORTS'
    note = f'remote_managed_ports_filter request filter added trait {trait}'
    expected = Requirements(root_required=frozenset({trait}), notes=(note,))
    assert remote_managed_ports_filter(asked, facts) == (expected if found else None)


def test_a_port_that_cannot_be_looked_up_ends_the_request():
    def fail():
        raise errors.PortNotFound(P1)

    with pytest.raises(errors.PortNotFound):
        remote_managed_ports_filter(
            request({'port_id': P1}), PrefilterContext(ports=fail)
        )
