# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by where other instances run, and by the network of the host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import netaddr  # type: ignore[import-untyped]
import numpy as np

from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Instances, any_of
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import REJECTED, Code, Reason

MOST_NAMED = 20
"""A hint may name any number of instances, and each host has the reason."""


def max_server_per_host(group: InstanceGroup) -> int:
    """Return how many members of the group one host may run."""
    return int(group.rules.get('max_server_per_host', 1))


def running(members: frozenset[str], instances: Mapping[str, object]) -> int:
    """Return how many of the members are among a host's instances by uuid."""
    return len(members.intersection(instances))


def having(hosts: HostTable, uuids: frozenset[str]) -> Mask:
    """Return the mask of the hosts that have any of the instances."""
    column = hosts.snapshot.column('instances')
    if isinstance(column, Instances):
        return column.having(uuids, hosts.rows)
    return any_of(uuids, column[hosts.rows].tolist())


class ServerGroupAntiAffinityFilter(ColumnFilter):
    """Pass hosts with fewer members of the server group than its rules allow.

    A host that already has the instance itself passes: a move may consider it.
    Nova: scheduler/filters/affinity_filter.py.
    """

    reads_aggregates = False
    policy_name = 'anti-affinity'
    codes = (Code.GROUP_LIMIT, Code.REJECTED)

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        return () if request.instance_group is None else None

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        group = request.instance_group
        if group is None or group.policy != self.policy_name:
            return np.ones(len(hosts), bool)
        me, passes = request.instance_uuid, np.ones(len(hosts), bool)
        if all(me in hosts.state(place).instances for place in range(len(hosts))):
            return passes
        # The limit may be nonsense: only hosts that need it raise, as in nova.
        members, limit = frozenset(group.members or ()), max_server_per_host(group)
        if limit <= 0:
            return _has_any(hosts, [me])
        near = np.flatnonzero(having(hosts, members))
        passes[near] = [
            me in instances or running(members, instances) < limit
            for instances in hosts[near].instances.tolist()
        ]
        return passes

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        group = request.instance_group
        if group is None:
            return REJECTED
        count = running(frozenset(group.members or ()), host.instances)
        noun = 'member' if count == 1 else 'members'
        text = f'{count} {noun} of the group, limit {max_server_per_host(group)}'
        return Reason(Code.GROUP_LIMIT, text)


def among(names: set[str], hosts: HostTable) -> Mask:
    """Return the mask of the hosts that have one of the names."""
    return np.fromiter(map(names.__contains__, hosts.host.tolist()), bool)


class _GroupHostsFilter(ColumnFilter):
    """Pass the hosts where the group is already; any host if it is nowhere yet."""

    reads_aggregates = False

    policy_name: str
    codes = (Code.NOT_IN_GROUP, Code.REJECTED)

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        return () if request.instance_group is None else None

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        named = self.group_hosts(request)
        return among(named, hosts) if named else np.ones(len(hosts), bool)

    def group_hosts(self, request: RequestSpec) -> set[str]:
        """Return the hosts of the group; none if its policy is another."""
        group = request.instance_group
        if group is None or self.policy_name not in (group.policies or ()):
            return set()
        return set(group.hosts or ())

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        group = request.instance_group
        if group is None:
            return REJECTED
        text = f'the group is on {", ".join(sorted(set(group.hosts or ())))}'
        return Reason(self.codes[0], text)


class ServerGroupAffinityFilter(_GroupHostsFilter):
    """Pass the hosts where the server group is; any host if it is nowhere yet.

    Nova: scheduler/filters/affinity_filter.py.
    """

    policy_name = 'affinity'


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
        return ~among(self.group_hosts(request), hosts)


def hinted(request: RequestSpec, name: str) -> list[str]:
    """Return the instances that a hint names; empty: the hint asks nothing."""
    hint = request.hint(name)
    if not hint:
        return []
    return [hint] if isinstance(hint, str) else list(hint)


def _has_any(hosts: HostTable, uuids: list[str]) -> Mask:
    wanted, column = frozenset(uuids), hosts.instances.tolist()
    return np.array([not each.keys().isdisjoint(wanted) for each in column], bool)


class DifferentHostFilter(ColumnFilter):
    """Pass hosts without the instances that the hint ``different_host`` names.

    Nova: scheduler/filters/affinity_filter.py.
    """

    reads_aggregates = False
    codes = (Code.INSTANCE_PRESENT,)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        uuids = hinted(request, 'different_host')
        return ~_has_any(hosts, uuids) if uuids else np.ones(len(hosts), bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        uuids = hinted(request, 'different_host')
        found = ', '.join(uuid for uuid in uuids if uuid in host.instances)
        return Reason(Code.INSTANCE_PRESENT, f'runs {found}')


class SameHostFilter(ColumnFilter):
    """Pass hosts with one of the instances that the hint ``same_host`` names.

    Nova: scheduler/filters/affinity_filter.py.
    """

    reads_aggregates = False
    codes = (Code.INSTANCE_ABSENT,)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        uuids = hinted(request, 'same_host')
        return _has_any(hosts, uuids) if uuids else np.ones(len(hosts), bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        wanted = hinted(request, 'same_host')
        text = ', '.join(wanted[:MOST_NAMED])
        if len(wanted) > MOST_NAMED:
            text += f' and {len(wanted) - MOST_NAMED} more'
        return Reason(Code.INSTANCE_ABSENT, f'runs none of {text}')


def _network(request: RequestSpec) -> netaddr.IPNetwork | None:
    """Return the network near which to build, or None. Raises on nonsense."""
    address = request.hint('build_near_host_ip')
    if not address:
        return None
    return netaddr.IPNetwork(address + request.hint('cidr', '/24'))


class SimpleCIDRAffinityFilter(ColumnFilter):
    """Pass hosts in the network of the address in the hint ``build_near_host_ip``.

    The hint ``cidr``, by default ``/24``, is appended to the address as it is.
    Raises if that is no network, or a host has no address. Nova:
    scheduler/filters/affinity_filter.py.
    """

    reads_aggregates = False
    codes = (Code.WRONG_NETWORK,)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        network = _network(request) if len(hosts) else None
        if network is None:
            return np.ones(len(hosts), bool)
        version, first, last = network.version, network.first, network.last

        def inside(address: Any) -> bool:
            if address is None:
                raise TypeError('a host has no address')
            return bool(address.version == version and first <= int(address) <= last)

        return np.array([inside(address) for address in hosts.host_ip.tolist()], bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        network = _network(request)
        return Reason(Code.WRONG_NETWORK, f'{host.host_ip} is not in {network}')
