# SPDX-License-Identifier: Apache-2.0
"""Filters by free memory, with an overcommit ratio."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.legacy.overcommit import AggregateRatios, RoomFilter
from novasched.scheduler.reasons import Code


class RamFilter(RoomFilter):
    """Pass hosts with enough memory, oversubscribed by their ``ram_allocation_ratio``.

    No instance may be larger than the host. The compute gets the oversubscribed
    memory as its limit ``memory_mb``. Nova 19: scheduler/filters/ram_filter.py.
    """

    codes = (Code.NOT_ENOUGH_RAM,)
    deprecated = (
        'The RamFilter is deprecated since the 19.0.0 Stein release. Placement '
        'counts the memory of hosts; the filter is not needed.'
    )
    ratio = 'ram_allocation_ratio'

    total, free, unit_mb = 'total_usable_ram_mb', 'free_ram_mb', 1
    limit = 'memory_mb'
    room = whole = 'ram'

    def asked_mb(self, request: RequestSpec) -> int:
        return request.memory_mb


class AggregateRamFilter(AggregateRatios, RamFilter):
    """Pass hosts with enough memory, oversubscribed by a ratio of their aggregates.

    The smallest ``ram_allocation_ratio`` of the aggregates holds, else that of the
    host. Nova 21: scheduler/filters/ram_filter.py.
    """

    deprecated = (
        'The AggregateRamFilter is deprecated since the 20.0.0 Train release. '
        'Placement counts the memory of hosts; the filter is not needed.'
    )
