# SPDX-License-Identifier: Apache-2.0
"""Filters that nova never had: dedicated pools, local disks and virtual GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json
from novasched.scheduler import aggregates
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.filters import ColumnFilter, WritingFilter
from novasched.scheduler.filters.legacy.overcommit import asked_disk_mb
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

POOL, PROJECTS = 'dedicated_cloud_id', 'dedicated_cloud_project_id'
SPEC = 'dedicated_cloud:id'


def wanted_pool(request: RequestSpec) -> str | None:
    """Return the pool of the hint, else the flavor's; None if neither names one.

    A hint with several values names a pool that no host has.
    """
    hint = request.hint(POOL)
    if hint and not isinstance(hint, str):
        return ', '.join(hint)
    return hint or request.extra_specs.get(SPEC) or None


def _listed(some: Iterable[Aggregate], key: str) -> set[str]:
    """Return the values of a metadata key, separated by commas."""
    return aggregates.metadata(some).get(key, set())


class DedicatedCloudFilter(ColumnFilter):
    """Pass hosts of the dedicated pool that is asked for; without one, of no pool.

    The pool is the hint ``dedicated_cloud_id``, else the extra spec
    ``dedicated_cloud:id``. A host is in the pools that its aggregates list as
    ``dedicated_cloud_id``. If an aggregate lists projects as
    ``dedicated_cloud_project_id``, only these may use its pools. Nova has no such
    filter.
    """

    codes = (Code.WRONG_POOL, Code.PROJECT_NOT_ALLOWED)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        pool = wanted_pool(request)
        if pool is None:
            return hosts.aggregates.map(lambda of: not _pools(of))
        project = request.project_id
        return hosts.aggregates.map(
            lambda of: any(_admits(one, pool, project) for one in of)
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        pool, pools = wanted_pool(request), _pools(host.aggregates)
        if pool in pools:
            text = f'pool {pool} is not for project {request.project_id}'
            return Reason(Code.PROJECT_NOT_ALLOWED, text)
        text = f'in pool {", ".join(sorted(pools)) or None}, not {pool}'
        return Reason(Code.WRONG_POOL, text)


def _pools(host_aggregates: aggregates.Aggregates) -> set[str]:
    return _listed(host_aggregates, POOL) - {''}


def _admits(aggregate: Aggregate, pool: str, project: str | None) -> bool:
    projects = _listed([aggregate], PROJECTS) - {''}
    return pool in _listed([aggregate], POOL) and (not projects or project in projects)


DISK_SIZE, DISK_TYPE = 'local_disk:size_gb', 'local_disk:type'
DISK_TYPES = 'local_disk_type'
LARGEST_MB = 2**62


def local_mb(request: RequestSpec) -> int | None:
    """Return how much free disk the host must have in MiB; None if any amount is
    enough.

    Raises ValueError if the size is not a whole number, or negative.
    """
    size = request.extra_specs.get(DISK_SIZE)
    if size is None:
        return None
    size_gb = int(size)
    if size_gb < 0:
        raise ValueError(size)
    return min(1024 * size_gb + asked_disk_mb(request), LARGEST_MB)


class LocalDiskFilter(ColumnFilter):
    """Pass hosts with the local disks that a flavor asks for.

    ``local_disk:type`` must be in the comma-separated ``local_disk_type`` of an
    aggregate of the host. With ``local_disk:size_gb``, an aggregate must say
    ``local_disk=true``, and that much disk must be free beyond the flavor's disks. A
    size that is no number rejects every host. Nova has no such filter.
    """

    codes = (
        Code.EXTRA_SPEC_INVALID,
        Code.LOCAL_DISK_DIFFERS,
        Code.LOCAL_DISK_MISSING,
        Code.NOT_ENOUGH_DISK,
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        wanted = request.extra_specs.get(DISK_TYPE)
        try:
            needed = local_mb(request)
        except ValueError:
            return ~passes
        if wanted is not None:
            passes &= hosts.aggregates.map(lambda a: wanted in _listed(a, DISK_TYPES))
        if needed is not None:
            passes &= hosts.aggregates.map(_has_disks) & (hosts.free_disk_mb >= needed)
        return passes

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        wanted = request.extra_specs.get(DISK_TYPE)
        try:
            needed = local_mb(request)
        except ValueError:
            size = request.extra_specs[DISK_SIZE]
            text = f'{DISK_SIZE} is {size!r}, not a number of GiB'
            return Reason(Code.EXTRA_SPEC_INVALID, text)
        types = _listed(host.aggregates, DISK_TYPES)
        if wanted is not None and wanted not in types:
            text = f'local disks are of type {", ".join(sorted(types))}, not {wanted}'
            return Reason(Code.LOCAL_DISK_DIFFERS, text)
        if not _has_disks(host.aggregates):
            return Reason(Code.LOCAL_DISK_MISSING, 'no aggregate says local_disk=true')
        text = f'{needed} MB of local disk asked, {host.free_disk_mb} MB free'
        return Reason(Code.NOT_ENOUGH_DISK, text)


def _has_disks(host_aggregates: aggregates.Aggregates) -> bool:
    return 'true' in _listed(host_aggregates, 'local_disk')


VGPU_TYPE, VGPU_TYPES = 'vgpu:type', 'vgpu_types'
_AMOUNT = re.compile(r'resources[a-zA-Z0-9_-]{0,64}:VGPU')


def wanted_vgpus(request: RequestSpec) -> int:
    """Return how many virtual GPUs all groups of the flavor ask for together.

    An amount that is no whole number does not count: placement is not asked for
    it, either.
    """
    specs = request.extra_specs.items()
    return sum(_amount(value) for key, value in specs if _AMOUNT.fullmatch(key))


def _amount(text: str) -> int:
    try:
        return max(int(text), 0)
    except ValueError:
        return 0


def wanted_types(request: RequestSpec) -> set[str] | None:
    """Return the types of which one must be there; None if any is enough."""
    text = request.extra_specs.get(VGPU_TYPE)
    return None if text is None else _words(text)


def vgpus(candidate: Any) -> int:
    """Return the virtual GPUs that an allocation candidate takes."""
    allocations = candidate['allocations'].values()
    return sum(one.get('resources', {}).get('VGPU', 0) for one in allocations)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.split(',')} - {''}


def reported_types(text: str | None) -> set[str]:
    """Read the types that a host reports: a JSON list, or separated by commas."""
    try:
        listed = parse_json(text or '')
    except ValueError:
        listed = None
    if isinstance(listed, list):
        return {word for word in listed if isinstance(word, str)}
    return _words(text or '')


class VGPUFilter(WritingFilter):
    """Pass hosts with virtual GPUs of a type that ``vgpu:type`` lists.

    The host's types stand in ``vgpu_types`` of an aggregate or in what the host
    reports. If placement was asked, only candidates with as many as the flavor's
    ``resources:VGPU`` are kept. Nova has no such filter.
    """

    codes = (Code.VGPU_DIFFERS, Code.VGPU_MISSING)
    writes = ('allocation_candidates',)

    def fit(self, hosts: HostTable, request: RequestSpec) -> tuple[Mask, HostTable]:
        types, amount = wanted_types(request), wanted_vgpus(request)
        passes = np.ones(len(hosts), bool)
        if types is not None:
            passes = _has_type(hosts, types)
        return _with_enough(hosts, passes, amount) if amount else (passes, hosts)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        types = wanted_types(request)
        if types is not None and not _has_type(host.as_table(), types)[0]:
            found = set(_listed(host.aggregates, VGPU_TYPES))
            found |= reported_types(host.stats.get(VGPU_TYPES))
            text = (
                f'virtual GPUs are {_list(found)}, not {request.extra_specs[VGPU_TYPE]}'
            )
            return Reason(Code.VGPU_DIFFERS, text)
        most = max(map(vgpus, host.allocation_candidates), default=0)
        text = f'{wanted_vgpus(request)} virtual GPUs asked, candidates have {most}'
        return Reason(Code.VGPU_MISSING, text)


def _list(types: set[str]) -> str:
    return ', '.join(sorted(types)) or 'of no known type'


def _has_type(hosts: HostTable, types: set[str]) -> Mask:
    """Ask the aggregates, then each distinct report of the hosts that are left."""
    passes: Mask = hosts.aggregates.map(
        lambda of_host: not types.isdisjoint(_listed(of_host, VGPU_TYPES))
    )
    left = np.flatnonzero(~passes)
    texts = [stats.get(VGPU_TYPES) for stats in hosts.stats[left].tolist()]
    known = {text: not types.isdisjoint(reported_types(text)) for text in set(texts)}
    passes[left] = [known[text] for text in texts]
    return passes


def _with_enough(hosts: HostTable, passes: Mask, amount: int) -> tuple[Mask, HostTable]:
    """Drop the candidates with too few; a host that had some and has none fails."""
    passes, left = passes.copy(), {}
    listed = hosts.allocation_candidates.tolist()
    for position in np.flatnonzero(passes).tolist():
        candidates = listed[position]
        enough = [one for one in candidates if vgpus(one) >= amount]
        if len(enough) < len(candidates):
            left[position] = enough
            passes[position] = bool(enough)
    if not left:
        return passes, hosts
    rows = hosts.rows[list(left)]
    changes = {'allocation_candidates': list(left.values())}
    return passes, HostTable(hosts.snapshot.replace(changes, rows), hosts.rows)
