# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts with too many instances or heavy tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, warnings
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Ints, Mask
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning

LARGEST = 2**63 - 1

OPTS = {
    'filter_scheduler': [
        cfg.IntOpt(
            'max_io_ops_per_host',
            default=8,
            min=0,
            deprecated_group='DEFAULT',
            help='Builds, resizes and other heavy tasks that may be under way on a '
            'host. IoOpsFilter rejects a host with this many or more; for '
            'AggregateIoOpsFilter, aggregates may set another number in metadata of '
            'the same name.',
        ),
        cfg.IntOpt(
            'max_instances_per_host',
            default=50,
            min=1,
            deprecated_group='DEFAULT',
            help='Instances that a host may run. NumInstancesFilter rejects a host '
            'that runs this many or more; for AggregateNumInstancesFilter, aggregates '
            'may set another number in metadata of the same name.',
        ),
    ]
}


class HostLimit(ColumnFilter):
    """Pass hosts that have fewer of something than ``limit``.

    ``column`` counts them, and ``counted`` are the words for them. ``key`` names the
    option. A class that sets these has a method ``_get_<key>(host_state, spec_obj)``
    that returns limit_of(): the hook of subclasses made for nova.
    """

    reads_aggregates = False

    column: ClassVar[str]
    counted: ClassVar[str]
    key: ClassVar[str]

    def __init__(self, limit: int) -> None:
        self.limit = limit

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.filter_scheduler[cls.key])

    @property
    def _hook(self) -> Callable[[HostState, RequestSpec], int]:
        hook: Callable[[HostState, RequestSpec], int]
        hook = getattr(self, f'_get_{self.key}')
        return hook

    def limit_of(self, host: HostState) -> int:
        return self.limit

    def limits(self, hosts: HostTable) -> Ints:
        return np.full(len(hosts), self.limit)

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        return self.column, 'aggregates'

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        counts: Ints = getattr(hosts, self.column)
        return counts < self.limits(hosts)

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return bool(getattr(host_state, self.column) < self._hook(host_state, spec_obj))

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        count, limit = getattr(host, self.column), self._hook(host, request)
        return Reason(self.codes[0], f'{count} {self.counted}, limit {limit}')


class AggregateHostLimit(HostLimit):
    """Lets the aggregates of a host set its limit, as ``key``; the lowest holds.

    ``limit`` holds for a host whose aggregates set none, or one that is no whole
    number.
    """

    reads_aggregates = True

    def _lowest(self, host_aggregates: Aggregates) -> int:
        values = aggregates.values(host_aggregates, self.key)
        limit = aggregates.lowest(values, int, self.limit)
        return max(-LARGEST, min(limit, LARGEST))

    def limit_of(self, host: HostState) -> int:
        return self._lowest(host.aggregates)

    def limits(self, hosts: HostTable) -> Ints:
        return hosts.aggregates.map(self._lowest, np.int64)

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterable[PluginWarning]:
        """Yield which aggregates set several limits, or one that is no number."""
        return warnings.number_warnings(groups, self.key, int)


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


class IoOpsFilter(HostLimit):
    """Pass hosts with fewer than ``max_io_ops_per_host`` heavy tasks under way.

    Such are builds, rebuilds, resizes, snapshots, backups and rescues. Nova:
    scheduler/filters/io_ops_filter.py.
    """

    codes = (Code.TOO_MANY_IO_OPS,)
    column = 'num_io_ops'
    counted = 'heavy tasks under way'
    key = 'max_io_ops_per_host'

    def __init__(self, limit: int = 8) -> None:
        super().__init__(limit)

    def _get_max_io_ops_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        """Return the limit of one host: the hook of subclasses made for nova."""
        return self.limit_of(host_state)


class AggregateIoOpsFilter(AggregateHostLimit, IoOpsFilter):
    """Pass hosts with fewer heavy tasks than the lowest limit of their aggregates.

    Metadata ``max_io_ops_per_host`` is the limit. The option of that name holds for
    hosts whose aggregates set none, or something that is no whole number. Nova:
    scheduler/filters/io_ops_filter.py.
    """
