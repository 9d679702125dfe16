# SPDX-License-Identifier: Apache-2.0
"""Filters by free CPUs, with an overcommit ratio."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters.legacy.overcommit import (
    AggregateRatios,
    OvercommitFilter,
)
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning


class CoreFilter(OvercommitFilter):
    """Pass hosts with enough CPUs, oversubscribed by their ``cpu_allocation_ratio``.

    No instance may have more CPUs than the host. A host that reports no CPUs
    passes. The compute gets the oversubscribed CPUs as its limit ``vcpu``. Nova 19:
    scheduler/filters/core_filter.py.
    """

    codes = (Code.NOT_ENOUGH_CPUS,)
    deprecated = (
        'The CoreFilter is deprecated since the 19.0.0 Stein release. Placement '
        'counts the CPUs of hosts; the filter is not needed.'
    )
    ratio = 'cpu_allocation_ratio'

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        asked, total = request.vcpus, hosts.vcpus_total
        reported: Mask = total != 0
        with np.errstate(over='ignore', invalid='ignore'):
            limits = total * self.ratios(hosts)
            limiting: Mask = reported & (limits > 0)
            passes: Mask = limits - hosts.vcpus_used >= asked
        passes = ~reported | (passes & ~(limiting & (total < asked)))
        return passes, limited(hosts, 'vcpu', limits, limiting)

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterator[PluginWarning]:
        """Name the hosts that report no CPUs, which pass."""
        silent = before[before.vcpus_total == 0]
        if len(silent):
            names = ', '.join(silent.host.tolist())
            text = f'VCPUs not set; assuming CPU collection broken: {names}'
            yield PluginWarning(text)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, total = request.vcpus, host.vcpus_total
        limit = total * self.ratios(host.as_table()).item(0)
        if limit > 0 and total < asked:
            text = (
                f'does not have {asked} total cpus before overcommit, it only has '
                f'{total}'
            )
            return Reason(Code.NOT_ENOUGH_CPUS, text)
        text = (
            f'does not have {asked} usable vcpus, it only has '
            f'{limit - host.vcpus_used} usable vcpus ({self.ratio_text(host)})'
        )
        return Reason(Code.NOT_ENOUGH_CPUS, text)


class AggregateCoreFilter(AggregateRatios, CoreFilter):
    """Pass hosts with enough CPUs, oversubscribed by a ratio of their aggregates.

    The smallest ``cpu_allocation_ratio`` of the aggregates holds, else that of the
    host. Nova 21: scheduler/filters/core_filter.py.
    """

    deprecated = (
        'The AggregateCoreFilter is deprecated since the 20.0.0 Train release. '
        'Placement counts the CPUs of hosts; the filter is not needed.'
    )
