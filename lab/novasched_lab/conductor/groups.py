# SPDX-License-Identifier: Apache-2.0
"""Server groups: who is in them, where they are, and whether we can serve them."""

from __future__ import annotations

import logging
from typing import Protocol

from oslo_config import cfg

from novasched import errors
from novasched.db.server_groups import ServerGroup
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import RequestSpec
from novasched_lab.cells import Link
from novasched_lab.failures import UnsupportedPolicy

LOG = logging.getLogger(__name__)

NEEDS = {
    'affinity': ('ServerGroupAffinityFilter', 'GroupAffinityFilter'),
    'anti-affinity': ('ServerGroupAntiAffinityFilter', 'GroupAntiAffinityFilter'),
    'soft-affinity': ('ServerGroupSoftAffinityWeigher',),
    'soft-anti-affinity': ('ServerGroupSoftAntiAffinityWeigher',),
}
"""What of each policy one must be enabled; the first is named where none is."""

ALL_WEIGHERS = 'all_weighers'


class Groups(Protocol):
    """Where server groups are kept."""

    def server_group_of(self, instance_uuid: str) -> ServerGroup | None:
        """Return the server group that an instance is a member of."""


class Places(Protocol):
    """Where instances run."""

    def with_computes(self) -> list[Link]:
        """Return all cells but cell0."""


def enabled_from_conf(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the names of the filters and weighers that schedulers are to use."""
    options = conf.filter_scheduler
    paths = [*options.enabled_filters, *options.weight_classes]
    return frozenset(path.rpartition('.')[2] for path in paths)


class GroupSetup:
    """Makes a request say where the members of its server group are."""

    def __init__(self, groups: Groups, places: Places, enabled: frozenset[str]) -> None:
        self._groups = groups
        self._places = places
        self._enabled = enabled

    def of(self, request: RequestSpec, only: Link | None = None) -> RequestSpec:
        """Return the request with its group, and the hosts of the group's members.

        Members are looked for in one cell, or in all but cell0. Raises
        UnsupportedPolicy. Nova: scheduler/utils.py, setup_instance_group.
        """
        told = request.instance_group if 'instance_group' in request else None
        group = self._groups.server_group_of(request.instance_uuid)
        members = list(group.members if group else _members(told))
        hosts = self._hosts(members, only) if group or told else set()
        if told is not None and 'hosts' in told and told.hosts:
            hosts |= set(told.hosts)
        if group is None:
            if told is None:
                return request
            return request.replaced(instance_group=told.replaced(hosts=sorted(hosts)))
        self._check(group)
        policies = [group.policy] if group.policy else []
        made = group_object(group).replaced(policies=policies, hosts=sorted(hosts))
        return request.replaced(instance_group=made)

    def _hosts(self, members: list[str], only: Link | None) -> set[str]:
        links = [only] if only is not None else self._places.with_computes()
        found: set[str] = set()
        for link in links:
            try:
                found |= link.servers.hosts_of(members)
            except errors.StoreFailed as problem:
                LOG.warning('Members of a server group may be missed: %s', problem)
        return found

    def _check(self, group: ServerGroup) -> None:
        needs = NEEDS.get(group.policy or '')
        if needs is None or self._enabled.intersection(needs):
            return
        if needs[0].endswith('Weigher') and ALL_WEIGHERS in self._enabled:
            return
        raise UnsupportedPolicy(f'{needs[0]} not configured')


def _members(told: InstanceGroup | None) -> list[str]:
    if told is None or 'members' not in told:
        return []
    return list(told.members or ())


def group_object(group: ServerGroup) -> InstanceGroup:
    """Return a group as requests carry it; where its members are, nobody has said."""
    made = InstanceGroup(
        uuid=group.uuid,
        name=group.name,
        project_id=group.project_id,
        user_id=group.user_id,
        policy=group.policy,
        members=list(group.members),
        _rules=dict(group.rules),
    )
    made.obj_reset_changes()
    return made
