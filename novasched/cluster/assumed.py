# SPDX-License-Identifier: Apache-2.0
"""Instances assumed to be on their hosts until the rows of the compute nodes show them.

Placement knows what was claimed of its resources. What it does not track, such as
NUMA nodes, devices and the members of server groups, is remembered here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from operator import is_
from typing import Any, NamedTuple, Self

import numpy as np
from oslo_config import cfg

from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.assumed_usage import (
    NUMBERS,
    SHAPES,
    HostKey,
    HostPicks,
    Pick,
    ReportedInstances,
    UsageRow,
)
from novasched.cluster.view import ClusterView
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Instances
from novasched.scheduler.consumption import added_member
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import (
    Categories,
    HostState,
    HostTable,
    Objects,
    Snapshot,
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

MADE_OF = (*NUMBERS, *SHAPES, 'updated', 'uuid', 'cell_uuid')
LOOK_EVERY_S = 1.0
"""How often what is over is looked for while no row changes."""
MOST_LOOKS = 3
"""How often hosts are taken from the view while rows come to show what was picked."""


class HostView(NamedTuple):
    """Hosts as a request sees them, with all picks up to ``number``.

    ``base`` has the columns without any.
    """

    hosts: HostTable
    base: Snapshot
    number: int


class AssumedInstances:
    """The picks of all requests of this process, by host. Any thread may call it.

    ``reported`` gives the instances that a host reports.
    """

    def __init__(
        self,
        reported: ReportedInstances,
        fitting: Fitting | None = None,
        for_s: float = 60.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._reported = reported
        self._fitting = fitting or Fitting()
        self._for_s = for_s
        self._clock = clock
        self._lock = threading.Lock()
        self._hosts: dict[HostKey, HostPicks] = {}
        self._number = 0
        self._version = 0
        self._settled = 0
        self._base: list[Any] = []
        self._looked_s = float('-inf')
        self._changed: dict[str, Any] = {}
        self._members: dict[int, list[Pick]] = {}
        self._made = -1

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
                if not self._hosts:
                    return HostView(hosts, base, number)
                changed = hosts.with_columns(**self._columns(base))
                hosts = with_members(changed, self._members)
                return HostView(hosts, base, number)
        return self.see(take, looks - 1)

    def in_group(self, group: str) -> list[Pick]:
        """Return what was picked for the members of a server group, in order."""
        with self._lock:
            found = [
                pick
                for host in self._hosts.values()
                for pick in host.picks
                if pick.group == group
            ]
        return sorted(found, key=lambda pick: pick.number)

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
        key, place = (host.cell_uuid, host.uuid), host._row
        known = request.instance_uuid in (self._reported(host.host) or ())
        free_ram_mb = host.free_ram_mb - request.memory_mb
        with self._lock:
            of_host = self._hosts.get(key)
            others = of_host.later(after) if of_host and after is not None else []
            if any(pick not in mine for pick in others):
                return None
            if of_host is None:
                of_host = self._hosts[key] = HostPicks(place)
            self._number += 1
            pick = Pick(
                key=key,
                host=host.host,
                request=request,
                limits=dict(host.limits),
                seen=UsageRow.at(base, place),
                known=known,
                awaited=(free_ram_mb, host.vcpus_used + request.vcpus),
                until_s=self._clock.monotonic() + self._for_s,
                number=self._number,
            )
            of_host.add(pick)
            self._version += 1
            return pick

    def later(self, key: HostKey, number: int) -> list[Pick]:
        """Return what was picked on a host after the pick of that number."""
        with self._lock:
            of_host = self._hosts.get(key)
            return of_host.later(number) if of_host else []

    def remove(self, picks: Collection[Pick]) -> None:
        """Forget picks: they were not claimed, or the claim was undone."""
        with self._lock:
            for pick in picks:
                of_host = self._hosts.get(pick.key)
                if of_host is not None and pick in of_host.picks:
                    of_host.remove(pick)
                    self._version += 1
            self._drop_empty()

    def remove_instances(self, uuids: Collection[str]) -> None:
        """Forget what was picked for these instances: they are asked for again."""
        with self._lock:
            wanted = frozenset(uuids)
            hosts = self._hosts.values()
            found = [p for host in hosts for p in host.picks if p.uuid in wanted]
        self.remove(found)

    def __len__(self) -> int:
        return sum(len(host.picks) for host in list(self._hosts.values()))

    def _drop_empty(self) -> None:
        self._hosts = {key: host for key, host in self._hosts.items() if host.picks}

    def _columns(self, base: Snapshot) -> dict[str, Any]:
        """Return the columns that differ from those of the view."""
        made_of = [column_identity(base.column(name)) for name in MADE_OF]
        if len(self._base) != len(made_of) or not all(map(is_, self._base, made_of)):
            self._base = made_of
            self._look(base)
        elif self._clock.monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._look(base)
        if self._made != self._version:
            self._changed, self._made = self._change(base), self._version
            self._members = self._find_members()
        return self._changed

    def _look(self, base: Snapshot) -> None:
        """Find the rows of the hosts, and notice what they show by now."""
        self._looked_s = self._clock.monotonic()
        self._version += 1
        self._find(base, self._hosts)
        for host in self._hosts.values():
            if host.settle(self._reported, self._looked_s):
                self._settled += 1
        self._drop_empty()

    @staticmethod
    def _find(base: Snapshot, hosts: Mapping[HostKey, HostPicks]) -> None:
        """Find the places of hosts in the columns of the view, and their rows."""
        uuids, cells = base.column('uuid'), base.column('cell_uuid')
        found = []
        for key, host in hosts.items():
            place = host.place
            if place >= len(uuids) or (cells.item(place), uuids[place]) != key:
                same = np.flatnonzero(uuids == key[1]).tolist()
                place = next((at for at in same if cells.item(at) == key[0]), -1)
            if place >= 0:
                host.place = place
                found.append(host)
            else:
                host.show(None)
        places = np.array([host.place for host in found], np.intp)
        for host, row in zip(found, UsageRow.all_at(base, places), strict=True):
            host.show(row)

    def _change(self, base: Snapshot) -> dict[str, Any]:
        """Return the columns of NUMBERS and SHAPES with what was picked."""
        self._find(base, {k: h for k, h in self._hosts.items() if h.row is None})
        places, values = [], []
        for host in self._hosts.values():
            of_host = host.values(self._fitting)
            if of_host is not None:
                places.append(host.place)
                values.append(of_host)
        if not places:
            return {}
        rows = np.array(places)
        changed = base.replace(
            {name: [each[name] for each in values] for name in NUMBERS}, rows
        )
        for name in SHAPES:
            among = [at for at, each in enumerate(values) if name in each]
            shapes = {name: [values[at][name] for at in among]}
            changed = changed.replace(shapes, rows[among]) if among else changed
        return {name: changed.column(name) for name in (*NUMBERS, *SHAPES)}

    def _find_members(self) -> dict[int, list[Pick]]:
        """Return the picks of members of server groups, by the place of the host."""
        found: dict[int, list[Pick]] = {}
        for host in self._hosts.values():
            members = [pick for pick in host.picks if pick.group is not None]
            if members and host.row is not None:
                found[host.place] = members
        return found


def column_identity(column: Any) -> Any:
    """Return the array that is another one whenever the column is."""
    return column.codes if isinstance(column, Categories) else column


def with_members(hosts: HostTable, members: Mapping[int, list[Pick]]) -> HostTable:
    """Add members of groups to the instances of hosts, once these are read."""
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
