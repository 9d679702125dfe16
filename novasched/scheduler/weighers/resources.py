# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by one column: free resources, load, failed builds, version or cell."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import PerValue
from novasched.scheduler.fit.parse import HostPools
from novasched.scheduler.hosts import Floats, HostTable, Ints
from novasched.scheduler.weighers import Weigher, multiplier_opt

MOST_DEVICES = 99

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            'build_failure_weight_multiplier',
            1000000.0,
            'Weight against builds that failed since the last that succeeded. '
            'Positive avoids hosts where builds fail; 0 does not mind.',
        ),
        cfg.IntOpt(
            'build_failure_forget_after',
            min=1,
            help='Seconds after which the failed builds of a host are forgotten, if '
            'no other build fails there. They are counted from when the scheduler '
            'saw the last failure, or from its start. Unset, as in nova: a host '
            'that got no server since its last failure is avoided until its '
            'compute restarts.',
        ),
        multiplier_opt(
            'cpu_weight_multiplier',
            1.0,
            'Weight of free virtual CPUs. Positive spreads instances, negative '
            'stacks them.',
        ),
        multiplier_opt(
            'cross_cell_move_weight_multiplier',
            1000000.0,
            'Weight of staying in the cell when an instance moves. Positive '
            'prefers hosts of its cell, negative those of other cells.',
        ),
        multiplier_opt(
            'disk_weight_multiplier',
            1.0,
            'Weight of free disk. Positive spreads instances, negative stacks them.',
            deprecated_group='DEFAULT',
        ),
        multiplier_opt(
            'hypervisor_version_weight_multiplier',
            1.0,
            'Weight of the version of the hypervisor. Positive prefers newer '
            'hypervisors, negative older ones.',
        ),
        multiplier_opt(
            'io_ops_weight_multiplier',
            -1.0,
            'Weight of builds, resizes and other heavy tasks on a host. Negative '
            'prefers hosts with few of them.',
            deprecated_group='DEFAULT',
        ),
        multiplier_opt(
            'num_instances_weight_multiplier',
            0.0,
            'Weight of the number of instances. Positive stacks instances, '
            'negative spreads them.',
        ),
        multiplier_opt(
            'pci_weight_multiplier',
            1.0,
            'Weight of free PCI devices. Positive keeps hosts that have many '
            'for the instances that need them.',
            min=0.0,
        ),
        multiplier_opt(
            'ram_weight_multiplier',
            1.0,
            'Weight of free RAM. Positive spreads instances, negative stacks them.',
            deprecated_group='DEFAULT',
        ),
        multiplier_opt(
            'same_host_weight_multiplier',
            0.0,
            'Weight of staying on the host when an instance is resized, if '
            '``allow_resize_to_same_host`` lets it stay, and of going back to the '
            'last host when it is unshelved. Positive prefers that host; 0 does not '
            'look for it.',
        ),
    ]
}


class _ColumnWeigher(Weigher):
    """A weigher whose raw weights are its only column."""

    columns: ClassVar[tuple[str]]

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        (name,) = self.columns
        column: Ints = getattr(hosts, name)
        return column


class BuildFailureWeigher(Weigher):
    """Avoid hosts where builds fail, the more the more of them failed.

    The multiplier, also one that an aggregate sets, counts with its sign changed.
    Failures are forgotten after a time only if the option says so.
    Nova: scheduler/weights/compute.py.
    """

    option = 'build_failure_weight_multiplier'
    multiplier = 1000000.0

    def __init__(self, multiplier: float | None = None, forgets: bool = False) -> None:
        super().__init__(multiplier)
        self._column = 'recent_failed_builds' if forgets else 'failed_builds'

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        group = conf.filter_scheduler
        forgets = group.build_failure_forget_after is not None
        return cls(group.build_failure_weight_multiplier, forgets)

    def depends_on(self, request: RequestSpec) -> Collection[str]:
        return (self._column,)

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        failures: Ints = getattr(hosts, self._column)
        return failures

    def aggregate_multipliers(self, hosts: HostTable) -> Floats:
        return -super().aggregate_multipliers(hosts)


