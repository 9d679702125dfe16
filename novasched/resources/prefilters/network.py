# SPDX-License-Identifier: Apache-2.0
"""Prefilters by network: routed networks and remote-managed ports."""

from __future__ import annotations

from collections.abc import Iterator

import os_traits  # type: ignore[import-untyped]

from novasched.objects.network import NetworkRequest
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters import traits
from novasched.resources.requirements import (
    NetworkOrSubnet,
    PrefilterContext,
    Reach,
    Requirements,
)

_NO_NETWORK = ('auto', 'none')


def routed_networks_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for hosts that reach a segment of each requested network.

    A port with an address is bound to the segment of its first one. Entries with
    neither port nor network ask for nothing. Raises what asking for ports raises.
    """
    asked = list(_places(request, context))
    if not asked:
        return None
    reach = context.reach([place for _, place in asked])
    for _, place in asked:
        if reach[place] is None:
            problem = f'Aggregates not found for the {place.kind} {place.id}'
            return Requirements(refused=problem)
    return _restricted(asked, reach)


def _places(
    request: RequestSpec, context: PrefilterContext
) -> Iterator[tuple[NetworkRequest, NetworkOrSubnet]]:
    """Yield the entries that restrict, each with the network or subnet to reach."""
    for network in request.requested_networks:
        if network.port_id:
            port = context.ports()[network.port_id]
            if port.subnet_id:
                yield network, NetworkOrSubnet('subnet', port.subnet_id)
            elif port.network_id:
                yield network, NetworkOrSubnet('network', port.network_id)
        elif network.network_id and network.network_id not in _NO_NETWORK:
            yield network, NetworkOrSubnet('network', network.network_id)


def _restricted(
    asked: list[tuple[NetworkRequest, NetworkOrSubnet]], reach: Reach
) -> Requirements:
    member_of, notes = [], []
    for network, place in asked:
        uuids = reach[place]
        if uuids:
            member_of.append(uuids)
            named = network.network_id if place.kind == 'network' else None
            notes.append(
                'routed_networks_filter request filter added the following aggregates '
                f'for network ID {named}: {", ".join(sorted(uuids))}'
            )
    return Requirements(member_of=tuple(member_of), notes=tuple(notes))


def remote_managed_ports_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes that can plug remote-managed ports, if there is one.

    Raises what asking for the ports raises.
    """
    if not any(network.port_id for network in request.requested_networks):
        return None
    if not any(port.vnic_type == 'remote-managed' for port in context.ports().values()):
        return None
    return traits.required(
        'remote_managed_ports_filter',
        [os_traits.COMPUTE_REMOTE_MANAGED_PORTS],
        'request filter added trait',
    )
