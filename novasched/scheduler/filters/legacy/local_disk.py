# SPDX-License-Identifier: Apache-2.0
"""Filter by disks in the host itself, for flavors that need them."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.filters.legacy.disk import asked_mb
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

SIZE, TYPE = 'local_disk:size_gb', 'local_disk:type'
LARGEST_MB = 2**62


def local_mb(request: RequestSpec) -> int | None:
    """Return how much free disk the host must have in MiB; None: any is fine.

    Raises ValueError if the size is not a whole number, or negative.
    """
    size = request.extra_specs.get(SIZE)
    if size is None:
        return None
    size_gb = int(size)
    if size_gb < 0:
        raise ValueError(size)
    return min(1024 * size_gb + asked_mb(request), LARGEST_MB)


class LocalDiskFilter(ColumnFilter):
    """Pass hosts with the local disks that a flavor asks for.

    ``local_disk:type`` must be in the comma-separated ``local_disk_type`` of an
    aggregate of the host. With ``local_disk:size_gb``, an aggregate must say
    ``local_disk=true``, and that much disk must be free in addition to the disks of the
    flavor; a size that is no number rejects every host.
    Nova has no such filter.
    """

    codes = (
        Code.EXTRA_SPEC_INVALID,
        Code.LOCAL_DISK_DIFFERS,
        Code.LOCAL_DISK_MISSING,
        Code.NOT_ENOUGH_DISK,
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        wanted = request.extra_specs.get(TYPE)
        try:
            needed = local_mb(request)
        except ValueError:
            return ~passes
        if wanted is not None:
            passes &= hosts.aggregates.map(lambda a: wanted in _types(a))
        if needed is not None:
            passes &= hosts.aggregates.map(_has_disks) & (hosts.free_disk_mb >= needed)
        return passes

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        wanted = request.extra_specs.get(TYPE)
        try:
            needed = local_mb(request)
        except ValueError:
            text = f'{SIZE} is {request.extra_specs[SIZE]!r}, not a number of GiB'
            return Reason(Code.EXTRA_SPEC_INVALID, text)
        types = _types(host.aggregates)
        if wanted is not None and wanted not in types:
            text = f'local disks are of type {", ".join(sorted(types))}, not {wanted}'
            return Reason(Code.LOCAL_DISK_DIFFERS, text)
        if not _has_disks(host.aggregates):
            return Reason(Code.LOCAL_DISK_MISSING, 'no aggregate says local_disk=true')
        text = f'{needed} MB of local disk asked, {host.free_disk_mb} MB free'
        return Reason(Code.NOT_ENOUGH_DISK, text)


def _types(host_aggregates: aggregates.Aggregates) -> set[str]:
    return aggregates.metadata(host_aggregates).get('local_disk_type', set())


def _has_disks(host_aggregates: aggregates.Aggregates) -> bool:
    return 'true' in aggregates.metadata(host_aggregates).get('local_disk', ())
