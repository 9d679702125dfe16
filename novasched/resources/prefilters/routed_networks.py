# SPDX-License-Identifier: Apache-2.0
"""Networks of several segments, each of which some hosts reach."""

from __future__ import annotations

from collections.abc import Iterator

from novasched.objects.network import NetworkRequest
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import (
    Facts,
    Place,
    Reach,
    Requirements,
)

_NO_NETWORK = ('auto', 'none')


def routed_networks_filter(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Ask for hosts that reach a segment of each requested network.

    A port with an address is bound to the segment of its first one. Entries with
    neither port nor network ask for nothing. Raises what asking for ports raises.
    """
    asked = list(_places(request, facts))
    if not asked:
        return None
    reach = facts.reach([place for _, place in asked])
    for _, place in asked:
        if reach[place] is None:
            problem = f'Aggregates not found for the {place.kind} {place.id}'
            return Requirements(refused=problem)
    return _restricted(asked, reach)


def _places(
    request: RequestSpec, facts: Facts
) -> Iterator[tuple[NetworkRequest, Place]]:
    """Yield the entries that restrict, each with where it must be reached."""
    for network in request.requested_networks:
        if network.port_id:
            port = facts.ports()[network.port_id]
            if port.subnet_id:
                yield network, Place('subnet', port.subnet_id)
            elif port.network_id:
                yield network, Place('network', port.network_id)
        elif network.network_id and network.network_id not in _NO_NETWORK:
            yield network, Place('network', network.network_id)


def _restricted(
    asked: list[tuple[NetworkRequest, Place]], reach: Reach
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
