# SPDX-License-Identifier: Apache-2.0
"""Filters by free disk, with an overcommit ratio."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.legacy.overcommit import AggregateRatios, RoomFilter
from novasched.scheduler.reasons import Code


def asked_mb(request: RequestSpec) -> int:
    """Return the disk that an instance needs in MiB, its swap disk included."""
    return 1024 * (request.root_gb + request.ephemeral_gb) + request.swap


class DiskFilter(RoomFilter):
    """Pass hosts with enough disk, oversubscribed by their ``disk_allocation_ratio``.

    Swap counts. No instance may be larger than the host. The compute gets the
    oversubscribed disk as its limit ``disk_gb``. Nova 19:
    scheduler/filters/disk_filter.py.
    """

    codes = (Code.NOT_ENOUGH_DISK,)
    deprecated = (
        'The DiskFilter is deprecated since the 19.0.0 Stein release. Placement '
        'counts the disk of hosts; the filter is not needed.'
    )
    ratio = 'disk_allocation_ratio'

    total, free, unit_mb = 'total_usable_disk_gb', 'free_disk_mb', 1024
    limit = 'disk_gb'
    room, whole = 'disk', 'disk space'

    def asked_mb(self, request: RequestSpec) -> int:
        return asked_mb(request)


class AggregateDiskFilter(AggregateRatios, DiskFilter):
    """Pass hosts with enough disk, oversubscribed by a ratio of their aggregates.

    The smallest ``disk_allocation_ratio`` of the aggregates holds, else that of the
    host. Nova 21: scheduler/filters/disk_filter.py.
    """

    deprecated = (
        'The AggregateDiskFilter is deprecated since the 20.0.0 Train release. '
        'Placement counts the disk of hosts; the filter is not needed.'
    )
