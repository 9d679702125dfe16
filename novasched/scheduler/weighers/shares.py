# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the share of a resource that is free after the instance.

Nova weighs absolute amounts, so hosts of unlike sizes fill unevenly.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.weighers import Weigher, multiplier_opt

Amounts = NDArray[Any]

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            f'{name}_share_weight_multiplier',
            0.0,
            f'Weight of the share of {what} that is free after the instance. Positive '
            'fills hosts of all sizes alike, negative stacks instances.',
        )
        for name, what in (('cpu', 'virtual CPUs'), ('disk', 'disk'), ('ram', 'RAM'))
    ]
}


class _ShareWeigher(Weigher):
    """A weigher by the free share of one resource; 0 for a host that has none of it."""

    multiplier = 0.0
    is_optional = True

    @abc.abstractmethod
    def capacity_and_used(
        self, hosts: HostTable, request: RequestSpec
    ) -> tuple[Floats, Amounts]:
        """Return the capacity with over-commit, and what is used with the instance."""

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        capacity, used = self.capacity_and_used(hosts, request)
        weights = np.zeros(len(hosts))
        np.divide(capacity - used, capacity, out=weights, where=capacity > 0)
        return weights


class CPUShareWeigher(_ShareWeigher):
    """Prefer hosts with a larger share of virtual CPUs left after the instance."""

    option = 'cpu_share_weight_multiplier'
    columns = ('vcpus_total', 'cpu_allocation_ratio', 'vcpus_used')

    def capacity_and_used(
        self, hosts: HostTable, request: RequestSpec
    ) -> tuple[Floats, Amounts]:
        capacity = hosts.vcpus_total * hosts.cpu_allocation_ratio
        return capacity, hosts.vcpus_used + request.vcpus


class DiskShareWeigher(_ShareWeigher):
    """Prefer hosts with a larger share of disk left after the instance.

    An instance that boots from a volume takes no root disk.
    """

    option = 'disk_share_weight_multiplier'
    columns = ('total_usable_disk_gb', 'disk_allocation_ratio', 'free_disk_mb')

    def capacity_and_used(
        self, hosts: HostTable, request: RequestSpec
    ) -> tuple[Floats, Amounts]:
        total_mb = hosts.total_usable_disk_gb * 1024
        root_gb = 0 if request.if_set('is_bfv') else request.root_gb
        taken_mb = (root_gb + request.ephemeral_gb) * 1024
        used_mb = total_mb - hosts.free_disk_mb + taken_mb
        return total_mb * hosts.disk_allocation_ratio, used_mb


class RAMShareWeigher(_ShareWeigher):
    """Prefer hosts with a larger share of RAM left after the instance."""

    option = 'ram_share_weight_multiplier'
    columns = ('total_usable_ram_mb', 'ram_allocation_ratio', 'free_ram_mb')

    def capacity_and_used(
        self, hosts: HostTable, request: RequestSpec
    ) -> tuple[Floats, Amounts]:
        total_mb = hosts.total_usable_ram_mb
        used_mb = total_mb - hosts.free_ram_mb + request.memory_mb
        return total_mb * hosts.ram_allocation_ratio, used_mb
