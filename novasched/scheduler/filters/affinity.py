# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by where the other members of the server group run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask


def max_server_per_host(group: InstanceGroup) -> int:
    """Return how many members of the group one host may run."""
    return int(group.rules.get('max_server_per_host', 1))


def running(members: set[str], instances: Mapping[str, object]) -> int:
    """Return how many of the members are among a host's instances by uuid."""
    if members.isdisjoint(instances):
        return 0
    return len(members.intersection(instances))


class ServerGroupAntiAffinityFilter(ColumnFilter):
    """Pass hosts with fewer members of the group than its rules allow.

    A host that already has the instance itself passes: a move may consider it.
    Nova: scheduler/filters/affinity_filter.py, _GroupAntiAffinityFilter.
    """

    policy_name = 'anti-affinity'

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        group = request.instance_group
        if group is None or group.policy != self.policy_name:
            return np.ones(len(hosts), bool)
        members, limit = set(group.members or ()), max_server_per_host(group)
        uuid = request.instance_uuid
        return np.array(
            [
                uuid in instances or running(members, instances) < limit
                for instances in hosts.instances.tolist()
            ],
            bool,
        )

    def why(self, host: HostState, request: RequestSpec) -> str:
        group = request.instance_group
        if group is None:
            return 'rejected'
        count = running(set(group.members or ()), host.instances)
        return f'{count} members of the group, limit {max_server_per_host(group)}'


class ServerGroupAffinityFilter(ColumnFilter):
    """Pass the hosts where the group is already; any host if it is nowhere yet.

    Nova: scheduler/filters/affinity_filter.py, _GroupAffinityFilter.
    """

    policy_name = 'affinity'

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        group = request.instance_group
        if group is None or self.policy_name not in (group.policies or ()):
            return np.ones(len(hosts), bool)
        allowed = set(group.hosts or ())
        if not allowed:
            return np.ones(len(hosts), bool)
        return np.array([host in allowed for host in hosts.host.tolist()], bool)

    def why(self, host: HostState, request: RequestSpec) -> str:
        group = request.instance_group
        if group is None:
            return 'rejected'
        return f'the group is on {", ".join(sorted(set(group.hosts or ())))}'
