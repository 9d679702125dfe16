# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by free virtual CPUs."""

from __future__ import annotations

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.weighers import Weigher

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'cpu_weight_multiplier',
            default=1.0,
            help='Weight of free virtual CPUs. Positive spreads instances, negative '
            'stacks them.',
        )
    ]
}


class CPUWeigher(Weigher):
    """Prefer hosts with more virtual CPUs left, over-commit included.

    Raises TypeError if a host never reported, as nova does.
    """

    minval = 0
    option = 'cpu_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        ratios = hosts.cpu_allocation_ratio
        if np.isnan(ratios).any():
            raise TypeError('a host that never reported has no cpu_allocation_ratio')
        return hosts.vcpus_total * ratios - hosts.vcpus_used
