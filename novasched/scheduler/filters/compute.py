# SPDX-License-Identifier: Apache-2.0
"""Filters that look only at the compute service of a host, or at nothing."""

from __future__ import annotations

import datetime

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask, Rows
from novasched.scheduler.reasons import Code, Reason


class ComputeFilter(ColumnFilter):
    """Pass hosts whose compute service is enabled and was heard from in time.

    Nova: scheduler/filters/compute_filter.py.
    """

    reads_aggregates = False
    codes = (Code.SERVICE_DISABLED, Code.SERVICE_FORCED_DOWN, Code.SERVICE_DOWN)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return ~hosts.service_disabled & hosts.service_up

    def reason_groups(self, hosts: HostTable, request: RequestSpec) -> Rows:
        rows, disabled = hosts.service.tolist(), hosts.service_disabled
        forced = np.array([bool(row.get('forced_down')) for row in rows], bool)
        return np.where(disabled, 2, forced)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        if host.service_disabled:
            why = host.service.get('disabled_reason') or 'none given'
            return Reason(Code.SERVICE_DISABLED, f'is disabled, reason: {why}')
        if host.service.get('forced_down'):
            return Reason(Code.SERVICE_FORCED_DOWN, 'is forced down')
        seen = host.service.get('last_seen_up') or host.service.get('created_at')
        if isinstance(seen, datetime.datetime):
            seen = f'{seen:%Y-%m-%d %H:%M:%S} UTC'
        return Reason(Code.SERVICE_DOWN, f'has not been heard from since {seen}')


class AllHostsFilter(ColumnFilter):
    """Pass every host.

    Nova: scheduler/filters/all_hosts_filter.py.
    """

    reads_aggregates = False
    codes = ()
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return np.ones(len(hosts), bool)
