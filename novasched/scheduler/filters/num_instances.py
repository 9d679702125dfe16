# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that already run too many instances."""

from __future__ import annotations

from typing import Any, Self

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask

OPTS = {
    'filter_scheduler': [
        cfg.IntOpt(
            'max_instances_per_host',
            default=50,
            min=1,
            deprecated_group='DEFAULT',
            help='Instances that a host may run. NumInstancesFilter rejects a host '
            'that runs this many or more.',
        )
    ]
}


class NumInstancesFilter(ColumnFilter):
    """Pass hosts with fewer than ``limit`` instances.

    Nova: scheduler/filters/num_instances_filter.py.
    """

    def __init__(self, limit: int = 50) -> None:
        self.limit = limit

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.filter_scheduler.max_instances_per_host)

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        return hosts.num_instances < self.limit

    def why(self, host: HostState, request: RequestSpec) -> str:
        return f'{host.num_instances} instances, limit {self.limit}'
