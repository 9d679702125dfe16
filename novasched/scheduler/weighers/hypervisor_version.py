# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the version of their hypervisor."""

from __future__ import annotations

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.weighers import Weigher

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'hypervisor_version_weight_multiplier',
            default=1.0,
            help='Weight of the version of the hypervisor. Positive prefers newer '
            'hypervisors, negative older ones.',
        )
    ]
}


class HypervisorVersionWeigher(Weigher):
    """Prefer hosts with a newer hypervisor; a negative multiplier, an older one.

    An unknown version counts as 0.
    """

    option = 'hypervisor_version_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        return np.nan_to_num(hosts.hypervisor_version)
