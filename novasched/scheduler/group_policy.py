# SPDX-License-Identifier: Apache-2.0
"""The hard policies of server groups, as a request verifies them after its claim.

``tests/properties/test_group_model.py`` explores what follows from these rules, where
any number of schedulers claim for members of one group at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.affinity import max_server_per_host

Host = TypeVar('Host', bound=Hashable)

AFFINITY, ANTI_AFFINITY = 'affinity', 'anti-affinity'


@dataclass(frozen=True)
class Conflict(Generic[Host]):
    """The policy does not hold: because of ``others``, members on these hosts.

    The request that ``is_senior`` may look again before it undoes its claim, as those
    of the others undo theirs at once. Of those that do, each takes the host that is so
    many ``places`` after the best one, so that they do not meet again.
    """

    others: Mapping[str, Collection[Host]]
    is_senior: bool
    places: int = 0


@dataclass(frozen=True)
class HardPolicy:
    """The policy of a server group.

    A request is answered only if, after its claim, the policy holds among its members
    and all others with resources. Of two simultaneous claims, at least the later sees
    the other. Seniority, by uuid, only makes it likely that one stays; the other may
    have been answered before.
    """

    name: str
    most: int = 1  # members that one host may run
    is_bound: bool = False
    """Whether a filter binds the request to hosts where members were."""

    @classmethod
    def of(cls, request: RequestSpec) -> Self | None:
        """Return the policy of a request; None if another request cannot break it."""
        group = request.if_set('instance_group')
        if group is None:
            return None
        if group.policy == ANTI_AFFINITY:
            try:
                return cls(ANTI_AFFINITY, max_server_per_host(group))
            except errors.InvalidRequest:
                return None  # nor can a filter or a compute say whether it holds
        is_affinity = AFFINITY in (group.policy, *(group.if_set('policies') or ()))
        if not is_affinity:
            return None
        return cls(AFFINITY, is_bound=bool(group.if_set('hosts')))

    def conflict(
        self, mine: Mapping[str, Host], others: Mapping[str, Collection[Host]]
    ) -> Conflict[Host] | None:
        """Return why the policy does not hold; None if it holds.

        ``mine`` are the members of the request and the hosts claimed for them.
        ``others`` are other members with resources, and their hosts: two during a move.
        """
        if self.name == AFFINITY:
            return self._apart(mine, others)
        found = [self._crowded(host, mine, others) for host in {*mine.values()}]
        conflicts = [each for each in found if each is not None]
        if not conflicts:
            return None
        return Conflict(
            {uuid: hosts for each in conflicts for uuid, hosts in each.others.items()},
            all(each.is_senior for each in conflicts),
            max(each.places for each in conflicts),
        )

    def _crowded(
        self,
        host: Host,
        mine: Mapping[str, Host],
        others: Mapping[str, Collection[Host]],
    ) -> Conflict[Host] | None:
        """Return the conflict of anti-affinity on one host."""
        there = {uuid: hosts for uuid, hosts in others.items() if host in hosts}
        own = [uuid for uuid in mine if mine[uuid] == host]
        ranks = sorted([*there, *own])
        if not there or len(ranks) <= self.most:
            return None
        rank = max(map(ranks.index, own))
        is_senior = rank < self.most
        return Conflict(there, is_senior, rank if is_senior else rank - self.most)

    def _apart(
        self, mine: Mapping[str, Host], others: Mapping[str, Collection[Host]]
    ) -> Conflict[Host] | None:
        """Return the conflict of affinity with the senior of the members on other
        hosts.

        The request is senior if a member on its host is senior to that one. A bound
        request may join a group on several hosts, as in nova, if a member is here.
        """
        here = {*mine.values()}
        elsewhere = {u: hosts for u, hosts in others.items() if here.isdisjoint(hosts)}
        if not elsewhere or (self.is_bound and len(elsewhere) < len(others)):
            return None
        senior = min(elsewhere)
        near = [*mine, *(others.keys() - elsewhere)]
        return Conflict({senior: others[senior]}, min(near) < senior)
