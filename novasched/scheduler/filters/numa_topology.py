# SPDX-License-Identifier: Apache-2.0
"""Filter hosts, and their allocation candidates, by NUMA nodes."""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection
from typing import Any, Self

import numpy as np

from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release
from novasched.scheduler.columns import combined
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.filters.pci_passthrough import (
    DEVICE_CODES,
    first_mapping,
    have_candidates,
    of_devices,
)
from novasched.scheduler.fit.cache import FitCache, filter_candidates
from novasched.scheduler.fit.explain import explain
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostTopology
from novasched.scheduler.fit.precheck import Precheck
from novasched.scheduler.fit.requirements import FitRequirements, HostCapacity
from novasched.scheduler.fit.topology import CellLimits, Guest
from novasched.scheduler.hosts import HostState, HostTable, Mask, Objects, Rows
from novasched.scheduler.reasons import Code, Reason

POLICY, THREADS = 'cpu_policy', 'cpu_thread_policy'
FITTED = (
    'numa_topology',
    'pci_stats',
    'cpu_allocation_ratio',
    'ram_allocation_ratio',
    'allocation_candidates',
)
"""The columns that an instance is fitted to, if all candidates of a host are alike."""


class NUMATopologyFilter(WritingFilter):
    """Pass hosts whose NUMA nodes can hold the NUMA nodes of the instance.

    Only candidates with which they fit are kept. The limits of the host become
    ``numa_topology`` of what the compute must enforce. An instance without nodes fits
    any host, unless it asks for threads that the host lacks. A host with an unknown
    ratio is rejected. Nova: scheduler/filters/numa_topology_filter.py.
    """

    reads_aggregates = False
    codes = (
        Code.CANDIDATE_MISSING,
        Code.NETWORKS_ELSEWHERE,
        Code.NODES_CONTENDED,
        Code.NODES_MISSING,
        Code.NODE_DATA_MISSING,
        Code.NOT_ENOUGH_DEDICATED_CPUS,
        Code.NOT_ENOUGH_NODE_CPUS,
        Code.NOT_ENOUGH_NODE_MEMORY,
        Code.NOT_ENOUGH_PAGES,
        Code.NUMA_DOES_NOT_FIT,
        Code.NUMA_MISSING,
        Code.PAGE_SIZE_MISSING,
        Code.RATIO_UNKNOWN,
        Code.THREADS_DO_NOT_FIT,
        Code.THREADS_MISSING,
        *DEVICE_CODES,
    )
    writes = ('limits', 'allocation_candidates')

    def __init__(self, fitting: Fitting | None = None) -> None:
        self.fitting = fitting or Fitting()
        self._cache = FitCache()
        self._precheck = Precheck()

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(Fitting.from_conf(conf))

    def of_release(self, release: Release) -> Self:
        found = copy.copy(self)
        found.fitting = self.fitting.of_release(release)
        found._cache, found._precheck = FitCache(), Precheck()
        return found

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        requirements = FitRequirements.of(request, self.fitting)
        if requirements.guest is None:
            return ('numa_topology',)
        return None if requirements.tells_candidates_apart else FITTED

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        hopeful: Mask = np.ones(len(hosts), bool)
        if _requires_threads(request):
            hopeful = hosts.numa_topology.map(_may_have_threads)
        requirements = FitRequirements.of(request, self.fitting)
        if requirements.guest is None:
            return hopeful, hosts
        hopeful &= self._may_fit(hosts, requirements.guest)
        passes, hosts = filter_candidates(hosts, requirements, self._cache, hopeful)
        limits = _limits(hosts, passes, request)
        return passes, limited(hosts, 'numa_topology', limits, passes)

    def _may_fit(self, hosts: HostTable, guest: Guest) -> Mask:
        """Return False for hosts that need no closer look.

        Nova may use nodes without a look at them, so there the nodes only count.
        """
        topologies = hosts.numa_topology
        if self.fitting.as_nova:
            hopeful: Mask = topologies.map(bool)
        else:
            hopeful = self._precheck.may_fit(topologies, guest)
        ratios = hosts.cpu_allocation_ratio + hosts.ram_allocation_ratio
        return hopeful & ~np.isnan(ratios)

    def reason_groups(self, hosts: HostTable, request: RequestSpec) -> Rows | None:
        if FitRequirements.of(request, self.fitting).tracks_devices:
            return None  # candidates of one host name providers of their own
        return combined(
            [
                hosts.numa_topology.codes,
                hosts.pci_stats.codes,
                hosts.cpu_allocation_ratio.astype(np.float64),
                hosts.ram_allocation_ratio.astype(np.float64),
                have_candidates(hosts),
            ]
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        topology: HostTopology | None = host.numa_topology
        if _requires_threads(request) and not _may_have_threads(topology):
            text = 'no core has two threads, as the thread policy require needs'
            return Reason(Code.THREADS_MISSING, text)
        if topology is not None and topology.problem:
            text = f'numa_topology of the compute cannot be read: {topology.problem}'
            return Reason(Code.NODE_DATA_MISSING, text)
        if not topology:
            return Reason(Code.NUMA_MISSING, 'reports no NUMA nodes')
        cpu, ram = host.cpu_allocation_ratio, host.ram_allocation_ratio
        if cpu is None or ram is None:
            name = 'cpu' if cpu is None else 'ram'
            text = f'{name}_allocation_ratio is unknown'
            return Reason(Code.RATIO_UNKNOWN, text)
        if not host.allocation_candidates:
            return Reason(Code.CANDIDATE_MISSING, 'no allocation candidate is left')
        requirements = FitRequirements.of(request, self.fitting)
        limits = CellLimits(cpu, ram, requirements.networks)
        capacity = HostCapacity(topology, host.pci_stats, limits)
        return self._explained(requirements, capacity, host)

    def _explained(
        self, requirements: FitRequirements, capacity: HostCapacity, host: HostState
    ) -> Reason:
        guest, pack = requirements.guest or Guest(()), self.fitting.pack
        cells, limits = capacity.topology.cells, capacity.limits
        devices = capacity.devices(requirements.requests, first_mapping(host))
        found = explain(cells, guest, limits, devices, pack)
        if found.code not in DEVICE_CODES:
            return found
        return of_devices(found, host, requirements)


def _requires_threads(request: RequestSpec) -> bool:
    """Return whether dedicated CPUs are asked for that are threads of one core."""
    return 'dedicated' in _asked(request, POLICY) and (
        'require' in _asked(request, THREADS)
    )


def _asked(request: RequestSpec, name: str) -> tuple[str | None, str | None]:
    """Return the policy of flavor and image."""
    image = request.image_properties
    in_image = getattr(image, f'hw_{name}') if f'hw_{name}' in image else None
    return request.extra_specs.get(f'hw:{name}'), in_image


def _may_have_threads(topology: HostTopology | None) -> bool:
    return not topology or topology.has_threads


def _limits(hosts: HostTable, where: Mask, request: RequestSpec) -> Objects:
    """Return the limits of some hosts; those with the same ratios share one."""
    given: dict[str, Any] = {}
    if 'network_metadata' in request:
        given['network_metadata'] = request.network_metadata

    @functools.cache
    def limits(cpu: float, ram: float) -> NUMATopologyLimits:
        return NUMATopologyLimits(
            cpu_allocation_ratio=cpu, ram_allocation_ratio=ram, **given
        )

    found: Objects = np.full(len(hosts), None, object)
    cpu, ram = hosts.cpu_allocation_ratio, hosts.ram_allocation_ratio
    for position in np.flatnonzero(where).tolist():
        found[position] = limits(cpu.item(position), ram.item(position))
    return found
