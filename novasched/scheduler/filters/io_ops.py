# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that are busy building, resizing or moving instances."""

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
            'max_io_ops_per_host',
            default=8,
            min=0,
            deprecated_group='DEFAULT',
            help='Builds, resizes and other heavy tasks that may be under way on a '
            'host. IoOpsFilter rejects a host with this many or more; for '
            'AggregateIoOpsFilter, aggregates may set another number in metadata of '
            'the same name.',
        )
    ]
}


class IoOpsFilter(ColumnFilter):
    """Pass hosts with fewer than ``limit`` heavy tasks under way.

    Nova: scheduler/filters/io_ops_filter.py.
    """

    codes = (Code.TOO_MANY_IO_OPS,)

    def __init__(self, limit: int = 8) -> None:
        self.limit = limit

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.filter_scheduler.max_io_ops_per_host)

    def _get_max_io_ops_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        """Return the limit of one host: the hook of subclasses made for nova."""
        return self.limit

    def limits(self, hosts: HostTable) -> Ints:
        """Return the limit of each host."""
        return np.full(len(hosts), self.limit)

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        if not self._overrides('_get_max_io_ops_per_host', 'limits'):
            return hosts.num_io_ops < self.limits(hosts)
        hook = self._get_max_io_ops_per_host
        return np.array([h.num_io_ops < hook(h, request) for h in hosts.states()], bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        limit = self._get_max_io_ops_per_host(host, request)
        text = f'{host.num_io_ops} heavy tasks under way, limit {limit}'
        return Reason(Code.TOO_MANY_IO_OPS, text)


class AggregateIoOpsFilter(IoOpsFilter):
    """Pass hosts with fewer heavy tasks than the lowest limit of their aggregates.

    ``limit`` counts for hosts whose aggregates set none, or something that is no
    number. Nova: scheduler/filters/io_ops_filter.py.
    """

    def _get_max_io_ops_per_host(
        self, host_state: HostState, spec_obj: RequestSpec
    ) -> int:
        return limits.lowest(host_state.aggregates, 'max_io_ops_per_host', self.limit)

    def limits(self, hosts: HostTable) -> Ints:
        return hosts.aggregates.map(
            lambda a: limits.lowest(a, 'max_io_ops_per_host', self.limit), np.int64
        )
