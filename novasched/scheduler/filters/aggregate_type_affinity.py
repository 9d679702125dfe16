# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the flavors that their aggregates are for."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters.reserved import ReservedHosts
from novasched.scheduler.reasons import Code


class AggregateTypeAffinityFilter(ReservedHosts):
    """Pass hosts whose aggregates are for the flavor, or for no flavor at all.

    Names of flavors stand in metadata ``instance_type``, separated by commas. Nova:
    scheduler/filters/type_filter.py.
    """

    codes = (Code.FLAVOR_NOT_ALLOWED,)
    named = 'flavors'
    run_filter_once_per_request = True

    def reserved_for(self, host_aggregates: aggregates.Aggregates) -> set[str]:
        values = aggregates.values(host_aggregates, 'instance_type')
        return {name.strip() for value in values for name in value.split(',')}

    def wanted(self, request: RequestSpec) -> str | None:
        return request.flavor.name
