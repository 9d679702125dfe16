# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by builds that failed of late."""

from __future__ import annotations

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import Floats, HostTable, Ints
from novasched.scheduler.weighers import Weigher

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'build_failure_weight_multiplier',
            default=1000000.0,
            help='Weight against builds that failed since the last that succeeded. '
            'Positive avoids hosts where builds fail; 0 does not mind.',
        )
    ]
}


class BuildFailureWeigher(Weigher):
    """Avoid hosts where builds fail, the more the more of them failed.

    The multiplier, also one that an aggregate sets, counts with its sign changed.
    Nova: scheduler/weights/compute.py.
    """

    option = 'build_failure_weight_multiplier'

    def __init__(self, multiplier: float = 1000000.0) -> None:
        super().__init__(multiplier)

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return hosts.failed_builds

    def aggregate_multipliers(self, hosts: HostTable) -> Floats:
        return -super().aggregate_multipliers(hosts)
