# SPDX-License-Identifier: Apache-2.0
"""Filters by free CPUs, memory and disk: with an overcommit ratio, or exactly."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, warnings
from novasched.scheduler.enforced import limited
from novasched.scheduler.filters import WritingFilter
from novasched.scheduler.hosts import Floats, HostState, HostTable, Ints, Mask
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning


def asked_disk_mb(request: RequestSpec) -> int:
    """Return the disk that an instance needs in MiB, its swap disk included."""
    return 1024 * (request.root_gb + request.ephemeral_gb) + request.swap


class OvercommitFilter(WritingFilter):
    """What the filters of RAM, CPUs and disk share: the ratio of each host.

    ``ratio`` is the name of its column, and of its key in aggregates. A host
    whose ratio is unknown is rejected.
    """

    writes = ('limits',)
    ratio: ClassVar[str]

    def ratios(self, hosts: HostTable) -> Floats:
        """Return the ratio of each host; NaN: unknown."""
        column: Floats = getattr(hosts, self.ratio)
        return column

    def ratio_text(self, host: HostState) -> str:
        """Say the ratio of one host, and what was wrong with it."""
        return f'{self.ratio} {self.ratios(host.as_table()).item(0)}'


class _SizeFilter(WritingFilter):
    """What the filters of RAM and disk share.

    ``total`` and ``free`` are columns, ``unit_mb`` is how many MiB one of the total
    is, and ``limit`` is set in units.
    """

    writes = ('limits',)
    total: ClassVar[str]
    free: ClassVar[str]
    unit_mb: ClassVar[int]
    limit: ClassVar[str]

    @abc.abstractmethod
    def asked(self, request: RequestSpec) -> int:
        """Return how much is asked for, in the unit of ``free``."""


class _OfRam(_SizeFilter):
    total, free, unit_mb = 'total_usable_ram_mb', 'free_ram_mb', 1
    limit = 'memory_mb'

    def asked(self, request: RequestSpec) -> int:
        return request.memory_mb


class _OfDisk(_SizeFilter):
    total, free, unit_mb = 'total_usable_disk_gb', 'free_disk_mb', 1024
    limit = 'disk_gb'

    def asked(self, request: RequestSpec) -> int:
        return asked_disk_mb(request)


class _RoomFilter(OvercommitFilter, _SizeFilter):
    """What the filters of RAM and disk share: hosts with room for the request.

    ``room`` and ``whole`` are the words for what is free and for the total.
    """

    room: ClassVar[str]
    whole: ClassVar[str]

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        asked = self.asked(request)
        total: Ints = getattr(hosts, self.total) * self.unit_mb
        free: Ints = getattr(hosts, self.free)
        with np.errstate(over='ignore', invalid='ignore'):
            limits = total * self.ratios(hosts)
            passes = (total >= asked) & (limits - (total - free) >= asked)
        return passes, limited(hosts, self.limit, limits / self.unit_mb, passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, total = self.asked(request), getattr(host, self.total) * self.unit_mb
        if total < asked:
            text = (
                f'does not have {asked} MB usable {self.whole} before overcommit, it '
                f'only has {total} MB'
            )
            return Reason(self.codes[0], text)
        limit = total * self.ratios(host.as_table()).item(0)
        usable = limit - (total - getattr(host, self.free))
        text = (
            f'does not have {asked} MB usable {self.room}, it only has {usable} MB '
            f'usable {self.room} ({self.ratio_text(host)})'
        )
        return Reason(self.codes[0], text)


class AggregateRatios(OvercommitFilter):
    """Lets the aggregates of a host set its ratio; the smallest holds.

    If one of them is not a number, the host's own ratio holds.
    """

    def ratios(self, hosts: HostTable) -> Floats:
        found = hosts.aggregates.map(
            lambda of_host: self._lowest(aggregates.values(of_host, self.ratio)), float
        )
        return np.where(np.isnan(found), super().ratios(hosts), found)

    def _lowest(self, values: set[str]) -> float:
        return aggregates.lowest(values, _ratio, math.nan)

    def ratio_text(self, host: HostState) -> str:
        text = super().ratio_text(host)
        values = aggregates.values(host.aggregates, self.ratio)
        if values and math.isnan(self._lowest(values)):
            text += f', as {", ".join(sorted(values))} of its aggregates is no number'
        return text

    def config_warnings(
        self, groups: Sequence[aggregates.Aggregates]
    ) -> Iterable[PluginWarning]:
        """Yield which aggregates set several ratios, or one that is no number."""
        return warnings.number_warnings(groups, self.ratio, float)


def _ratio(text: str) -> float:
    """Return a number. Raises ValueError for what is none, NaN included."""
    ratio = float(text)
    if math.isnan(ratio):
        raise ValueError(text)
    return ratio


def _superseded(name: str, since: str, resource: str) -> str:
    return (
        f'The {name} is deprecated since the {since} release. Placement counts the '
        f'{resource} of hosts; the filter is not needed.'
    )


STEIN, TRAIN = '19.0.0 Stein', '20.0.0 Train'


class CoreFilter(OvercommitFilter):
    """Pass hosts with enough CPUs, oversubscribed by their ``cpu_allocation_ratio``.

    No instance may have more CPUs than the host. A host that reports no CPUs
    passes. The compute gets the oversubscribed CPUs as its limit ``vcpu``. Nova 19:
    scheduler/filters/core_filter.py.
    """

    codes = (Code.NOT_ENOUGH_CPUS,)
    deprecated = _superseded('CoreFilter', STEIN, 'CPUs')
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

    The smallest ``cpu_allocation_ratio`` of the aggregates holds, else the host's. Nova
    21: scheduler/filters/core_filter.py.
    """

    deprecated = _superseded('AggregateCoreFilter', TRAIN, 'CPUs')


