# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the memory that is left when it may be oversubscribed."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters.overcommit import AggregateRatios, OvercommitFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason


class RamFilter(OvercommitFilter):
    """Pass hosts with enough memory, oversubscribed by their ram_allocation_ratio.

    No instance may be larger than the host. Sets the limit ``memory_mb``. Nova 19:
    scheduler/filters/ram_filter.py.
    """

    codes = (Code.NOT_ENOUGH_RAM,)
    deprecated = (
        'The RamFilter is deprecated since the 19.0.0 Stein release. Placement '
        'counts the memory of hosts; the filter is not needed.'
    )
    ratio = 'ram_allocation_ratio'

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        asked = request.memory_mb
        total, free = hosts.total_usable_ram_mb, hosts.free_ram_mb
        with np.errstate(over='ignore', invalid='ignore'):
            limits = total * self.ratios(hosts)
            passes = (total >= asked) & (limits - (total - free) >= asked)
        return passes, limited(hosts, 'memory_mb', limits, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, total = request.memory_mb, host.total_usable_ram_mb
        if total < asked:
            text = (
                f'does not have {asked} MB usable ram before overcommit, it only has '
                f'{total} MB'
            )
            return Reason(Code.NOT_ENOUGH_RAM, text)
        limit = total * self.ratios(host.as_table()).item(0)
        usable = limit - (total - host.free_ram_mb)
        text = (
            f'does not have {asked} MB usable ram, it only has {usable} MB usable ram '
            f'({self.ratio_text(host)})'
        )
        return Reason(Code.NOT_ENOUGH_RAM, text)


class AggregateRamFilter(AggregateRatios, RamFilter):
    """Pass hosts with enough memory, oversubscribed by a ratio of their aggregates.

    The smallest ``ram_allocation_ratio`` of the aggregates holds, else that of the
    host. Nova 21: scheduler/filters/ram_filter.py.
    """

    deprecated = (
        'The AggregateRamFilter is deprecated since the 20.0.0 Train release. '
        'Placement counts the memory of hosts; the filter is not needed.'
    )
