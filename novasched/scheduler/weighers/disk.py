# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by free disk space."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher, multiplier_opt

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            'disk_weight_multiplier',
            1.0,
            'Weight of free disk. Positive spreads instances, negative stacks them.',
        )
    ]
}


class DiskWeigher(Weigher):
    """Prefer hosts with more free disk, in MiB; a negative multiplier stacks."""

    minval = 0
    option = 'disk_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return hosts.free_disk_mb
