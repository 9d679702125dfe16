# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the projects that their aggregates are for."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

PREFIX = 'filter_tenant_id'


def projects(host_aggregates: aggregates.Aggregates) -> set[str]:
    """Return the projects that the aggregates are for; none: for all.

    They stand in metadata under every key that starts with ``filter_tenant_id``.
    """
    found = aggregates.metadata(host_aggregates)
    return {v for key in found if key.startswith(PREFIX) for v in found[key]}


class AggregateMultiTenancyIsolation(ColumnFilter):
    """Pass hosts whose aggregates are for the project, or for no project at all.

    Nova: scheduler/filters/aggregate_multitenancy_isolation.py.
    """

    codes = (Code.PROJECT_NOT_ALLOWED,)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        project = request.project_id

        def welcomes(host_aggregates: aggregates.Aggregates) -> bool:
            allowed = projects(host_aggregates)
            return not allowed or project in allowed

        return hosts.aggregates.map(welcomes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        allowed = ', '.join(sorted(projects(host.aggregates)))
        text = f'for projects {allowed}, not {request.project_id}'
        return Reason(Code.PROJECT_NOT_ALLOWED, text)
