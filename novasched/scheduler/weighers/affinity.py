# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the other members of the server group that they run."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.affinity import having, running
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher, multiplier_opt

OPTS = {
    'filter_scheduler': [
        multiplier_opt(
            'soft_affinity_weight_multiplier',
            1.0,
            'Weight of keeping the members of a soft-affinity group together.',
            min=0.0,
            deprecated_group='DEFAULT',
        ),
        multiplier_opt(
            'soft_anti_affinity_weight_multiplier',
            1.0,
            'Weight of keeping the members of a soft-anti-affinity group apart.',
            min=0.0,
            deprecated_group='DEFAULT',
        ),
    ]
}


def members_on(hosts: HostTable, request: RequestSpec, policy: str) -> Ints:
    """Return how many members of a group with the policy each host runs."""
    group = request.instance_group
    counts = np.zeros(len(hosts), np.int64)
    if group is None or group.policy != policy or not group.members:
        return counts
    members = frozenset(group.members)
    near = np.flatnonzero(having(hosts, members))
    counts[near] = [running(members, i) for i in hosts[near].instances.tolist()]
    return counts


class _GroupWeigher(Weigher):
    """Counts the members of the request's group, if it has the policy."""

    policy_name: ClassVar[str]

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        return () if request.instance_group is None else None

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return members_on(hosts, request, self.policy_name)


class ServerGroupSoftAffinityWeigher(_GroupWeigher):
    """Prefer hosts with more members of the request's soft-affinity group.

    Nova: scheduler/weights/affinity.py.
    """

    policy_name = 'soft-affinity'
    option = 'soft_affinity_weight_multiplier'


class ServerGroupSoftAntiAffinityWeigher(_GroupWeigher):
    """Prefer hosts with fewer members of the request's soft-anti-affinity group.

    Nova: scheduler/weights/affinity.py.
    """

    policy_name = 'soft-anti-affinity'
    option = 'soft_anti_affinity_weight_multiplier'

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        return -super().weigh(hosts, request)
