# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the projects that their aggregates are for."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters.reserved import ReservedHosts
from novasched.scheduler.reasons import Code

PREFIX = 'filter_tenant_id'


class AggregateMultiTenancyIsolation(ReservedHosts):
    """Pass hosts whose aggregates are for the project, or for no project at all.

    Projects stand in metadata under every key that starts with ``filter_tenant_id``,
    separated by commas. Nova: scheduler/filters/aggregate_multitenancy_isolation.py.
    """

    codes = (Code.PROJECT_NOT_ALLOWED,)
    named = 'projects'
    run_filter_once_per_request = True

    def reserved_for(self, host_aggregates: aggregates.Aggregates) -> set[str]:
        found = aggregates.metadata(host_aggregates)
        return {v for key in found if key.startswith(PREFIX) for v in found[key]}

    def wanted(self, request: RequestSpec) -> str | None:
        return request.project_id
