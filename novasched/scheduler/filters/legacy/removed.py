# SPDX-License-Identifier: Apache-2.0
"""Filters that nova removed: by availability zone, earlier attempts and flavor."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask, Member
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning


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


def tried(request: RequestSpec) -> list[tuple[str | None, str | None]]:
    """Return host and node of each attempt that failed."""
    retry = request.retry
    if retry is None:
        return []
    return [(one.host, one.hypervisor_hostname) for one in retry.hosts]


class RetryFilter(ColumnFilter):
    """Pass hosts that were not tried for this request before.

    Nova 21: scheduler/filters/retry_filter.py.
    """

    codes = (Code.TRIED_BEFORE,)
    deprecated = (
        'The RetryFilter is deprecated since the 20.0.0 Train release. A request '
        'that failed goes to its alternates and does not come back.'
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        before = tried(request)
        if before:
            names, nodes = hosts.host, hosts.nodename
            for host, node in before:
                passes &= ~((names == host) & (nodes == node))
        return passes

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterator[PluginWarning]:
        """Name each host that was tried before, in nova's words."""
        hosts = [list(pair) for pair in tried(request)]
        for host in before.without(after).states():
            name = [host.host, host.nodename]
            text = f'Host {name} fails.  Previously tried hosts: {hosts}'
            yield PluginWarning(text, logging.INFO)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        before = [list(pair) for pair in tried(request)]
        return Reason(Code.TRIED_BEFORE, f'Previously tried hosts: {before}')


def others(instances: Mapping[str, Any], flavor_id: int) -> list[str]:
    """Return the instances that are not known to have the flavor.

    What this very request placed a moment ago has it.
    """
    return [
        uuid
        for uuid, instance in instances.items()
        if not isinstance(instance, Member) and _flavor_id(instance) != flavor_id
    ]


def _flavor_id(instance: Any) -> int | None:
    try:
        return getattr(instance, 'instance_type_id', None)
    except errors.UnsetField:
        return None


class TypeAffinityFilter(ColumnFilter):
    """Pass hosts whose instances are all of the flavor; an empty host passes.

    An instance whose flavor is unknown counts as one of another. Nova 16:
    scheduler/filters/type_filter.py.
    """

    codes = (Code.OTHER_FLAVOR_PRESENT,)
    deprecated = (
        'TypeAffinityFilter is deprecated in Pike. AggregateTypeAffinityFilter keeps '
        'flavors apart by the aggregates of hosts.'
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        flavor_id = request.flavor.id
        found = hosts.instances.tolist()
        return np.array(
            [not on_host or not others(on_host, flavor_id) for on_host in found], bool
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        found = others(host.instances, request.flavor.id)
        text = f'runs instances of another flavor: {", ".join(found)}'
        return Reason(Code.OTHER_FLAVOR_PRESENT, text)
