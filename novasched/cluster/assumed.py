# SPDX-License-Identifier: Apache-2.0
"""What requests picked, of this scheduler and of others, until the hosts show it.

Placement knows what was claimed of its resources. What it does not count, such as NUMA
cells and devices, is remembered here. When a pick counts, and when it ends:
docs/decisions/0007-what-was-picked-is-assumed.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, Self

import numpy as np
from oslo_config import cfg

from novasched.cluster.host_picks import (
    NUMBERS,
    SHAPES,
    AssumedPick,
    HostKey,
    HostPicks,
    Pick,
    PickId,
    UnbookablePick,
    UsageRow,
    booked,
    group_of,
    usage_delta,
)
from novasched.objects.request_spec import RequestSpec
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce
from novasched.scheduler.columns import Instances, column_identity
from novasched.scheduler.filters.host_limit import HostLimit
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.requirements import FitRequirements
from novasched.scheduler.hosts import (
    HostState,
    HostTable,
    Member,
    Objects,
    Snapshot,
    added_member,
)
from novasched.scheduler.pipeline import Profile

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.BoolOpt(
            'assume_picks',
            default=True,
            help="""
Share in-flight picks of what placement does not count between requests and schedulers.

These are NUMA cells, huge pages, devices outside of placement and members of server
groups with a soft policy. Instances and I/O operations count if a filter limits them.
Without this, two requests in quick succession may get the same, and the compute refuses
the second server. Each pick is sent to all schedulers by the fanout of their own topic.
It counts until a newer row of the host shows it, for a minute at most. If a request
learns before its answer that another request was first, it rolls its claim back and
decides again. A lost message costs no more than a refusal by the compute. False, as in
nova: requests see only the rows of the hosts.
""",
        ),
    ]
}

MADE_OF = (*NUMBERS, *SHAPES, 'updated', 'uuid', 'cell_uuid')
SOFT: tuple[str | None, ...] = ('soft-affinity', 'soft-anti-affinity')

FOR_S = 60.0
"""How long a pick is remembered that no row shows."""
MOST_PICKS = 20_000
"""Picks that are remembered; the oldest are forgotten before their time, of hosts
first that no view shows."""
ECHO_S = 0.1
"""How long a request waits for the echo of its own message, after its claim; mostly it
has arrived by then."""
LOOK_EVERY_S = 1.0
"""How often what is over is looked for while no row changes."""
MOST_LOOKS = 3
"""How often hosts are taken from the view while rows come to show what was picked."""


class HostView(NamedTuple):
    """Hosts as a request sees them, with all ``picks`` up to ``number``.

    ``base`` has the columns without any.
    """

    hosts: HostTable
    base: Snapshot
    number: int
    picks: Sequence[AssumedPick] = ()


OnPick = Callable[[str, AssumedPick | None, str], None]
"""Called with an instance and its pick, or None once a scheduler's pick for it is over.

