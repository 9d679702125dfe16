# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the number of their instances."""

from __future__ import annotations

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'num_instances_weight_multiplier',
            default=0.0,
            help='Weight of the number of instances. Positive stacks instances, '
            'negative spreads them.',
        )
    ]
}


class NumInstancesWeigher(Weigher):
    """Prefer hosts with more instances; a negative multiplier prefers fewer."""

    option = 'num_instances_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return hosts.num_instances
