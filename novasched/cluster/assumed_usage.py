# SPDX-License-Identifier: Apache-2.0
"""Assumed usage of one host: its picks that its row does not show yet."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.consumption import consume
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import Categories, HostTable, Rows, Snapshot

ReportedInstances = Callable[[str], Mapping[str, Any] | None]
"""Returns the instances that a host reports, by uuid; None: it is not believed."""

HostKey = tuple[str, str]
"""A host: the uuid of its cell and that of its node."""

NUMBERS = (
    'free_ram_mb',
    'free_disk_mb',
    'vcpus_used',
    'num_instances',
    'num_io_ops',
)
SHAPES = ('numa_topology', 'pci_stats')
FREE_RAM, VCPUS_USED = NUMBERS.index('free_ram_mb'), NUMBERS.index('vcpus_used')
KNOWN_FOR_S = 5.0
"""How long a pick is remembered after its host shows it: by requests that have looked
at the host before, and, of members of server groups, by those that were written before
and come late."""


class UsageRow(NamedTuple):
    """Usage in the row of a host: NUMBERS, then SHAPES, in their order."""

    updated: Any
    numbers: tuple[int, ...]
    shapes: tuple[Any, ...]

    @classmethod
    def at(cls, base: Snapshot, place: int) -> Self:
        """Return the row in a place of the columns of the view."""
        (row,) = cls.all_at(base, np.array([place]))
        return row

    @classmethod
    def all_at(cls, base: Snapshot, places: Rows) -> Iterator[Self]:
        """Yield the rows in some places of the columns of the view."""
        stamps = base.column('updated')[places].tolist()
        numbers = [base.column(name)[places].tolist() for name in NUMBERS]
        shapes = [base.column(name)[places].tolist() for name in SHAPES]
        return map(cls, stamps, zip(*numbers, strict=True), zip(*shapes, strict=True))

    def follows(self, other: UsageRow) -> bool:
        """Return True if this is another row than ``other``, and not an older one."""
        if self.updated and other.updated and self.updated < other.updated:
            return False
        return self.differs(other)

    def differs(self, other: UsageRow) -> bool:
        """Return True if the row was written again."""
        return self.updated != other.updated or not self.says_the_same(other)

    def says_the_same(self, other: UsageRow) -> bool:
        """Return True if both say the same usage; shapes are compared as objects."""
        same = map(operator.is_, self.shapes, other.shapes)
        return self.numbers == other.numbers and all(same)


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
    number: int = 0
    shown_s: float | None = None

    @property
    def uuid(self) -> str:
        return self.request.instance_uuid

    @functools.cached_property
    def group(self) -> str | None:
        """The uuid of the server group of the instance."""
        return group_of(self.request)

    def is_in(self, row: UsageRow) -> bool:
        """Return True if the usage of the host has grown by the instance."""
        free_ram_mb, vcpus_used = self.awaited
        enough = row.numbers[FREE_RAM] <= free_ram_mb
        return enough and row.numbers[VCPUS_USED] >= vcpus_used

    def await_more(self, other: Pick, sign: int) -> None:
        """Wait for what another instance takes, too, or (-1) no longer for that."""
        free_ram_mb, vcpus_used = self.awaited
        more_mb, more = other.request.memory_mb, other.request.vcpus
        self.awaited = free_ram_mb - sign * more_mb, vcpus_used + sign * more


@dataclass(eq=False)
class HostPicks:
    """The picks of one host in the order in which they were made.

    ``place`` is where the host was found last in the columns, ``row`` its row there;
    None: it was not looked for, or is gone.
    """

    place: int
    row: UsageRow | None = None
    picks: list[Pick] = field(default_factory=list)
    _values: dict[str, Any] | None = None
    _stale: bool = True

    def show(self, row: UsageRow | None) -> None:
        """Take in the row of the host as it is now."""
        before = self.row
        if row is None or before is None or row.differs(before):
            self.row, self._stale = row, True

    def add(self, pick: Pick) -> None:
        """Remember one more pick."""
        self.picks.append(pick)
        self._stale = True

    def later(self, number: int) -> list[Pick]:
        """Return the picks after the one of that number."""
        return [pick for pick in self.picks if pick.number > number]

    def remove(self, pick: Pick) -> None:
        """Forget a pick; the later ones are no longer waited for behind it."""
        self.picks.remove(pick)
        self._stale = True
        if pick.shown_s is None:
            for other in self.picks:
                if other.number > pick.number:
                    other.await_more(pick, -1)

    def settle(self, reported: ReportedInstances, now_s: float) -> bool:
        """Forget what is over; True: the row was noticed to show a pick.

        An instance that the host names itself, and did not before, is in any later
        row, whatever left the host meanwhile; others are by their usage, in order.
        """
        for pick in [pick for pick in self.picks if pick.until_s <= now_s]:
            self.remove(pick)
        shown = self._notice(self.row, reported, now_s) if self.row else False
        for pick in [
            pick for pick in self.picks if self._is_over(pick, reported, now_s)
        ]:
            self.remove(pick)
        return shown

    def _notice(self, row: UsageRow, reported: ReportedInstances, now_s: float) -> bool:
        due = [p for p in self.picks if p.shown_s is None and row.follows(p.seen)]
        for pick in due:
            if not pick.known and pick.uuid in (reported(pick.host) or ()):
                pick.shown_s = now_s
                self._await_behind(pick)
        for pick in due:
            if pick.shown_s is None and pick.is_in(row):
                pick.shown_s = now_s
        shown = any(pick.shown_s is not None for pick in due)
        self._stale = self._stale or shown
        return shown

    def _await_behind(self, pick: Pick) -> None:
        """Let the earlier ones wait for a pick that came before them."""
        for other in self.picks:
            if other.number < pick.number and other.shown_s is None:
                other.await_more(pick, 1)

    @staticmethod
    def _is_over(pick: Pick, reported: ReportedInstances, now_s: float) -> bool:
        """Return True once nothing is lost with a pick: all else shows it."""
        if pick.shown_s is None or now_s - pick.shown_s < KNOWN_FOR_S:
            return False
        named = None if pick.group is None else reported(pick.host)
        return named is None or pick.uuid in named

    def values(self, fitting: Fitting) -> dict[str, Any] | None:
        """Return the usage of the host with what its row does not show; None: it
        shows all. Of SHAPES there are those that change."""
        if self._stale:
            self._values, self._stale = self._consumed(fitting), False
        return self._values

    def _consumed(self, fitting: Fitting) -> dict[str, Any] | None:
        row, due = self.row, [pick for pick in self.picks if pick.shown_s is None]
        if row is None or not due:
            return None
        alone = _alone(due[0], row)
        for pick in due:
            limits: Any = np.empty(1, object)
            limits[0] = dict(pick.limits)
            alone = consume(alone.with_columns(limits=limits), 0, pick.request)
            alone = book(alone, 0, pick.request, fitting).hosts
        values = {name: alone.snapshot.column(name).item(0) for name in NUMBERS}
        for name, given in zip(SHAPES, row.shapes, strict=True):
            shape = alone.snapshot.column(name).item(0)
            if shape is not given:
                values[name] = shape
        return values


def _alone(pick: Pick, row: UsageRow) -> HostTable:
    """Return a table of one host as its row says."""
    host, instances = np.empty(1, object), np.empty(1, object)
    host[0], instances[0] = pick.host, {}
    columns: dict[str, Any] = {'host': host, 'instances': instances}
    for name, number in zip(NUMBERS, row.numbers, strict=True):
        columns[name] = np.array([number])
    for name, shape in zip(SHAPES, row.shapes, strict=True):
        columns[name] = Categories([shape], np.zeros(1, np.intp))
    return HostTable(Snapshot(columns))
