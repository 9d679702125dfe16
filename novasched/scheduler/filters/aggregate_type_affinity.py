# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the flavors that their aggregates are for."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason


def flavors(host_aggregates: aggregates.Aggregates) -> set[str]:
    """Return the names of the flavors that the aggregates are for; none: for all."""
    values = aggregates.values(host_aggregates, 'instance_type')
    return {name.strip() for value in values for name in value.split(',')}


class AggregateTypeAffinityFilter(ColumnFilter):
    """Pass hosts whose aggregates are for the flavor, or for no flavor at all.

    Their metadata lists names of flavors in ``instance_type``. Nova:
    scheduler/filters/type_filter.py.
    """

    codes = (Code.FLAVOR_NOT_ALLOWED,)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        name = request.flavor.name

        def welcomes(host_aggregates: aggregates.Aggregates) -> bool:
            allowed = flavors(host_aggregates)
            return not allowed or name in allowed

        return hosts.aggregates.map(welcomes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        allowed = ', '.join(sorted(flavors(host.aggregates)))
        text = f'for flavors {allowed}, not {request.flavor.name}'
        return Reason(Code.FLAVOR_NOT_ALLOWED, text)
