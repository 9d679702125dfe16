# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by heavy tasks under way."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher, multiplier_opt

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            'io_ops_weight_multiplier',
            -1.0,
            'Weight of builds, resizes and other heavy tasks on a host. Negative '
            'prefers hosts with few of them.',
        )
    ]
}


class IoOpsWeigher(Weigher):
    """Prefer hosts with fewer heavy tasks; a positive multiplier prefers more."""

    minval = 0
    option = 'io_ops_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return hosts.num_io_ops