class CPUWeigher(Weigher):
    """Prefer hosts with more virtual CPUs left, over-commit included.

    Raises TypeError if a host never reported, as nova does.
    """

    minval = 0
    option = 'cpu_weight_multiplier'
    columns = ('vcpus_total', 'cpu_allocation_ratio', 'vcpus_used')

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        ratios = hosts.cpu_allocation_ratio
        if np.isnan(ratios).any():
            raise TypeError('a host that never reported has no cpu_allocation_ratio')
        return hosts.vcpus_total * ratios - hosts.vcpus_used


def preferred_cell(request: RequestSpec) -> str | None:
    """Return the uuid of the cell that a move may leave; None if it may leave none."""
    destination = request.requested_destination
    # Reading what is unset would set it.
    if (
        destination is None
        or 'cell' not in destination
        or destination.cell is None
        or 'allow_cross_cell_move' not in destination
        or not destination.allow_cross_cell_move
    ):
        return None
    return destination.cell.uuid


class CrossCellWeigher(Weigher):
    """Prefer the cell that the instance is in, if it may move to another.

    Nova: scheduler/weights/cross_cell.py.
    """

    option = 'cross_cell_move_weight_multiplier'
    columns = ('cell_uuid',)
    multiplier = 1000000.0

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        preferred = preferred_cell(request)
        if preferred is None:
            return np.zeros(len(hosts), np.int64)
        return hosts.cell_uuid.map(
            lambda uuid: 1 if uuid == preferred else -1, np.int64
        )


class DiskWeigher(_ColumnWeigher):
    """Prefer hosts with more free disk, in MiB; a negative multiplier stacks."""

    minval = 0
    option = 'disk_weight_multiplier'
    columns = ('free_disk_mb',)


class HypervisorVersionWeigher(Weigher):
    """Prefer hosts with a newer hypervisor; a negative multiplier, an older one.

    An unknown version counts as 0.
    """

    option = 'hypervisor_version_weight_multiplier'
    columns = ('hypervisor_version',)

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        return np.nan_to_num(hosts.hypervisor_version)


class IoOpsWeigher(_ColumnWeigher):
    """Prefer hosts with fewer heavy tasks; a positive multiplier prefers more."""

    minval = 0
    option = 'io_ops_weight_multiplier'
    columns = ('num_io_ops',)


class NumInstancesWeigher(_ColumnWeigher):
    """Prefer hosts with more instances; a negative multiplier prefers fewer."""

    option = 'num_instances_weight_multiplier'
    columns = ('num_instances',)


class PCIWeigher(Weigher):
    """Prefer hosts with fewer free PCI devices, whatever the request asks for.

    Devices beyond 99 make no difference. Nova: scheduler/weights/pci.py.
    """

    option = 'pci_weight_multiplier'
    columns = ('pci_stats',)

    def __init__(self, multiplier: float | None = None) -> None:
        super().__init__(multiplier)
        self._free = PerValue[HostPools](lambda pools: min(pools.devices, MOST_DEVICES))

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        free: Ints = self._free.of(hosts.pci_stats)
        return MOST_DEVICES + 1 - free


class RAMWeigher(_ColumnWeigher):
    """Prefer hosts with more free RAM, in MiB; a negative multiplier stacks."""

    minval = 0
    option = 'ram_weight_multiplier'
    columns = ('free_ram_mb',)


class SameHostWeigher(Weigher):
    """Prefer the host that a resized instance is on, or an unshelved one was on.

    Requests that ignore the host of the instance, such as migrations, are not affected.
    The host is read from the cell of the instance, once per request.
    """

    option = 'same_host_weight_multiplier'
    multiplier = 0.0
    is_optional = True

    def depends_on(self, request: RequestSpec) -> Collection[str]:
        return ('is_source',) if _may_stay(request) else ()

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        if not _may_stay(request):
            return np.zeros(len(hosts), np.int64)
        return hosts.is_source.astype(np.int64)


def _may_stay(request: RequestSpec) -> bool:
    """Return whether an instance is moved that may end on the host where it was."""
    return request.is_move and not request.if_set('ignore_hosts')
