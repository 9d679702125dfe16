# SPDX-License-Identifier: Apache-2.0
"""Filters for hosts that one instance fills completely, such as bare-metal nodes."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.filters.legacy.disk import asked_mb
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

_ADVICE = (
    'is deprecated in Pike and will be removed in a subsequent release. Bare-metal '
    'nodes are asked for by their resource class in placement.'
)


class ExactRamFilter(WritingFilter):
    """Pass hosts with exactly the free memory that is asked for.

    The compute gets all memory of the host as its limit ``memory_mb``. Nova 17:
    scheduler/filters/exact_ram_filter.py.
    """

    codes = (Code.RAM_DIFFERS,)
    deprecated = f'ExactRamFilter {_ADVICE}'
    writes = ('limits',)

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        passes: Mask = hosts.free_ram_mb == request.memory_mb
        total = hosts.total_usable_ram_mb.astype(np.float64)
        return passes, limited(hosts, 'memory_mb', total, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, free = request.memory_mb, host.free_ram_mb
        text = f'does not have exactly {asked} MB usable RAM, it has {free} MB'
        return Reason(Code.RAM_DIFFERS, text)


class ExactCoreFilter(WritingFilter):
    """Pass hosts with exactly the free CPUs that are asked for.

    A host that reports no CPUs is rejected. The compute gets all CPUs of the host as
    its limit ``vcpu``. Nova 17: scheduler/filters/exact_core_filter.py.
    """

    codes = (Code.CPUS_DIFFER,)
    deprecated = f'ExactCoreFilter {_ADVICE}'
    writes = ('limits',)

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        total = hosts.vcpus_total
        passes: Mask = (total != 0) & (total - hosts.vcpus_used == request.vcpus)
        return passes, limited(hosts, 'vcpu', total.astype(np.float64), passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, free = request.vcpus, host.vcpus_total - host.vcpus_used
        if not host.vcpus_total:
            text = 'VCPUs not set; assuming CPU collection broken'
        else:
            text = f'does not have exactly {asked} cores of usable vcpu, it has {free}'
        return Reason(Code.CPUS_DIFFER, text)


class ExactDiskFilter(WritingFilter):
    """Pass hosts with exactly the free disk that is asked for; swap counts.

    The compute gets all disk of the host as its limit ``disk_gb``. Nova 17:
    scheduler/filters/exact_disk_filter.py.
    """

    codes = (Code.DISK_DIFFERS,)
    deprecated = f'ExactDiskFilter {_ADVICE}'
    writes = ('limits',)

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        passes: Mask = hosts.free_disk_mb == asked_mb(request)
        total = hosts.total_usable_disk_gb.astype(np.float64)
        return passes, limited(hosts, 'disk_gb', total, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, free = asked_mb(request), host.free_disk_mb
        text = f'does not have exactly {asked} MB usable disk, it has {free}'
        return Reason(Code.DISK_DIFFERS, text)
