# SPDX-License-Identifier: Apache-2.0
"""Instances assumed to be on their hosts until the rows of the compute nodes show them.

Placement knows what was claimed of its resources. What it does not track, such as
NUMA nodes, devices and the members of server groups, is remembered here. When a pick
counts, and when it ends: docs/decisions/0007-what-was-picked-is-assumed.md.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NamedTuple, Self

import numpy as np
from oslo_config import cfg

from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Instances, column_identity
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import (
    Categories,
    HostState,
    HostTable,
    Member,
    Objects,
    Snapshot,
    added_member,
    consume,
)
from novasched.scheduler.pipeline import Profile

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.BoolOpt(
            'assume_picks',
            default=False,
            help="""
Let later requests see what earlier ones picked, before the computes report it.

Placement does not track NUMA nodes, huge pages, devices outside of placement, or the
members of server groups. Two requests that follow each other closely may be given the
same, and the compute refuses the second server, which goes to an alternate or fails.
With this option, what a request picked is counted until the row of the compute node
shows it: fewer servers are refused by computes. Requests of one server group are then
served one after the other.

Only requests of the same process are seen. Which host is chosen may be another than
nova's. Where a server is not built on the host that was picked for it, the host looks
fuller than it is for at most ``assume_picks_for`` seconds. Only the filter scheduler
remembers what it picked.
""",
        ),
        cfg.FloatOpt(
            'assume_picks_for',
            default=60.0,
            min=0.0,
            help='Seconds after which what was picked is forgotten, though the row of '
            'the compute node does not show it. See assume_picks.',
        ),
    ]
}

NUMBERS = (
    'free_ram_mb',
    'free_disk_mb',
    'vcpus_used',
    'num_instances',
    'num_io_ops',
)
SHAPES = ('numa_topology', 'pci_stats')
FREE_RAM, VCPUS_USED = NUMBERS.index('free_ram_mb'), NUMBERS.index('vcpus_used')
MADE_OF = (*NUMBERS, *SHAPES, 'updated', 'uuid', 'cell_uuid')

KNOWN_FOR_S = 5.0
"""How long a pick is remembered after its host shows it: by requests that have looked
at the host before, and, of members of server groups, by those that come late."""
LOOK_EVERY_S = 1.0
"""How often what is over is looked for while no row changes."""
MOST_LOOKS = 3
"""How often hosts are taken from the view while rows come to show what was picked."""

ReportedInstances = Callable[[str], Mapping[str, Any] | None]
"""Returns the instances that a host reports, by uuid; None: it is not believed."""
HostKey = tuple[str, str]
"""A host: the uuid of its cell and that of its node."""


class UsageRow(NamedTuple):
    """Usage in the row of a host: NUMBERS, then SHAPES, in their order."""

    updated: Any
    numbers: tuple[int, ...]
    shapes: tuple[Any, ...]

    @classmethod
    def all_at(cls, base: Snapshot, places: Sequence[int]) -> Iterator[Self]:
        """Yield the rows in some places of the columns of the view."""
        rows = np.array(places, np.intp)
        stamps = base.column('updated')[rows].tolist()
        numbers = [base.column(name)[rows].tolist() for name in NUMBERS]
        shapes = [base.column(name)[rows].tolist() for name in SHAPES]
        return map(cls, stamps, zip(*numbers, strict=True), zip(*shapes, strict=True))

    def follows(self, other: UsageRow) -> bool:
        """Return whether this is another row than ``other``, and not an older one."""
        older = self.updated and other.updated and self.updated < other.updated
        return not older and self != other


def group_of(request: RequestSpec) -> str | None:
    """Return the uuid of the server group of a request, if it has one."""
    group = request.instance_group if 'instance_group' in request else None
    return group.uuid if group is not None and 'uuid' in group else None


@dataclass(eq=False)
class Pick:
    """An instance and the host that was picked for it.

    ``request`` is that of the instance, with its providers; ``limits`` what filters
    recorded for the host; ``seen`` the row of the host at that time, ``known`` whether
    the instance was on the host before. Once the row has as little free memory, in
    MiB, and as many CPUs used as ``awaited`` says, the instance is in it.
    """

    key: HostKey
    host: str
    request: RequestSpec
    limits: Mapping[str, Any]
    seen: UsageRow
    known: bool
    awaited: tuple[int, int]
    until_s: float
    number: int
    shown_s: float | None = None

    @property
    def uuid(self) -> str:
        return self.request.instance_uuid

    @functools.cached_property
    def group(self) -> str | None:
        """The uuid of the server group of the instance."""
        return group_of(self.request)

    def is_in(self, row: UsageRow) -> bool:
        """Return whether the usage of the host has grown by the instance."""
        free_ram_mb, vcpus_used = self.awaited
        enough = row.numbers[FREE_RAM] <= free_ram_mb
        return enough and row.numbers[VCPUS_USED] >= vcpus_used

    def await_more(self, other: Pick, sign: int) -> None:
        """Wait for what another instance takes, too, or (-1) no longer for that."""
        free_ram_mb, vcpus_used = self.awaited
        more_mb, more = other.request.memory_mb, other.request.vcpus
        self.awaited = free_ram_mb - sign * more_mb, vcpus_used + sign * more

    def is_over(self, reported: ReportedInstances, now_s: float) -> bool:
        """Return whether its time is up, or nothing is lost with it: all else
        shows it."""
        if self.until_s <= now_s:
            return True
        if self.shown_s is None or now_s - self.shown_s < KNOWN_FOR_S:
            return False
        named = None if self.group is None else reported(self.host)
        return named is None or self.uuid in named


@dataclass(eq=False)
class HostPicks:
    """The picks of one host in the order in which they were made.

    ``place`` is where the host was found last in the columns, ``row`` its row there;
    None: it was not looked for, or is gone.
    """

    place: int
    row: UsageRow | None = None
    picks: list[Pick] = field(default_factory=list)
    _made_of: Any = None
    _made: dict[str, Any] = field(default_factory=dict)

    def later(self, number: int) -> list[Pick]:
        """Return the picks after the one of that number."""
        return [pick for pick in self.picks if pick.number > number]

    def remove(self, pick: Pick) -> None:
        """Forget a pick; the later ones are no longer waited for behind it."""
        self.picks.remove(pick)
        if pick.shown_s is None:
            for other in self.later(pick.number):
                other.await_more(pick, -1)

    def settle(self, reported: ReportedInstances, now_s: float) -> bool:
        """Forget what is over; True: the row was noticed to show a pick.

        An instance that the host names itself, and did not before, is in any later
        row, whatever left the host meanwhile; others are by their usage, in order.
        """
        for pick in list(self.picks):
            if pick.is_over(reported, now_s):
                self.remove(pick)
        row = self.row
        if row is None:
            return False
        due = [p for p in self.picks if p.shown_s is None and row.follows(p.seen)]
        for pick in due:
            if not pick.known and pick.uuid in (reported(pick.host) or ()):
                pick.shown_s = now_s
                for other in self.picks:  # it came before the earlier ones
                    if other.number < pick.number and other.shown_s is None:
                        other.await_more(pick, 1)
        for pick in due:
            if pick.shown_s is None and pick.is_in(row):
                pick.shown_s = now_s
        return any(pick.shown_s is not None for pick in due)

    def values(self, fitting: Fitting) -> dict[str, Any]:
        """Return the usage of the host with what its row does not show, by column;
        nothing, if it shows all. Of SHAPES there are those that change."""
        row, due = self.row, [pick for pick in self.picks if pick.shown_s is None]
        if row is None or not due:
            return {}
        if self._made_of != (row, due):
            self._made_of, self._made = (row, due), _consumed(row, due, fitting)
        return self._made


def _consumed(row: UsageRow, due: list[Pick], fitting: Fitting) -> dict[str, Any]:
    """Return the usage of a host, as its row says, after it took some picks."""
    columns: dict[str, Any] = {'host': _object(due[0].host), 'instances': _object({})}
    for name, number in zip(NUMBERS, row.numbers, strict=True):
        columns[name] = np.array([number])
    for name, shape in zip(SHAPES, row.shapes, strict=True):
        columns[name] = Categories([shape], np.zeros(1, np.intp))
    alone = HostTable(Snapshot(columns))
    for pick in due:
        limits = _object(dict(pick.limits))
        alone = consume(alone.with_columns(limits=limits), 0, pick.request)
        alone = book(alone, 0, pick.request, fitting).hosts
    values = {name: alone.snapshot.column(name).item(0) for name in NUMBERS}
    for name, given in zip(SHAPES, row.shapes, strict=True):
        shape = alone.snapshot.column(name).item(0)
        if shape is not given:
            values[name] = shape
    return values


def _object(value: Any) -> Objects:
    """Return a column of one host."""
    column: Objects = np.empty(1, object)
    column[0] = value
    return column


class HostView(NamedTuple):
    """Hosts as a request sees them, with all picks up to ``number``.

    ``base`` has the columns without any.
    """

    hosts: HostTable
    base: Snapshot
    number: int


@dataclass(eq=False)
class AssumedInstances:
    """The picks of all requests of this process, by host. Any thread may call it.

    ``reported`` gives the instances that a host reports. ``_changed`` are the columns
    with the picks, and ``_members`` the picks of members of server groups by the place
    of the host, as they follow from the columns ``_made_of``; none: from no others.
    """

    reported: ReportedInstances
    fitting: Fitting = field(default_factory=Fitting)
    for_s: float = 60.0
    clock: Clock = SYSTEM_CLOCK
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _hosts: dict[HostKey, HostPicks] = field(default_factory=dict)
    _number: int = 0
    _settled: int = 0
    _looked_s: float = float('-inf')
    _made_of: list[Any] = field(default_factory=list)
    _changed: dict[str, Any] = field(default_factory=dict)
    _members: dict[int, list[Pick]] = field(default_factory=dict)

    @classmethod
    def from_conf(cls, conf: Any, view: ClusterView, profile: Profile) -> Self | None:
        """Read the options; None: nothing is assumed."""
        if not conf.novasched.assume_picks:
            return None
        for_s = conf.novasched.assume_picks_for
        return cls(view.instances.reported, profile.fitting, for_s)

    def see(self, take: Callable[[], HostTable], looks: int = MOST_LOOKS) -> HostView:
        """Return hosts, fresh from the view, with what was picked on them.

        ``take`` is called again where a row was noticed to show a pick meanwhile:
        what it returned may be older than that row.
        """
        settled = self._settled
        hosts = take()
        with self._lock:
            if settled == self._settled or looks <= 1:
                base, number = hosts.snapshot, self._number
                if self._hosts:
                    self._bring_up(base)
                    hosts = hosts.with_columns(**self._changed)
                    hosts = with_members(hosts, self._members)
                return HostView(hosts, base, number)
        return self.see(take, looks - 1)

    def in_group(self, group: str) -> list[Pick]:
        """Return the picks for the members of a server group, in order."""
        found = self._all(lambda pick: pick.group == group)
        return sorted(found, key=lambda pick: pick.number)

    def _all(self, wanted: Callable[[Pick], bool]) -> list[Pick]:
        with self._lock:
            hosts = self._hosts.values()
            return [pick for host in hosts for pick in host.picks if wanted(pick)]

    def add(
        self,
        host: HostState,
        base: Snapshot,
        request: RequestSpec,
        after: int | None = None,
        mine: Collection[Pick] = (),
    ) -> Pick | None:
        """Remember that a host was picked.

        ``host`` is as the request sees it, ``base`` without what was picked. None:
        after the pick ``after``, another request picked the host: not one of ``mine``.
        """
        key = host.cell_uuid, host.uuid
        (seen,) = UsageRow.all_at(base, [host._row])
        known = request.instance_uuid in (self.reported(host.host) or ())
        free_ram_mb = host.free_ram_mb - request.memory_mb
        with self._lock:
            of_host = self._hosts.get(key) or HostPicks(host._row)
            others = [] if after is None else of_host.later(after)
            if any(pick not in mine for pick in others):
                return None
            self._number += 1
            pick = Pick(
                key=key,
                host=host.host,
                request=request,
                limits=dict(host.limits),
                seen=seen,
                known=known,
                awaited=(free_ram_mb, host.vcpus_used + request.vcpus),
                until_s=self.clock.monotonic() + self.for_s,
                number=self._number,
            )
            of_host.picks.append(pick)
            self._hosts[key] = of_host
            self._made_of = []
            return pick

    def later(self, key: HostKey, number: int) -> list[Pick]:
        """Return the picks on a host after the pick of that number."""
        return self._all(lambda pick: pick.key == key and pick.number > number)

    def remove(self, picks: Collection[Pick]) -> None:
        """Forget picks: they were not claimed, or the claim was undone."""
        with self._lock:
            for pick in picks:
                of_host = self._hosts.get(pick.key)
                if of_host is not None and pick in of_host.picks:
                    of_host.remove(pick)
                    self._made_of = []
            self._drop_empty()

    def remove_instances(self, uuids: Collection[str]) -> None:
        """Forget what was picked for these instances: they are asked for again."""
        self.remove(self._all(lambda pick: pick.uuid in uuids))

    def __len__(self) -> int:
        return sum(len(host.picks) for host in list(self._hosts.values()))

    def _drop_empty(self) -> None:
        self._hosts = {key: host for key, host in self._hosts.items() if host.picks}

    def _bring_up(self, base: Snapshot) -> None:
        """Make the columns with the picks, unless all is as it was a moment ago."""
        made_of = [column_identity(base.column(name)) for name in MADE_OF]
        same = bool(self._made_of) and all(map(is_, self._made_of, made_of))
        now_s = self.clock.monotonic()
        if same and now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s, self._made_of = now_s, made_of
        self._find(base)
        for host in self._hosts.values():
            if host.settle(self.reported, now_s):
                self._settled += 1
        self._drop_empty()
        found = [host for host in self._hosts.values() if host.row is not None]
        values = {host.place: host.values(self.fitting) for host in found}
        self._changed = {}
        for name in (*NUMBERS, *SHAPES):
            of_name = {at: each[name] for at, each in values.items() if name in each}
            if of_name:
                changed = {name: list(of_name.values())}
                column = base.replace(changed, np.array(list(of_name))).column(name)
                self._changed[name] = column
        members = {h.place: [p for p in h.picks if p.group is not None] for h in found}
        self._members = {at: picks for at, picks in members.items() if picks}

    def _find(self, base: Snapshot) -> None:
        """Find the places of hosts in the columns of the view, and their rows."""
        uuids, cells = base.column('uuid'), base.column('cell_uuid')
        found = []
        for (cell, uuid), host in self._hosts.items():
            at = host.place
            if at >= len(uuids) or (cells.item(at), uuids[at]) != (cell, uuid):
                same = np.flatnonzero(uuids == uuid).tolist()
                at = next((at for at in same if cells.item(at) == cell), -1)
            host.row = None
            if at >= 0:
                host.place = at
                found.append(host)
        rows = UsageRow.all_at(base, [host.place for host in found])
        for host, row in zip(found, rows, strict=True):
            host.row = row


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
