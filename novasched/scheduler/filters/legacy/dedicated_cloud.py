# SPDX-License-Identifier: Apache-2.0
"""Filter by pools of hosts that are dedicated to one customer."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

POOL, PROJECTS = 'dedicated_cloud_id', 'dedicated_cloud_project_id'
SPEC = 'dedicated_cloud:id'


def wanted_pool(request: RequestSpec) -> str | None:
    """Return the pool of the hint, else that of the flavor; None: no pool.

    A hint of several values is one that no host has.
    """
    hint = request.hint(POOL)
    if hint and not isinstance(hint, str):
        return ', '.join(hint)
    return hint or request.extra_specs.get(SPEC) or None


def _listed(aggregate: Aggregate, key: str) -> set[str]:
    values = aggregates.metadata((aggregate,)).get(key, set())
    return values - {''}


class DedicatedCloudFilter(ColumnFilter):
    """Pass hosts of the dedicated pool that is asked for; without one, of no pool.

    The pool is the hint ``dedicated_cloud_id``, else the extra spec
    ``dedicated_cloud:id``. A host is in the pools that its aggregates list as
    ``dedicated_cloud_id``; the same aggregate may list as
    ``dedicated_cloud_project_id`` the only projects that may use them. Nova has no
    such filter.
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
    return set().union(*(_listed(one, POOL) for one in host_aggregates))


def _admits(aggregate: Aggregate, pool: str, project: str | None) -> bool:
    projects = _listed(aggregate, PROJECTS)
    return pool in _listed(aggregate, POOL) and (not projects or project in projects)
