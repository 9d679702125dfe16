# SPDX-License-Identifier: Apache-2.0
"""The picks of one host, and which of them its row shows.

docs/decisions/0007-what-was-picked-is-assumed.md says when a pick counts and ends.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import (
    Categories,
    HostTable,
    Objects,
    Snapshot,
    consume,
)

NUMBERS = (
    'free_ram_mb',
    'free_disk_mb',
    'vcpus_used',
    'num_instances',
    'num_io_ops',
)
SHAPES = ('numa_topology', 'pci_stats')

KNOWN_FOR_S = 5.0
"""How long a pick is remembered after its host shows it, by requests that have looked
at the host before."""

HostKey = tuple[str, str]
"""The uuids of the cell and the node of a host."""
UsageTotals = tuple[int, ...]
"""Usage of a host that grows by each instance: memory in MiB and CPUs; of its NUMA
cells, the CPUs and the memory; devices."""
NOTHING: UsageTotals = (0, 0, 0, 0, 0)


class RowVersion(NamedTuple):
    """The version of the row of a host: its time stamp and its usage."""

    updated: datetime.datetime | None
    used: UsageTotals


class UsageRow(NamedTuple):
    """Usage in the row of a host: NUMBERS, then SHAPES, in their order."""

    updated: datetime.datetime | None
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

    @property
    def version(self) -> RowVersion:
        free_ram_mb, _, vcpus_used, *_ = self.numbers
        topology, devices = self.shapes
        cells = topology.cells if topology else ()
        used = (
            -free_ram_mb,
            vcpus_used,
            sum(cell.cpu_usage for cell in cells),
            sum(cell.memory_usage for cell in cells),
            -sum(pool.count for pool in devices.free) if devices else 0,
        )
        return RowVersion(self.updated, used)


def group_of(request: RequestSpec) -> str | None:
    """Return the uuid of the server group of a request, if it has one."""
    group = request.instance_group if 'instance_group' in request else None
    return group.uuid if group is not None and 'uuid' in group else None


@dataclass(frozen=True, eq=False)
class Pick:
    """An instance and the host that was picked for it."""

    key: HostKey
    host: str
    request: RequestSpec  # of the instance, with its providers
    limits: Mapping[str, Any]  # what filters recorded for the host
    seen: RowVersion  # of the host at that time
    usage_delta: UsageTotals = NOTHING  # growth of the usage in the row by the pick
    group: str | None = None  # uuid of a server group whose members are counted
    origin: str = ''  # the scheduler that picked it, '' for this process
    first: str = ''  # first instance of its request, by uuid

    @property
    def uuid(self) -> str:
        return self.request.instance_uuid

    def explains(self, growth: UsageTotals, exactly: bool) -> bool:
        """Return whether this pick may explain a growth of usage, or ``exactly`` does.

        NUMA cells and devices count if it takes any, else memory and CPUs.
        """
        marks = [at for at in (2, 3, 4) if self.usage_delta[at]] or [0, 1]
        if exactly:
            return all(growth[at] == self.usage_delta[at] for at in marks)
        return all(growth[at] >= self.usage_delta[at] for at in marks)


class UnbookablePick(Exception):
    """A pick of another scheduler that cannot be booked on a host."""

    def __init__(self, pick: Pick, problem: Exception) -> None:
        super().__init__(f'{pick.uuid} on {pick.host}: {problem!r:.200}')
        self.pick = pick


class PickId(NamedTuple):
    """Identifies a pick: each scheduler announces one pick of an instance at most.

    ``copy`` is 0 for the announced pick. While another request of this process has
    announced one for the same instance, ``copy`` is the number of the pick.
    """

    uuid: str
    origin: str
    copy: int = 0


@dataclass(eq=False)
class AssumedPick:
    """A pick that is remembered for a while."""

    pick: Pick
    number: int
    until_s: float
    order: int | None = None  # order of its message, None before it has come back
    shown_s: float | None = None  # when a row showed it; it counts no more then
    copy: int = 0  # part of its id

    @property
    def id(self) -> PickId:
        return PickId(self.pick.uuid, self.pick.origin, self.copy)

    def is_over(self, now_s: float) -> bool:
        """Return whether nobody needs it any more; no row shows the members of a group
        that its host runs."""
        if self.until_s <= now_s or self.shown_s is None or self.pick.group is not None:
            return self.until_s <= now_s
        return now_s - self.shown_s >= KNOWN_FOR_S


@dataclass(eq=False)
class HostPicks:
    """The picks of one host in the order in which they were heard of."""

    place: int  # last place of the host in the columns
    used: UsageTotals  # usage in the last row
    row: UsageRow | None = None  # at ``place``; None if not looked for, or gone
    picks: list[AssumedPick] = field(default_factory=list)
    _made_of: Any = None
    _made: dict[str, Any] = field(default_factory=dict)

    def reconcile(self, now_s: float) -> bool:
        """Forget picks that are over; return whether the row newly shows a pick.

        Growth since the previous row is attributed to a pick that explains it exactly,
        else to the first that explains a part.
        """
        self.picks = [each for each in self.picks if not each.is_over(now_s)]
        if self.row is None:
            return False
        version = self.row.version
        growth = _difference(version.used, self.used)
        self.used = version.used
        due = [each for each in self.due if _is_newer(version, each.pick.seen)]
        is_noticed = False
        while found := _explained_by(due, growth):
            found.shown_s, is_noticed = now_s, True
            due.remove(found)
            growth = _difference(growth, found.pick.usage_delta)
        return is_noticed

    def remove(self, one: AssumedPick) -> None:
        """Forget a pick that failed: it explains no growth."""
        self.picks.remove(one)
        if one.shown_s is not None:
            self.used = _difference(self.used, one.pick.usage_delta)

    @property
    def due(self) -> list[AssumedPick]:
        """The picks that no row has shown yet."""
        return [each for each in self.picks if each.shown_s is None]

    def members(self, but: Collection[str]) -> list[Pick]:
        """Return the picks of members of groups, except of the instances ``but``."""
        picks = [each.pick for each in self.picks]
        return [p for p in picks if p.group is not None and p.uuid not in but]

    def values(self, fitting: Fitting, but: Collection[str] = ()) -> dict[str, Any]:
        """Return the usage of the host with what its row does not show, by column;
        nothing, if it shows all. Of SHAPES there are those that change.

        Picks of the instances ``but`` do not count. Raises UnbookablePick.
        """
        row = self.row
        due = [each for each in self.due if each.pick.uuid not in but]
        if row is None or not due:
            return {}
        if self._made_of != (row, due):
            picks = [each.pick for each in due]
            self._made_of, self._made = (row, due), consumed(row, picks, fitting)
        return self._made


def _is_newer(row: RowVersion, other: RowVersion) -> bool:
    """Return whether a row differs from ``other``, and is not older."""
    older = row.updated and other.updated and row.updated < other.updated
    return not older and row != other


def _difference(used: UsageTotals, other: UsageTotals) -> UsageTotals:
    return tuple(map(operator.sub, used, other))


def _explained_by(
    due: Sequence[AssumedPick], growth: UsageTotals
) -> AssumedPick | None:
    for exactly in (True, False):
        for each in due:
            if each.pick.explains(growth, exactly):
                return each
    return None


def usage_delta(row: UsageRow, pick: Pick, fitting: Fitting) -> UsageTotals:
    """Return the growth of usage in the row of a host by a pick."""
    values = consumed(row, [pick], fitting)
    after = row._replace(
        numbers=tuple(values[name] for name in NUMBERS),
        shapes=tuple(
            values.get(name, shape)
            for name, shape in zip(SHAPES, row.shapes, strict=True)
        ),
    )
    return _difference(after.version.used, row.version.used)


def booked(hosts: HostTable, row: int, pick: Pick, fitting: Fitting) -> HostTable:
    """Return hosts after the host in a row took a pick. Raises UnbookablePick."""
    try:
        hosts = consume(hosts, row, pick.request)
        return book(hosts, row, pick.request, fitting).hosts
    except Exception as problem:  # another scheduler may have sent any request
        if not pick.origin:
            raise
        raise UnbookablePick(pick, problem) from problem


def consumed(row: UsageRow, picks: Sequence[Pick], fitting: Fitting) -> dict[str, Any]:
    """Return the usage of a host, as its row says, after it took some picks. Raises
    UnbookablePick."""
    columns: dict[str, Any] = {'host': _object(picks[0].host), 'instances': _object({})}
    for name, number in zip(NUMBERS, row.numbers, strict=True):
        columns[name] = np.array([number])
    for name, shape in zip(SHAPES, row.shapes, strict=True):
        columns[name] = Categories([shape], np.zeros(1, np.intp))
    alone = HostTable(Snapshot(columns))
    for pick in picks:
        limits = _object(dict(pick.limits))
        alone = booked(alone.with_columns(limits=limits), 0, pick, fitting)
    values = {name: alone.snapshot.column(name).item(0) for name in NUMBERS}
    for name, given in zip(SHAPES, row.shapes, strict=True):
        shape = alone.snapshot.column(name).item(0)
        if shape is not given:
            values[name] = shape
    return values


def _object(value: Any) -> Objects:
    column: Objects = np.empty(1, object)
    column[0] = value
    return column
