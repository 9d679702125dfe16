# SPDX-License-Identifier: Apache-2.0
"""Verification of the hard policy of a server group, after the claims of a request.

docs/decisions/0019-groups-are-verified-after-the-claim.md has the rules and the model
that explores them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from novasched import errors
from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import Again, Retry
from novasched.claiming.verification import Verifier
from novasched.cluster.assumed import with_members
from novasched.cluster.host_picks import group_of
from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.outages import PLACEMENT
from novasched.ports import Placement, QueryFailed
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from novasched.scheduler.group_policy import AFFINITY, Conflict, HardPolicy
from novasched.scheduler.hosts import HostState, HostTable, Member
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.snapshot import Snapshot
from novasched.scheduler.weighers.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)

LOG = logging.getLogger(__name__)

MOST_WATCHES = 16
"""How often a request looks whether another member has left, and how often it verifies
the policy again after one has."""
MOST_RECENT, RECENT_S = 10_000, 60.0
MOST_APART, APART_S = 100, 10.0
"""For so long members of a group with affinity are seen on several hosts before they
are known to stay there. A scheduler that looks takes far less time to undo a claim."""
MOST_WATCHED = 200
"""Members of which a request looks whether they leave; placement's API is asked of each
one."""
WATCH_S = 0.1
"""How long a request looks whether other members undo their claims: about as long as
that takes."""

SOFT_POLICIES = (
    ServerGroupSoftAffinityWeigher.policy_name,
    ServerGroupSoftAntiAffinityWeigher.policy_name,
)
"""Placement is not queried for their members: those that this process has placed
recently count.
"""

Place = tuple[str, str]
"""The uuid of a cell and the name of a host in it."""
Places = Mapping[str, Collection[Place]]
"""Where members hold resources."""


def _are_apart(places: Places) -> bool:
    """Return whether no host has all of some members."""
    return bool(places) and not set.intersection(*map(set, places.values()))


class RecentMembers:
    """Where this process has recently placed members of groups; any thread may call it.

    Placement knows better. This is a first guess where a query for each member would be
    needed.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._placed: dict[str, tuple[Place, float]] = {}
        self._apart: dict[str, tuple[Places, float, float]] = {}

    def add(self, placed: Mapping[str, Place]) -> None:
        """Remember members for a while, the newest MOST_RECENT of them."""
        until = self._clock.monotonic() + RECENT_S
        self._placed.update({uuid: (place, until) for uuid, place in placed.items()})
        for uuid in list(self._placed)[:-MOST_RECENT]:
            self._placed.pop(uuid, None)

    def forget(self, members: Iterable[str]) -> None:
        """Placement has been asked where these are."""
        for uuid in members:
            self._placed.pop(uuid, None)

    def of(self, members: Iterable[str]) -> Places:
        """Return the places of the members that are remembered."""
        now = self._clock.monotonic()
        placed = {uuid: self._placed.get(uuid) for uuid in members}
        return {uuid: {p[0]} for uuid, p in placed.items() if p and p[1] > now}

    def stay_apart(self, group: str, others: Places) -> bool:
        """Note where members are that must share one host.

        Returns whether requests for the group have seen them on several hosts for
        APART_S.
        """
        now = self._clock.monotonic()
        seen, since, last = self._apart.pop(group, ({}, now, now))
        same = {uuid: seen[uuid] for uuid in seen if others.get(uuid) == seen[uuid]}
        if last + APART_S / 2 < now or not _are_apart(same):
            same, since = {**others}, now
        if _are_apart(same):
            self._apart[group] = same, since, now
        for oldest in list(self._apart)[:-MOST_APART]:
            self._apart.pop(oldest, None)
        return since + APART_S <= now


