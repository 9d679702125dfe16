# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the disk that is left when it may be oversubscribed."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters.overcommit import AggregateRatios, OvercommitFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason


def asked_mb(request: RequestSpec) -> int:
    """Return the disk that an instance needs in MiB, its swap disk included."""
    return 1024 * (request.root_gb + request.ephemeral_gb) + request.swap


class DiskFilter(OvercommitFilter):
    """Pass hosts with enough disk, oversubscribed by their disk_allocation_ratio.

    Swap counts. No instance may be larger than the host. Sets the limit
    ``disk_gb``. Nova 19: scheduler/filters/disk_filter.py.
    """

    codes = (Code.NOT_ENOUGH_DISK,)
    deprecated = (
        'The DiskFilter is deprecated since the 19.0.0 Stein release. Placement '
        'counts the disk of hosts; the filter is not needed.'
    )
    ratio = 'disk_allocation_ratio'

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        asked = asked_mb(request)
        total, free = hosts.total_usable_disk_gb * 1024, hosts.free_disk_mb
        with np.errstate(over='ignore', invalid='ignore'):
            limits = total * self.ratios(hosts)
            passes = (total >= asked) & (limits - (total - free) >= asked)
        return passes, limited(hosts, 'disk_gb', limits / 1024, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, total = asked_mb(request), host.total_usable_disk_gb * 1024
        if total < asked:
            text = (
                f'does not have {asked} MB usable disk space before overcommit, it '
                f'only has {total} MB'
            )
            return Reason(Code.NOT_ENOUGH_DISK, text)
        limit = total * self.ratios(host.as_table()).item(0)
        usable = limit - (total - host.free_disk_mb)
        text = (
            f'does not have {asked} MB usable disk, it only has {usable} MB usable '
            f'disk ({self.ratio_text(host)})'
        )
        return Reason(Code.NOT_ENOUGH_DISK, text)


class AggregateDiskFilter(AggregateRatios, DiskFilter):
    """Pass hosts with enough disk, oversubscribed by a ratio of their aggregates.

    The smallest ``disk_allocation_ratio`` of the aggregates holds, else that of the
    host. Nova 21: scheduler/filters/disk_filter.py.
    """

    deprecated = (
        'The AggregateDiskFilter is deprecated since the 20.0.0 Train release. '
        'Placement counts the disk of hosts; the filter is not needed.'
    )
