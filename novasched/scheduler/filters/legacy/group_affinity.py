# SPDX-License-Identifier: Apache-2.0
"""Filters of hosts by server groups of the policy ``legacy``."""

from __future__ import annotations

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.affinity import _GroupHostsFilter, among
from novasched.scheduler.hosts import HostTable, Mask
from novasched.scheduler.reasons import Code


class GroupAffinityFilter(_GroupHostsFilter):
    """Pass the hosts where a server group of old is; any if it is nowhere yet.

    Its policy is ``legacy``, which no server group has had since Juno. Nova Juno:
    scheduler/filters/affinity_filter.py.
    """

    policy_name = 'legacy'


class GroupAntiAffinityFilter(_GroupHostsFilter):
    """Pass the hosts where a server group of old is not, policy ``legacy``.

    Nova Juno: scheduler/filters/affinity_filter.py.
    """

    codes = (Code.GROUP_LIMIT, Code.REJECTED)
    policy_name = 'legacy'

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        group = request.instance_group
        if group is None or self.policy_name not in (group.policies or ()):
            return np.ones(len(hosts), bool)
        return ~among(set(group.hosts or ()), hosts)