class GroupCheck(Verifier):
    """The members of the group of one request that hold resources, though no row of a
    compute shows them yet.

    Without a policy, and with a hard one that no filter verifies, all of this does
    nothing.
    """

    def __init__(
        self,
        request: ClaimedRequest,
        recent: RecentMembers,
        view: ClusterView,
        placement: Placement,
        filters: Sequence[BaseHostFilter],
        is_enforced: bool,
    ) -> None:
        self._view = view
        self._placement = placement
        self._filters = filters
        self._is_enforced = is_enforced
        self._request = request
        self._recent = recent
        self._policy = policy = self._verifiable()
        self._is_affinity = policy is not None and policy.name == AFFINITY
        self._is_bound = policy is not None and policy.is_bound
        self._is_soft = self._has_soft_policy()
        self._seen: Places = {}
        self._places = 0
        self._began_s = 0.0
        self._budget = request.budget
        self._snapshot = Snapshot({})

    def _verifiable(self) -> HardPolicy | None:
        """Return the policy of the group, if that is to be verified."""
        spec = self._request.spec
        policy = HardPolicy.of(spec) if self._is_enforced else None
        if policy is None or group_of(spec) is None:
            return None
        is_forced = spec.force_hosts or spec.force_nodes
        kind: type[BaseHostFilter] = ServerGroupAntiAffinityFilter
        if policy.name == AFFINITY:
            kind = ServerGroupAffinityFilter
        runs = any(isinstance(filter_, kind) for filter_ in self._filters)
        return policy if runs and (not is_forced or spec.checks_type) else None

    def _has_soft_policy(self) -> bool:
        """Return whether a weigher prefers hosts by the members that they run."""
        group = self._request.spec.if_set('instance_group')
        is_soft = group is not None and group.policy in SOFT_POLICIES
        return is_soft and self._is_enforced

    @property
    def lock_key(self) -> str | None:
        """The group of which one request of this process is served after the other."""
        has_turns = self._policy is not None and not self._is_bound
        return group_of(self._request.spec) if has_turns else None

    # -- what a decision sees

    def hosts(self, hosts: HostTable) -> HostTable:
        """Return the hosts with the members that are seen on them, as far as that is
        known of all without a question about each."""
        self._snapshot, self._began_s = hosts.snapshot, SYSTEM_CLOCK.monotonic()
        if self._policy is not None and not self._is_bound:
            self._look_ahead()
        elif self._is_soft:
            group, mine = (
                self._request.spec.instance_group,
                self._request.instance_uuids,
            )
            named = {*((group and group.if_set('members')) or ())}
            self._seen = self._recent.of(named.difference(mine))
        return self.with_seen(hosts)

    def with_seen(self, hosts: HostTable) -> HostTable:
        """Return hosts with the members that this request has seen on them."""
        self._snapshot = hosts.snapshot
        if not self._seen:
            return hosts
        rows: dict[int, list[Member]] = {}
        for uuid, places in self._seen.items():
            for row in self._rows(places):
                rows.setdefault(row, []).append(Member(uuid, self._name(row)))
        return with_members(hosts, rows)

    def _look_ahead(self) -> None:
        mine = self._request.instance_uuids
        others = [uuid for uuid in self._members() if uuid not in mine]
        if not others or (self._is_affinity and self._seen):
            return
        places = self._held_by(others, {}, ())
        if not places and not self._seen:
            places = self._recent.of(others)
        if places and self._is_affinity:
            senior = min(places)
            places = {senior: places[senior]}
        self._seen = places or self._seen

    def request(self, request: RequestSpec) -> RequestSpec:
        """Return the request, its group grown by the members that were seen."""
        group = request.instance_group if 'instance_group' in request else None
        if group is None or not self._seen:
            return request
        hosts = [host for places in self._seen.values() for _, host in places]
        if not self._is_affinity:
            hosts += group.if_set('hosts') or ()
        members = [*(group.if_set('members') or ()), *self._seen]
        return request.replaced(
            instance_group=group.replaced(
                members=list(dict.fromkeys(members)), hosts=list(dict.fromkeys(hosts))
            )
        )

    def in_order(self, hosts: HostTable) -> HostTable:
        """Return ranked hosts, those first that this request is to take: of several
        that yield, each takes another one."""
        if not self._places or len(hosts) < 2 or self._request.required > 1:
            return hosts
        return hosts[np.roll(np.arange(len(hosts)), -self._places % len(hosts))]

    # -- what became of it

    def placed(self, offered: HostTable, hosts: Sequence[HostState]) -> Retry | None:
        """Return why the policy does not hold with what was claimed.

        Raises errors.AllocationUpdateFailed where placement does not answer, or a claim
        may be left behind.
        """
        if self._is_soft:
            self._recent.add(self._mine(hosts))
        if self._policy is None or self._stays(hosts):
            return None
        mine, watches_left = self._mine(hosts), MOST_WATCHES
        others = self._others(hosts)
        while (conflict := self._policy.conflict(mine, others)) is not None:
            watched = {uuid: others[uuid] for uuid in conflict.others}
            watches_left -= 1
            stays = conflict.is_senior and watches_left > 0
            if not stays or self._now(watched) is None:
                return self._abort(self._policy, conflict, others)
            others = self._others(hosts)
        self._recent.add(mine)
        return None

    def _stays(self, hosts: Sequence[HostState]) -> bool:
        """Whether this is a server that stays on its host, such as in a resize.

        Its filter lets it stay, whichever members are there too.
        """
        mine = self._request.instance_uuids
        is_one_that_moves = len(mine) == 1 and self._request.spec.is_move
        return is_one_that_moves and mine[0] in hosts[0].instances

    def released(self) -> Retry | None:
        """Return a retry if members that blocked this request have moved."""
        if self._policy is None or not self._seen:
            return None
        if self._budget.is_spent(Outcome.MEMBERS_MOVED):
            return None
        retry = self._budget.retry(Outcome.MEMBERS_MOVED)
        now = self._now(self._seen)
        if now is None:
            return None
        self._recent.forget(self._seen)
        self._seen, self._places = now, 0
        self._request.claims.abort('members that have gone since', is_conflict=False)
        return retry

    def _now(self, seen: Places) -> Places | None:
        """Return where members are once one has moved, or None if all stay."""
        until, looks_left = SYSTEM_CLOCK.monotonic() + WATCH_S, MOST_WATCHES
        watched = [*seen][:MOST_WATCHED]
        others = {uuid: seen[uuid] for uuid in [*seen][MOST_WATCHED:]}
        while looks_left and SYSTEM_CLOCK.monotonic() < until:
            looks_left -= 1
            self._request.check()
            now = self._held_by(watched, {}, None)
            if now is not None and any(
                {*seen[uuid]} - {*now.get(uuid, ())} for uuid in watched
            ):
                return {**others, **now}
        return None

    def _abort(
        self, policy: HardPolicy, conflict: Conflict[Place], others: Places
    ) -> Retry:
        """Roll the claims back; the next decision is made with what was seen."""
        self._request.check()
        if self._is_affinity:
            self._seen = conflict.others
        else:
            self._seen = {**self._seen, **others}
        self._places = conflict.places
        group = group_of(self._request.spec) or ''
        uuid, places = next(iter(conflict.others.items()))
        more = len(conflict.others) - 1
        hosts = ', '.join(host for _, host in places)
        took_ms = 1000 * (SYSTEM_CLOCK.monotonic() - self._began_s)
        text = (
            f'given up after {took_ms:.0f} ms for {policy.name} with {uuid} on {hosts}'
            + (f' and {more} more' if more else '')
            + f', of server group {group}'
        )
        self._request.claims.abort(text)
        retry = self._budget.retry(Outcome.GROUP_BROKEN, text)
        stay_apart = self._is_affinity and self._recent.stay_apart(group, others)
        if retry.again is Again.NOWHERE or not stay_apart:
            return retry
        if self._now(others) is not None:
            return retry
        return self._budget.retry(Outcome.GROUP_SPLIT, text)

    def _mine(self, hosts: Sequence[HostState]) -> dict[str, Place]:
        return {uuid: (host.cell_uuid, host.host) for uuid, host in self._named(hosts)}

    def _named(self, hosts: Sequence[HostState]) -> Iterable[tuple[str, HostState]]:
        return zip(self._request.instance_uuids, hosts, strict=True)

    def _others(self, hosts: Sequence[HostState]) -> Places:
        """Return where the other members hold resources by now: all of them, or at
        least those that matter."""
        mine = self._mine(hosts)
        others = [uuid for uuid in self._members() if uuid not in mine]
        if not others:
            return {}
        nodes = set(map(self._node, self._rows({*mine.values()})))
        asked: list[set[str] | None] = [nodes]
        if self._is_affinity:
            asked = [nodes, None] if self._is_bound else [None]
        claimed = {uuid: host.uuid for uuid, host in self._named(hosts)}
        places: Places | None = None
        for among in asked:
            places = self._held_by(others, claimed, among)
            if places is None or places:
                break
        return places or {}

    def _members(self) -> Collection[str]:
        """Return the current members of the group, or the members that the request
        names.

        Without the API database no server is added to a group.
        """
        group = self._request.spec.instance_group
        assert group is not None
        try:
            return self._view.group_members(group.uuid)
        except errors.StoreFailed as problem:
            LOG.warning(
                'The policy of server group %s is verified for the members that the '
                'request names: %s',
                group.uuid,
                problem,
            )
            return group.if_set('members') or ()

    def _held_by(
        self,
        members: Sequence[str],
        mine: Mapping[str, str],
        among: Collection[str] | None,
    ) -> Places | None:
        """Return the hosts whose nodes members take from, None if placement does not
        say it."""
        request = self._request
        with request.recorder.stage('verify'):
            held = self._placement.holders(
                request.context.elevated(), members, mine, among
            )
        if not isinstance(held, QueryFailed):
            return self._places_of(held)
        if held.is_unavailable:
            request.attempt.note_unavailable(PLACEMENT, held.text, held.status)
            raise errors.AllocationUpdateFailed(
                request.spec.instance_uuid,
                'placement does not say where its server group is; try again',
            )
        LOG.warning(
            'The policy of server group %s is not verified: placement does not say '
            'what its members hold: %s',
            group_of(request.spec),
            held.text,
        )
        return None

    def _places_of(self, held: Mapping[str, Collection[str]]) -> Places:
        """Return the hosts of the compute nodes among providers, by member."""
        wanted = {uuid for uuids in held.values() for uuid in uuids}
        nodes = self._snapshot.column('uuid').tolist()
        rows = {uuid: row for row, uuid in enumerate(nodes) if uuid in wanted}
        held_at = {
            member: {self._place(rows[uuid]) for uuid in uuids if uuid in rows}
            for member, uuids in held.items()
        }
        return {member: places for member, places in held_at.items() if places}

    # -- rows of hosts

    def _rows(self, places: Iterable[Place]) -> list[int]:
        """Return the rows of the compute nodes of hosts."""
        names = self._snapshot.column('host')
        return [
            row
            for cell, host in places
            for row in np.flatnonzero(names == host).tolist()
            if self._place(row) == (cell, host)
        ]

    def _place(self, row: int) -> Place:
        return self._snapshot.column('cell_uuid').item(row), self._name(row)

    def _name(self, row: int) -> str:
        return str(self._snapshot.column('host')[row])

    def _node(self, row: int) -> str:
        return str(self._snapshot.column('uuid')[row])
