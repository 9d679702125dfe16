# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts whose compute service is disabled or down."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask


class ComputeFilter(ColumnFilter):
    """Pass hosts whose compute service is enabled and was heard from in time.

    Nova: scheduler/filters/compute_filter.py.
    """

    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return ~hosts.service_disabled & hosts.service_up

    def why(self, host: HostState, request: RequestSpec) -> str:
        if host.service_disabled:
            return f'is disabled, reason: {host.service.get("disabled_reason")}'
        if host.service.get('forced_down'):
            return 'is forced down'
        seen = host.service.get('last_seen_up') or host.service.get('created_at')
        return f'has not been heard from since {seen}'