The last argument is the origin of that scheduler.
"""


@dataclass(eq=False)
class AssumedInstances:
    """The picks of all requests, by host. Any thread may call it."""

    fitting: Fitting = field(default_factory=Fitting)
    counted: Collection[str] = (*NUMBERS, *SHAPES)  # the columns that picks change
    for_s: float = FOR_S
    clock: Clock = SYSTEM_CLOCK
    # gets each change by a request of this process
    on_pick: OnPick = lambda uuid, pick, origin: None
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _hosts: dict[HostKey, HostPicks] = field(default_factory=dict)
    _picks: dict[PickId, AssumedPick] = field(default_factory=dict)
    _number: int = 0
    _order: int = 0
    _echoes_arrive: bool = False
    _settled: int = 0
    _looked_s: float = float('-inf')
    # columns that the next two follow from
    _made_of: list[Any] = field(default_factory=list)
    _changed: dict[str, Any] = field(default_factory=dict)  # columns with the picks
    # of server groups, by place of the host
    _members: dict[int, list[Pick]] = field(default_factory=dict)
    _refused: LogOnce = field(default_factory=LogOnce)

    @classmethod
    def from_conf(
        cls, conf: Any, profile: Profile, on_pick: OnPick | None = None
    ) -> Self | None:
        """Read the options; return None if nothing is assumed."""
        if not conf.novasched.assume_picks:
            return None
        limits = [each for each in profile.filters if isinstance(each, HostLimit)]
        counted = (*SHAPES, *dict.fromkeys(each.column for each in limits))
        made = cls(profile.fitting, counted)
        return made if on_pick is None else replace(made, on_pick=on_pick)

    def counts(self, request: RequestSpec) -> bool:
        """Return whether the instance of a request takes something that is counted."""
        if len(self.counted) > len(SHAPES) or self._group_of(request) is not None:
            return True
        requirements = FitRequirements.of(request, self.fitting)
        return requirements.guest is not None or bool(requirements.requests)

    def _group_of(self, request: RequestSpec) -> str | None:
        """Return the server group of a request whose members are counted. Hard policies
        are verified in placement, unless all is counted."""
        group = request.instance_group if 'instance_group' in request else None
        is_soft = group is not None and group.policy in SOFT
        return group_of(request) if is_soft or 'free_ram_mb' in self.counted else None

    def see(
        self,
        take: Callable[[], HostTable],
        but: Collection[str] = (),
        looks: int = MOST_LOOKS,
    ) -> HostView:
        """Return hosts, fresh from the view, with what was picked on them.

        What was picked for the instances ``but`` does not count. ``take`` is called
        again where a row was noticed to show a pick meanwhile: what it returned may be
        older than that row.
        """
        settled = self._settled
        hosts = take()
        with self._lock:
            if settled == self._settled or looks <= 1:
                base, number = hosts.snapshot, self._number
                if self._hosts:
                    self._refresh_columns(base)
                picks = [o for o in self._picks.values() if o.pick.uuid not in but]
                if picks:
                    columns, members = self._changed, self._members
                    if len(picks) < len(self._picks):
                        columns, members = self._columns(base, but)
                    hosts = hosts.with_columns(**columns)
                    hosts = with_members(hosts, members)
                return HostView(hosts, base, number, picks)
        return self.see(take, but, looks - 1)

    def in_group(self, request: RequestSpec) -> list[Pick]:
        """Return the picks for the members of the server group of a request, in
        order."""
        group = self._group_of(request)
        if group is None:
            return []
        return [one.pick for one in self._all(lambda one: one.pick.group == group)]

    def _all(self, wanted: Callable[[AssumedPick], bool]) -> list[AssumedPick]:
        with self._lock:
            return [one for one in self._picks.values() if wanted(one)]

    def add(
        self,
        host: HostState,
        base: Snapshot,
        request: RequestSpec,
        after: int | None = None,
        mine: Collection[str] = (),
        first: str = '',
    ) -> AssumedPick | None:
        """Remember that a host was picked.

        ``host`` is as the request sees it, ``base`` without in-flight picks. Returns
        None if an instance that is not in ``mine`` got the host after the pick
        ``after``. ``first`` is the first of ``mine``. A second pick for an instance is
        announced once it is ``granted``.
        """
        (row,) = UsageRow.all_at(base, [host._row])
        pick = Pick(
            key=(host.cell_uuid, host.uuid),
            host=host.host,
            request=request,
            limits=dict(host.limits),
            seen=row.version,
            group=self._group_of(request),
            first=first or request.instance_uuid,
        )
        pick = replace(pick, usage_delta=usage_delta(row, pick, self.fitting))
        with self._lock:
            of_host = self._hosts.get(pick.key)
            if of_host is not None and after is not None:
                others = [one for one in of_host.picks if one.number > after]
                if any(one.pick.uuid not in mine for one in others):
                    return None
            is_copy = PickId(pick.uuid, '') in self._picks
            made = self._remember(pick, host._row, row, is_copy)
        if not is_copy:
            self.on_pick(pick.uuid, made, '')
        return made

    def granted(self, uuids: Collection[str], picks: Collection[AssumedPick]) -> None:
        """End all other picks for instances that were claimed by ``picks``."""
        self.remove(self._all(lambda one: one.pick.uuid in uuids and one not in picks))
        for one in picks:
            if one.copy:
                with self._lock:
                    if self._picks.pop(one.id, None) is None:
                        continue
                    one.copy = 0
                    self._drop(self._picks.get(one.id))
                    self._picks[one.id] = one
                self.on_pick(one.pick.uuid, one, '')

    def apply_remote(self, pick: Pick) -> None:
        """Add the pick of another scheduler."""
        with self._lock:
            self._remember(pick).order = self._next()

    def end_remote(self, uuid: str, origin: str) -> None:
        """Forget the pick of the scheduler ``origin`` for an instance; later picks of
        other schedulers stay."""
        with self._lock:
            self._drop(self._picks.get(PickId(uuid, origin)))

    def inherit(self, before: Self, origin: str) -> None:
        """Take in the picks of the predecessor, current and later ones.

        Each pick keeps its remaining time. ``origin`` marks the messages of the
        predecessor.
        """
        send = before.on_pick

        def forward(uuid: str, pick: AssumedPick | None, ended: str) -> None:
            if pick is None:
                self.end_remote(uuid, ended or origin)
            else:
                self.apply_remote(replace(pick.pick, origin=origin))
            send(uuid, pick, ended)

        with self._lock, before._lock:  # later changes of the predecessor wait
            before.on_pick = forward
            for one in before._picks.values():
                pick = replace(one.pick, origin=one.pick.origin or origin)
                is_known = PickId(pick.uuid, pick.origin) in self._picks
                if not (one.copy or is_known):
                    made = self._remember(pick)
                    made.until_s, made.shown_s = one.until_s, one.shown_s
                    made.order = self._next()
                    self._hosts[pick.key].used = before._hosts[pick.key].used

    def acknowledge(self, numbers: Mapping[str, int]) -> None:
        """Note that own messages have come back, so all schedulers have got them.

        ``numbers`` are the numbers of the picks, by instance.
        """
        with self._lock:
            self._echoes_arrive = True
            for uuid, number in numbers.items():
                one = self._picks.get(PickId(uuid, ''))
                if one is not None and one.number == number:
                    one.order = self._next()
            self._lock.notify_all()

    def wait_for_echo(self, picks: Collection[AssumedPick]) -> None:
        """Wait until the messages of picks have come back: earlier messages of others
        have arrived by then.

        After a timeout no request waits until the next message comes back.
        """
        with self._lock:
            if self._echoes_arrive:
                self._echoes_arrive = self._lock.wait_for(
                    lambda: all(
                        one.order or self.any_forgotten([one]) for one in picks
                    ),
                    ECHO_S,
                )

    def _next(self) -> int:
        self._order += 1
        return self._order

    def picks_after(self, key: HostKey, number: int) -> list[AssumedPick]:
        return self._all(lambda one: one.pick.key == key and one.number > number)

    def any_forgotten(self, picks: Iterable[AssumedPick]) -> bool:
        """Return whether some of the picks are forgotten."""
        return any(self._picks.get(one.id) is not one for one in picks)

    def less(
        self, hosts: HostTable, row: int, picks: Iterable[AssumedPick]
    ) -> HostTable:
        """Return hosts after the host in a row took picks."""
        for one in picks:
            try:
                hosts = booked(hosts, row, one.pick, self.fitting)
            except UnbookablePick as problem:
                with self._lock:
                    self._refuse(problem)
        return hosts

    def remove(self, picks: Collection[AssumedPick]) -> None:
        """Forget picks: they were not claimed, or the claim was undone."""
        with self._lock:
            known = [o for o in dict.fromkeys(picks) if self._picks.get(o.id) is o]
            for one in known:
                self._drop(one)
        for one in known:
            if not one.copy:
                self.on_pick(one.pick.uuid, None, one.pick.origin)

    def remove_instances(self, uuids: Collection[str]) -> None:
        """Forget what was picked for these instances: they are asked for again."""
        self.remove(self._all(lambda one: one.pick.uuid in uuids))

    def __len__(self) -> int:
        return len(self._picks)

    def oldest_s(self) -> float:
        """Return how long the oldest pick has been remembered that no row shows."""
        until_s = min((o.until_s for o in self._all(_is_due)), default=float('inf'))
        return max(0.0, self.clock.monotonic() + self.for_s - until_s)

    # -- with the lock

    def _remember(
        self,
        pick: Pick,
        place: int = 0,
        row: UsageRow | None = None,
        is_copy: bool = False,
    ) -> AssumedPick:
        self._number += 1
        made = AssumedPick(pick, self._number, self.clock.monotonic() + self.for_s)
        made.copy = self._number if is_copy else 0
        self._drop(self._picks.get(made.id))
        if len(self._picks) >= MOST_PICKS:
            picks = self._picks.values()
            unknown = (o for o in picks if self._hosts[o.pick.key].row is None)
            self._drop(next(unknown, None) or next(iter(picks)))
        new = HostPicks(place, pick.seen.used, row)
        self._hosts.setdefault(pick.key, new).picks.append(made)
        self._picks[made.id] = made
        self._made_of = []
        return made

    def _refuse(self, problem: UnbookablePick) -> None:
        """Forget a pick of another scheduler that cannot be booked on its host."""
        pick = problem.pick
        one = self._picks.get(PickId(pick.uuid, pick.origin))
        if one is not None and one.pick is pick:
            self._drop(one)
        if self._refused.begins(type(problem.__cause__).__name__):
            LOG.warning(
                'Picks of other schedulers are ignored, at least one, as it cannot be '
                'booked: %s',
                problem,
            )

    def _drop(self, one: AssumedPick | None) -> None:
        if one is not None:
            of_host = self._hosts[one.pick.key]
            of_host.remove(one)
            if not of_host.picks:
                del self._hosts[one.pick.key]
            del self._picks[one.id]
            self._made_of = []

    def _refresh_columns(self, base: Snapshot) -> None:
        """Make the columns with the picks, unless all is as it was a moment ago."""
        made_of = [column_identity(base.column(name)) for name in MADE_OF]
        same = bool(self._made_of) and all(map(is_, self._made_of, made_of))
        now_s = self.clock.monotonic()
        if same and now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        self._reconcile(base, now_s)
        self._changed, self._members = self._columns(base)
        self._made_of = made_of

    def _columns(
        self, base: Snapshot, but: Collection[str] = ()
    ) -> tuple[dict[str, Any], dict[int, list[Pick]]]:
        """Return the columns with the picks, and picks of members by place of the host.

        Picks for the instances ``but`` are left out.
        """
        found = [host for host in self._hosts.values() if host.row is not None]
        values = {host.place: self._values(host, but) for host in found}
        columns = {}
        for name in self.counted:
            of_name = {at: each[name] for at, each in values.items() if name in each}
            if of_name:
                changed = {name: list(of_name.values())}
                column = base.replace(changed, np.array(list(of_name))).column(name)
                columns[name] = column
        members: dict[int, list[Pick]] = {}
        for host in found:
            if picks := host.members(but):
                members[host.place] = picks
        return columns, members

    def _values(self, host: HostPicks, but: Collection[str]) -> dict[str, Any]:
        while True:
            try:
                return host.values(self.fitting, but)
            except UnbookablePick as problem:
                self._refuse(problem)

    def _reconcile(self, base: Snapshot, now_s: float) -> None:
        """Forget what is over, and what rows show."""
        self._locate_hosts(base)
        for host in self._hosts.values():
            if host.reconcile(now_s):
                self._settled += 1
        self._hosts = {key: host for key, host in self._hosts.items() if host.picks}
        kept = {one for host in self._hosts.values() for one in host.picks}
        self._picks = {i: one for i, one in self._picks.items() if one in kept}

    def _locate_hosts(self, base: Snapshot) -> None:
        """Find the places of hosts in the columns of the view, and their rows."""
        uuids, cells = base.column('uuid'), base.column('cell_uuid')

        def is_there(key: HostKey, at: int) -> bool:
            return at < len(uuids) and (cells.item(at), uuids[at]) == key

        hosts, found = self._hosts.items(), []
        moved = {key[1] for key, host in hosts if not is_there(key, host.place)}
        places = {  # in one pass: picks of others may name any number of hosts
            (cells.item(at), uuid): at
            for at, uuid in enumerate(uuids.tolist() if moved else ())
            if uuid in moved
        }
        for key, host in hosts:
            host.row = None
            host.place = places.get(key, host.place)
            if is_there(key, host.place):
                found.append(host)
        rows = UsageRow.all_at(base, [host.place for host in found])
        for host, row in zip(found, rows, strict=True):
            host.row = row


def _is_due(one: AssumedPick) -> bool:
    return one.shown_s is None


def with_members(
    hosts: HostTable, members: Mapping[int, Sequence[Pick | Member]]
) -> HostTable:
    """Add members of groups to the instances of hosts, by row, once these are read."""
    if not members:
        return hosts

    def changed(column: Objects | Instances) -> Instances:
        new = column.copy() if isinstance(column, Instances) else Instances(column)
        for place, picks in members.items():
            instances = new.item(place)
            if instances is not None:  # a host that this request looks at
                for pick in picks:
                    instances = added_member(instances, pick.uuid, pick.host)
                new[place] = instances
        return new

    instances = hosts.snapshot.lazy('instances').then(changed)
    return hosts.with_columns(instances=instances)