class RamFilter(_OfRam, _RoomFilter):
    """Pass hosts with enough memory, oversubscribed by their ``ram_allocation_ratio``.

    No instance may be larger than the host. The compute gets the oversubscribed
    memory as its limit ``memory_mb``. Nova 19: scheduler/filters/ram_filter.py.
    """

    codes = (Code.NOT_ENOUGH_RAM,)
    deprecated = _superseded('RamFilter', STEIN, 'memory')
    ratio = 'ram_allocation_ratio'
    room = whole = 'ram'


class AggregateRamFilter(AggregateRatios, RamFilter):
    """Pass hosts with enough memory, oversubscribed by a ratio of their aggregates.

    The smallest ``ram_allocation_ratio`` of the aggregates holds, else the host's. Nova
    21: scheduler/filters/ram_filter.py.
    """

    deprecated = _superseded('AggregateRamFilter', TRAIN, 'memory')


class DiskFilter(_OfDisk, _RoomFilter):
    """Pass hosts with enough disk, oversubscribed by their ``disk_allocation_ratio``.

    Swap counts. No instance may be larger than the host. The compute gets the
    oversubscribed disk as its limit ``disk_gb``. Nova 19:
    scheduler/filters/disk_filter.py.
    """

    codes = (Code.NOT_ENOUGH_DISK,)
    deprecated = _superseded('DiskFilter', STEIN, 'disk')
    ratio = 'disk_allocation_ratio'
    room, whole = 'disk', 'disk space'


class AggregateDiskFilter(AggregateRatios, DiskFilter):
    """Pass hosts with enough disk, oversubscribed by a ratio of their aggregates.

    The smallest ``disk_allocation_ratio`` of the aggregates holds, else the host's.
    Nova 21: scheduler/filters/disk_filter.py.
    """

    deprecated = _superseded('AggregateDiskFilter', TRAIN, 'disk')


class _ExactFilter(_SizeFilter):
    """Pass hosts that one instance fills, such as bare-metal nodes.

    The compute gets all of the host as its limit. ``words`` is the text of the reason.
    """

    words: ClassVar[str]

    def free_of(self, hosts: HostTable) -> Ints:
        """Return how much each host has free."""
        free: Ints = getattr(hosts, self.free)
        return free

    def passing(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes: Mask = self.free_of(hosts) == self.asked(request)
        return passes

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        passes = self.passing(hosts, request)
        total: Ints = getattr(hosts, self.total)
        return passes, limited(hosts, self.limit, total.astype(np.float64), passes)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        asked, free = self.asked(request), self.free_of(host.as_table()).item(0)
        return Reason(self.codes[0], self.words.format(asked=asked, free=free))


def _bare_metal(name: str) -> str:
    return (
        f'{name} is deprecated in Pike and will be removed in a subsequent release. '
        'Bare-metal nodes are asked for by their resource class in placement.'
    )


class ExactRamFilter(_OfRam, _ExactFilter):
    """Pass hosts with exactly the free memory that is asked for.

    The compute gets all memory of the host as its limit ``memory_mb``. Nova 17:
    scheduler/filters/exact_ram_filter.py.
    """

    codes = (Code.RAM_DIFFERS,)
    deprecated = _bare_metal('ExactRamFilter')
    words = 'does not have exactly {asked} MB usable RAM, it has {free} MB'


class ExactCoreFilter(_ExactFilter):
    """Pass hosts with exactly the free CPUs that are asked for.

    A host that reports no CPUs is rejected. The compute gets all CPUs of the host as
    its limit ``vcpu``. Nova 17: scheduler/filters/exact_core_filter.py.
    """

    codes = (Code.CPUS_DIFFER,)
    deprecated = _bare_metal('ExactCoreFilter')
    total, limit = 'vcpus_total', 'vcpu'
    words = 'does not have exactly {asked} cores of usable vcpu, it has {free}'

    def asked(self, request: RequestSpec) -> int:
        return request.vcpus

    def free_of(self, hosts: HostTable) -> Ints:
        return hosts.vcpus_total - hosts.vcpus_used

    def passing(self, hosts: HostTable, request: RequestSpec) -> Mask:
        reported: Mask = hosts.vcpus_total != 0
        return reported & super().passing(hosts, request)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        if not host.vcpus_total:
            text = 'VCPUs not set; assuming CPU collection broken'
            return Reason(Code.CPUS_DIFFER, text)
        return super().why(host, request)


class ExactDiskFilter(_OfDisk, _ExactFilter):
    """Pass hosts with exactly the free disk that is asked for; swap counts.

    The compute gets all disk of the host as its limit ``disk_gb``. Nova 17:
    scheduler/filters/exact_disk_filter.py.
    """

    codes = (Code.DISK_DIFFERS,)
    deprecated = _bare_metal('ExactDiskFilter')
    words = 'does not have exactly {asked} MB usable disk, it has {free}'
