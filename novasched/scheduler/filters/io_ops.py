# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that are busy building, resizing or moving instances."""

from __future__ import annotations

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.host_limit import AggregateHostLimit, HostLimit
from novasched.scheduler.hosts import HostState
from novasched.scheduler.reasons import Code

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
