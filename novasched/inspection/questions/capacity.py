# SPDX-License-Identifier: Apache-2.0
"""Capacity of a cloud: how many more servers of each flavor, and what is stranded.

Placement's part is computed from a copy of it; the filters are asked about all hosts at
once. Nothing is claimed.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from novasched import errors
from novasched.app import Reader
from novasched.db.servers import CellServerRows
from novasched.inspection.questions import reports
from novasched.inspection.session.host_filling import Filling, room_by_copies
from novasched.inspection.session.orders import CapacityOrder
from novasched.inspection.session.session import Inspection
from novasched.inspection.texts.capacity import NOTHING
from novasched.objects import context as contexts
from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec
from novasched.placement_copy import PlacementCopy
from novasched.providers.diagnosis import Condition, judge
from novasched.providers.table import ProviderTable
from novasched.resources import Query
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Check, never
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.capacity import CellCounter, Counting
from novasched.scheduler.columns import Ints, Mask, Objects
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.reasons import Code

CPU_CLASSES = ('PCPU', 'VCPU')
NUMA_FILTER = 'NUMATopologyFilter'
SPLIT = 'split over NUMA nodes'
REMAINDER = 'remainder'
SPLIT_CODES = (
    Code.NODES_CONTENDED,
    Code.NOT_ENOUGH_DEDICATED_CPUS,
    Code.NOT_ENOUGH_NODE_CPUS,
)
"""A host may have the CPUs, but not on as few NUMA nodes as are asked for."""
MOST_FLAVORS = 50
MOST_BY_HOST = 2
"""Flavors in use that are counted for each host alone."""
REFUSALS = (
    errors.NoValidHost,
    errors.InvalidRequest,
    errors.InvalidCandidateQuery,
    errors.ExtensionFailed,
)
"""Errors of one flavor: others are counted all the same."""


@dataclass(frozen=True)
class HostSlots:
    """The slots of one flavor on each host of a table."""

    flavor: str
    hosts: HostTable
    counts: Ints
    resource: str  # class of its CPUs
    amount: int  # of it, for a server
    free: Ints  # of it
    # how many placement would take; -1 if hosts were filled one by one
    remaining: Ints
    counting: Counting
    limits: Mapping[str, Ints]  # how many each class has room for
    # returns which hosts meet which condition of the query
    judge: Callable[[], Mapping[Condition, Mask]]

    def reasons(self, places: Sequence[int]) -> list[str]:
        """Say why each of some hosts does not take one more."""
        at = np.array(places, np.intp)
        found = np.full(len(at), '', object)
        open_ = np.ones(len(at), bool)
        for condition, met in self.judge().items():
            found[open_ & ~met[at]] = _words(condition)
            open_ &= met[at]
        asked = np.flatnonzero(open_ & (self.counts[at] != self.remaining[at]))
        blockers = self.counting.blockers(self.hosts[at[asked]], self.counts[at[asked]])
        for place, (name, reason) in zip(asked.tolist(), blockers, strict=True):
            if name:
                is_split = name == NUMA_FILTER and reason.code in SPLIT_CODES
                found[place] = SPLIT if is_split else str(reason.code)
        words = {name: f'{Code.EXHAUSTED} {name}' for name in self.limits}
        return [
            text or words[min(words, key=lambda name: self.limits[name].item(place))]
            for text, place in zip(found.tolist(), at.tolist(), strict=True)
        ]

    @functools.cached_property
    def _left(self) -> Ints:
        """What is free beyond the slots of each host."""
        return self.free - self.counts * self.amount

    @functools.cached_property
    def _whys(self) -> Objects:
        """Why what is left of each host is of no use: found out for all at once, as
        there may be a group for each."""
        whys: Objects = np.full(len(self.hosts), REMAINDER, object)
        large = np.flatnonzero(self._left >= self.amount)
        whys[large] = self.reasons(large.tolist())
        return whys

    def stranded(self, places: Sequence[int]) -> list[reports.Stranded]:
        """Return the stranded amounts of some hosts, each unit once; the most
        first."""
        at = np.array(places, np.intp)
        left, whys = self._left[at], self._whys[at]
        amounts: Counter[str] = Counter()
        hosts: Counter[str] = Counter()
        for why, amount in zip(whys.tolist(), left.tolist(), strict=True):
            if amount > 0:
                amounts[why] += amount
                hosts[why] += 1
        return [
            reports.Stranded(why, hosts[why], amount)
            for why, amount in amounts.most_common()
        ]


def _words(condition: Condition) -> str:
    return f'{condition.code} {condition.what}'.strip()


class Capacity:
    """Counts slots of flavors; answers about NUMA nodes and devices are kept.

    ``placement`` returns a copy of it that knows the members of some aggregates;
    ``check`` ends what takes too long.
    """

    def __init__(
        self,
        reader: Reader,
        placement: Callable[[Iterable[str]], PlacementCopy],
        default_zone: str = 'nova',
        check: Check = never,
    ) -> None:
        self._reader = reader
        self._placement = placement
        self._default_zone = default_zone
        self._counter = CellCounter()
        self.check = check

    @classmethod
    def of(cls, inspection: Inspection) -> Self:
        """Return the counter of a cloud that was read."""
        run, zone = inspection.run, inspection.conf.default_availability_zone
        return cls(run.reader, inspection.copies, zone, run.check)

    def hosts(self) -> HostTable:
        """Return the hosts that may get servers: up, and enabled in nova."""
        hosts = self._reader.view.hosts(None)
        return hosts[hosts.service_up & ~hosts.service_disabled]

    def left_out(self) -> dict[str, int]:
        """Return how many hosts are not counted as they are disabled, or down."""
        hosts = self._reader.view.hosts(None)
        disabled = hosts.service_disabled
        return {
            'disabled': int(disabled.sum()),
            'down': int((~disabled & ~hosts.service_up).sum()),
        }

    def slots(self, flavor: str, request: RequestSpec) -> HostSlots:
        """Count how many more servers of a request each host takes, alone.

        Raises one of REFUSALS where a prefilter refuses the request, placement would
        answer 400, or a filter fails; any other errors.RequestError; and
        deadline.TookTooLong.
        """
        self.check()
        reader = self._reader
        request, query = reader.manager.attempts.query(contexts.admin(), request)
        query = query.without_limit()
        table = self._placement(query.aggregates()).table
        filling = Filling(reader.profile, request, query, table, self.check)
        found = room_by_copies(query, table)
        hosts = filling.offered(self.hosts())
        rows = provider_rows(hosts, table)
        counting = Counting(reader.profile, request, self._counter, self.check)
        if found is None or filling.needs_candidates:
            counts, remaining = filling.fill(hosts), np.full(len(hosts), -1, np.int64)
        else:
            remaining = _of_rows(found, rows, 0)
            counts = counting.slots(hosts, remaining)
        resource, amount = _characteristic(query)
        names = dict.fromkeys(n for g in query.groups for n in g.resources)
        free = {name: _of_rows(_free(table, name), rows, 0) for name in names}

        @functools.cache
        def conditions() -> Mapping[Condition, Mask]:
            judgement = judge(query, table)
            return {
                condition: _of_rows((met | judgement.offered)[table.roots], rows, True)
                for condition, met in judgement.met.items()
            }

        return HostSlots(
            flavor=flavor,
            hosts=hosts,
            counts=counts,
            resource=resource,
            amount=amount,
            free=free[resource],
            remaining=remaining,
            counting=counting,
            limits={name: free[name] // _asked(query, name) for name in names},
            judge=conditions,
        )

    def of_flavor(self, inspection: Inspection, flavor: Flavor) -> HostSlots:
        """Count the slots of a flavor; see slots()."""
        request = inspection.maker.boot(flavor).request
        return self.slots(str(flavor.name), request)

    def grouped(self, hosts: HostTable, by: str | None) -> dict[str | None, list[int]]:
        """Return the places of hosts by zone, aggregate, cell or name, or of all.

        Hosts in no aggregate are under NOTHING.
        """
        found: defaultdict[str | None, list[int]] = defaultdict(list)
        if by is None:
            return {None: list(range(len(hosts)))}
        cells = {
            cell.uuid: cell.name or cell.uuid for cell in self._reader.view.cells.all()
        }
        of_host: list[list[str]]
        if by == 'zone':
            of_host = [
                [zone_of(each, self._default_zone)]
                for each in hosts.aggregates.tolist()
            ]
        elif by == 'aggregate':
            of_host = [
                [a.name or a.uuid or '' for a in each] or [NOTHING]
                for each in hosts.aggregates.tolist()
            ]
        elif by == 'cell':
            of_host = [[cells.get(each, each)] for each in hosts.cell_uuid.tolist()]
        else:
            of_host = [[each] for each in hosts.host.tolist()]
        for place, names in enumerate(of_host):
            for name in names:
                found[name].append(place)
        return dict(sorted(found.items(), key=lambda item: str(item[0])))


def zone_of(aggregates: Aggregates, default: str) -> str:
    """Return the zone of a host that is in these aggregates."""
    zones = [each.availability_zone for each in aggregates]
    return min((zone for zone in zones if zone), default=default)


def row(
    slots: HostSlots, name: str | None, places: Sequence[int], stranded: bool
) -> reports.SlotsRow:
    """Return one row of the answer: the slots of some of the hosts."""
    at = np.array(places, np.intp)
    counts = slots.counts[at]
    total = int(counts.sum())
    largest = None
    if total:
        best = int(counts.argmax())
        host = slots.hosts.state(places[best]).host
        largest = reports.LargestHost(host, counts.item(best))
    amounts = reports.Amounts(
        free=int(slots.free[at].sum()),
        usable=total * slots.amount,
        stranded=slots.stranded(places) if stranded else None,
    )
    return reports.SlotsRow(
        flavor=slots.flavor,
        by=name,
        slots=total,
        hosts=int((counts > 0).sum()),
        resources={slots.resource: amounts},
        largest=largest,
    )


def answer(
    inspection: Inspection,
    order: CapacityOrder,
    stranded: bool = True,
    most: int = MOST_FLAVORS,
    capacity: Capacity | None = None,
) -> reports.CapacityReport:
    """Return the slots of flavors; without any, of ``most`` of those in use.

    ``capacity`` knows slots that were counted before. Raises errors.OptionError.
    """
    copies, by = inspection.copies, order.by or None
    if order.fresh:
        copies.renew()
    capacity = capacity or Capacity.of(inspection)
    rows: list[reports.SlotsRow] = []
    for flavor in _wanted(inspection, order.flavors, most):
        try:
            slots = capacity.of_flavor(inspection, flavor)
        except REFUSALS as problem:
            rows.append(reports.SlotsRow(str(flavor.name), refused=str(problem)))
            continue
        groups = capacity.grouped(slots.hosts, by) or {None: []}
        rows += [row(slots, name, at, stranded) for name, at in groups.items()]
    hosts, left_out = capacity.hosts(), inspection.cells_left_out()
    return reports.CapacityReport(
        as_of=SYSTEM_CLOCK.utcnow().isoformat(timespec='seconds') + 'Z',
        placement_age_s=round(copies.age_s(), 1),
        cells_left_out={name: _mapped(inspection, name) for name in left_out},
        hosts=len(hosts),
        cells=len(set(hosts.cell_uuid.tolist())),
        not_counted=capacity.left_out(),
        rows=rows,
    )


def flavors_in_use(inspection: Inspection, most: int = MOST_FLAVORS) -> list[Flavor]:
    """Return the flavors that servers have, the most frequent first."""
    found: Counter[int] = Counter()
    for _, counts in inspection.finder.of_cells(CellServerRows.flavors_in_use):
        found.update(counts)
    return inspection.api.flavors([id_ for id_, _ in found.most_common(most)])


def _wanted(inspection: Inspection, texts: Sequence[str], most: int) -> list[Flavor]:
    """Return the flavors that texts name or say, without any those in use; those that
    share a name are called by their texts. Raises errors.OptionError."""
    if not texts:
        return flavors_in_use(inspection, most)
    flavors = [inspection.flavor(text) for text in texts]
    counts = Counter(str(flavor.name) for flavor in flavors)
    for flavor, text in zip(flavors, texts, strict=True):
        if counts[str(flavor.name)] > 1:
            flavor.name = text
    return flavors


def _mapped(inspection: Inspection, name: str) -> int:
    """Return how many hosts are mapped to a cell."""
    for cell in inspection.run.reader.view.cells.all():
        if name in (cell.name, cell.uuid):
            return len(inspection.api.hosts_of_cell(cell.uuid))
    return 0


def provider_rows(hosts: HostTable, table: ProviderTable) -> Ints:
    """Return the row of the provider of each host; -1: it has none."""
    known = table.rows_by_uuid
    return np.array([known.get(uuid, -1) for uuid in hosts.uuid.tolist()], np.int64)


def _of_rows(values: NDArray[Any], rows: Ints, without: Any) -> NDArray[Any]:
    """Return the value of each row; ``without`` where it is -1."""
    found: NDArray[Any] = np.full(len(rows), without, values.dtype)
    known = rows >= 0
    found[known] = values[rows[known]]
    return found


def _asked(query: Query, name: str) -> int:
    return sum(group.resources.get(name, 0) for group in query.groups)


def _characteristic(query: Query) -> tuple[str, int]:
    """Return the class of which flavors differ most, and the amount for a server."""
    names = dict.fromkeys(n for group in query.groups for n in group.resources)
    first = next((n for n in (*CPU_CLASSES, *names) if n in names), 'VCPU')
    return first, _asked(query, first)


def _free(table: ProviderTable, name: str) -> Ints:
    """Return the free amount of a class in the tree of each provider."""
    found = np.zeros(len(table), np.int64)
    inventory = table.inventories.get(name)
    if inventory is not None:
        np.add.at(found, table.roots[inventory.rows], inventory.free)
    return found[table.roots]
