# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that already run too many instances."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import limits
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Ints, Mask
from novasched.scheduler.reasons import Code, Reason

OPTS = {
    'filter_scheduler': [
        cfg.IntOpt(
            'max_instances_per_host',
            default=50,
            min=1,
            deprecated_group='DEFAULT',
            help='Instances that a host may run. NumInstancesFilter rejects a host '
            'that runs this many or more; for AggregateNumInstancesFilter, aggregates '
            'may set another number in metadata of the same name.',
        )
    ]
}


class NumInstancesFilter(ColumnFilter):
    """Pass hosts with fewer than ``limit`` instances.

    Nova: scheduler/filters/num_instances_filter.py.
    """

    codes = (Code.TOO_MANY_INSTANCES,)

    def __init__(self, limit: int = 50) -> None:
        self.limit = limit

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.filter_scheduler.max_instances_per_host)

    def _get_max_instances_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        """Return the limit of one host: the hook of subclasses made for nova."""
        return self.limit

    def limits(self, hosts: HostTable) -> Ints:
        """Return the limit of each host."""
        return np.full(len(hosts), self.limit)

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        if not self._overrides('_get_max_instances_per_host', 'limits'):
            return hosts.num_instances < self.limits(hosts)
        hook = self._get_max_instances_per_host
        return np.array(
            [h.num_instances < hook(h, request) for h in hosts.states()], bool
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        limit = self._get_max_instances_per_host(host, request)
        text = f'{host.num_instances} instances, limit {limit}'
        return Reason(Code.TOO_MANY_INSTANCES, text)


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Pass hosts with fewer instances than the lowest limit of their aggregates.

    ``limit`` counts for hosts whose aggregates set none, or something that is no
    number. Nova: scheduler/filters/num_instances_filter.py.
    """

    def _get_max_instances_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        return limits.lowest(
            host_state.aggregates, 'max_instances_per_host', self.limit
        )

    def limits(self, hosts: HostTable) -> Ints:
        return hosts.aggregates.map(
            lambda a: limits.lowest(a, 'max_instances_per_host', self.limit), np.int64
        )
