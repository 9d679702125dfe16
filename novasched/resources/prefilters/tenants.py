# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are kept for tenants."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.scheduler.aggregates import Aggregate

_PREFIX = 'filter_tenant_id'


def require_tenant_aggregate(
    request: RequestSpec, facts: Facts, *, strict: bool = False
) -> Requirements | None:
    """Ask for hosts of the aggregates that name the tenant.

    An aggregate names one tenant with each metadata item whose key starts with
    ``filter_tenant_id``. A tenant that none names gets any host or, if ``strict``,
    no host.
    """
    tenant = request.project_id if 'project_id' in request else None
    uuids = [
        aggregate.uuid
        for aggregate in facts.aggregates
        if aggregate.uuid and _names(aggregate, tenant)
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


def _names(aggregate: Aggregate, tenant: str | None) -> bool:
    return any(
        key.startswith(_PREFIX) and value == tenant
        for key, value in aggregate.metadata.items()
    )
