# SPDX-License-Identifier: Apache-2.0
"""Prefilters by aggregate: tenants, zones, isolated aggregates, routed networks."""

from __future__ import annotations

from collections.abc import Iterator

from novasched.objects.network import NetworkRequest
from novasched.objects.request_spec import RequestSpec
from novasched.resources.requirements import (
    NetworkOrSubnet,
    PrefilterContext,
    Reach,
    Requirements,
)
from novasched.scheduler.aggregates import Aggregate

_TENANT_PREFIX = 'filter_tenant_id'


def require_tenant_aggregate(
    request: RequestSpec, context: PrefilterContext, *, strict: bool = False
) -> Requirements | None:
    """Ask for hosts of the aggregates that name the tenant.

    An aggregate names one tenant with each metadata item whose key starts with
    ``filter_tenant_id``. A tenant that none names gets any host or, if ``strict``,
    no host.
    """
    tenant = request.if_set('project_id')
    uuids = [
        aggregate.uuid
        for aggregate in context.aggregates
        if aggregate.uuid and _names_tenant(aggregate, tenant)
    ]
    if uuids:
        return Requirements(
            member_of=(frozenset(uuids),),
            notes=(
                'require_tenant_aggregate request filter added aggregates '
                f'{",".join(uuids)} for tenant {tenant!r}',
            ),
        )
    if not strict:
        return None
    return Requirements(
        warnings=(f'Tenant {tenant} has no available aggregates',),
        refused='No hosts available for tenant',
    )


def _names_tenant(aggregate: Aggregate, tenant: str | None) -> bool:
    return any(
        key.startswith(_TENANT_PREFIX) and value == tenant
        for key, value in aggregate.metadata.items()
    )


def map_az_to_placement_aggregate(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for hosts of the aggregates that make up the requested zone.

    A zone without aggregates restricts nothing.
    """
    zone = request.if_set('availability_zone')
    if not zone:
        return None
    uuids = [
        aggregate.uuid
        for aggregate in context.aggregates
        if aggregate.availability_zone == zone and aggregate.uuid
    ]
    if not uuids:
        return None
    added = ','.join(uuids)
    return Requirements(
        member_of=(frozenset(uuids),),
        notes=(
            'map_az_to_placement_aggregate request filter added aggregates '
            f"{added} for az '{zone}'",
        ),
    )


_TRAIT_PREFIX = 'trait:'


def isolate_aggregates(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Leave out aggregates with a required trait that no group requires.

    Traits of the root provider do not count.
    """
    keys = {
        aggregate.uuid: {
            key
            for key, value in aggregate.metadata.items()
            if key.startswith(_TRAIT_PREFIX) and value == 'required'
        }
        for aggregate in context.aggregates
        if aggregate.uuid
    }
    if not any(keys.values()):
        return None
    met = {f'{_TRAIT_PREFIX}{trait}' for trait in context.required_traits()}
    return Requirements(
        not_member_of=frozenset(uuid for uuid, wanted in keys.items() if wanted - met)
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
