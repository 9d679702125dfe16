# SPDX-License-Identifier: Apache-2.0
"""Filter hosts, and their allocation candidates, by free PCI devices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import combined
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.fit.cache import FitCache, filter_candidates
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.requirements import FitRequirements, device_requests
from novasched.scheduler.hosts import HostState, HostTable, Mask, Rows
from novasched.scheduler.reasons import Code, Reason

DEVICE_CODES = (
    Code.PCI_DEVICES_MISSING,
    Code.PCI_KIND_DIFFERS,
    Code.PCI_PROVIDER_AMBIGUOUS,
    Code.PCI_WRONG_NODE,
    Code.PCI_WRONG_PROVIDER,
)
"""Why the devices of a host do not serve a request."""


class PciPassthroughFilter(WritingFilter):
    """Pass hosts with the free PCI devices that the request asks for.

    Of the host's candidates only those are kept with which the devices are there.
    NUMA nodes are not looked at. Nova: scheduler/filters/pci_passthrough_filter.py.
    """

    reads_aggregates = False
    codes = (Code.CANDIDATE_MISSING, Code.NODE_DATA_MISSING, *DEVICE_CODES)
    writes = ('allocation_candidates',)

    def __init__(self) -> None:
        self._cache = FitCache()

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        return None if device_requests(request) else ()

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        everyone = np.ones(len(hosts), bool)
        requests = device_requests(request)
        if not requests:
            return everyone, hosts
        return filter_candidates(
            hosts, FitRequirements(None, requests), self._cache, everyone
        )

    def reason_groups(self, hosts: HostTable, request: RequestSpec) -> Rows | None:
        if FitRequirements(None, device_requests(request)).tracks_devices:
            return None  # candidates of one host name providers of their own
        return combined([hosts.pci_stats.codes, have_candidates(hosts)])

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        if not host.allocation_candidates:
            return Reason(Code.CANDIDATE_MISSING, 'no allocation candidate is left')
        requirements = FitRequirements(None, device_requests(request))
        pools, mapping = host.pci_stats.free, first_mapping(host)
        found = HostDevices(pools, requirements.requests, mapping, {}).why(None)
        return of_devices(found, host, requirements)


def have_candidates(hosts: HostTable) -> Mask:
    return np.array([bool(each) for each in hosts.allocation_candidates], bool)


def first_mapping(host: HostState) -> Any:
    """Return the providers that the first of a host's candidates names, or None."""
    return host.allocation_candidates[0].get('mappings')


def of_devices(found: Reason, host: HostState, requirements: FitRequirements) -> Reason:
    """Return a reason about devices as the reason of its candidate.

    If the devices of the host cannot be read, that is the reason instead.
    """
    if host.pci_stats.problem:
        text = f'pci_stats of the compute cannot be read: {host.pci_stats.problem}'
        return Reason(Code.NODE_DATA_MISSING, text)
    count = len(host.allocation_candidates)
    if count > 1 and requirements.tracks_devices:
        return Reason(found.code, f'candidate 1 of {count}: {found.text}')
    return found
