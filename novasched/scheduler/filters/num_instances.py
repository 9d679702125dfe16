# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that already run too many instances."""

from __future__ import annotations

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.host_limit import AggregateHostLimit, HostLimit
from novasched.scheduler.hosts import HostState
from novasched.scheduler.reasons import Code

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


class NumInstancesFilter(HostLimit):
    """Pass hosts with fewer than ``max_instances_per_host`` instances.

    Nova: scheduler/filters/num_instances_filter.py.
    """

    codes = (Code.TOO_MANY_INSTANCES,)
    column = 'num_instances'
    counted = 'instances'
    key = 'max_instances_per_host'

    def __init__(self, limit: int = 50) -> None:
        super().__init__(limit)

    def _get_max_instances_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        """Return the limit of one host: the hook of subclasses made for nova."""
        return self.limit_of(host_state)


class AggregateNumInstancesFilter(AggregateHostLimit, NumInstancesFilter):
    """Pass hosts with fewer instances than the lowest limit of their aggregates.

    Metadata ``max_instances_per_host`` is the limit. The option of that name holds
    for hosts whose aggregates set none, or something that is no whole number. Nova:
    scheduler/filters/num_instances_filter.py.
    """
