# SPDX-License-Identifier: Apache-2.0
"""Filter by availability zone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason


class AvailabilityZoneFilter(ColumnFilter):
    """Pass hosts in the availability zone that was asked for.

    A host in no zone is in the default zone. Nova removed it in 28.0.0: the
    zone is part of the placement query now. Nova 27:
    scheduler/filters/availability_zone_filter.py.
    """

    codes = (Code.WRONG_ZONE,)
    deprecated = (
        "The 'AvailabilityZoneFilter' is deprecated since the 24.0.0 (Xena) release. "
        'Placement is asked for hosts of the zone; the filter is not needed.'
    )
    run_filter_once_per_request = True

    def __init__(self, default_zone: str = 'nova') -> None:
        self.default_zone = default_zone

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.default_availability_zone)

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        zone = request.availability_zone
        if not zone:
            return np.ones(len(hosts), bool)
        return hosts.aggregates.map(lambda a: zone in self._zones(a))

    def _zones(self, host_aggregates: aggregates.Aggregates) -> set[str]:
        found = aggregates.metadata(host_aggregates, 'availability_zone')
        return found.get('availability_zone', {self.default_zone})

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        zones = ', '.join(sorted(self._zones(host.aggregates)))
        text = f'in zone {zones}, not {request.availability_zone}'
        return Reason(Code.WRONG_ZONE, text)
