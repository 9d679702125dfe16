# SPDX-License-Identifier: Apache-2.0
"""The compute nodes and services of all cells, taken in by delta.

Questions to one cell may overlap, and their answers may come in any order. Each
gets a number when it begins; an answer never undoes what a later question showed.
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from novasched.cluster.columns import HostColumns
from novasched.cluster.reading import Answer, Moment, Reading
from novasched.cluster.rows import Ratios, fitting, host_values
from novasched.cluster.services import Services
from novasched.ports import ComputeNodeRow

LOG = logging.getLogger(__name__)

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a row raises that holds what no nova writes."""

SERVICES_AGE_S = 5.0
"""How old the list of services may be while a node is without one."""


@dataclass(eq=False)
class CellNodes:
    """What is known of one cell; ``services_version`` grows with what filters see.

    Of the questions answered, ``taken`` is the newest, ``whole`` the number of the
    newest for all nodes and ``listed`` that for all services. While questions
    overlap, ``seen`` has the newest that showed a node, be it alive or deleted.
    ``homeless`` are the hosts of nodes without a service.
    """

    rows: dict[int, ComputeNodeRow] = field(default_factory=dict)
    services: Services = field(default_factory=Services)
    services_version: int = 0
    services_read_s: float = float('-inf')
    homeless: set[str | None] = field(default_factory=set)
    taken: Reading | None = None
    whole: int = 0
    listed: int = 0
    under_way: set[int] = field(default_factory=set)
    seen: dict[int, int] = field(default_factory=dict)

    def since(
        self, moment: Moment, overlap: datetime.timedelta
    ) -> datetime.datetime | None:
        """Return from which time stamp on a delta must ask; None: for all."""
        if self.taken is None:
            return None
        return self.taken.moment.before(moment) - overlap

    def looked_for(self, moment: Moment) -> Collection[str | None] | None:
        old = moment.monotonic_s - self.services_read_s >= SERVICES_AGE_S
        return None if self.homeless and old else self.homeless

    def news(
        self, reading: Reading, answer: Answer
    ) -> tuple[dict[int, ComputeNodeRow], set[int]]:
        """Return the rows of an answer that differ, and the ids that are gone."""
        nodes = [row for row in answer.nodes if not self._is_outdone(row.id, reading)]
        changed = {
            row.id: row
            for row in nodes
            if row.deleted == 0 and row != self.rows.get(row.id)
        }
        gone = {row.id for row in nodes if row.deleted != 0 and row.id in self.rows}
        if reading.since is None:
            absent = self.rows.keys() - {row.id for row in answer.nodes}
            gone |= {id_ for id_ in absent if not self._is_outdone(id_, reading)}
        return changed, gone

    def _is_outdone(self, id_: int, reading: Reading) -> bool:
        return self.seen.get(id_, self.whole) > reading.number

    def take(
        self,
        reading: Reading,
        answer: Answer,
        changed: Mapping[int, ComputeNodeRow],
        gone: Collection[int],
    ) -> None:
        """Take in an answer and its news."""
        number = reading.number
        if self.under_way - {number}:
            shown = [*gone, *(row.id for row in answer.nodes)]
            self.seen.update(
                (id_, number) for id_ in shown if not self._is_outdone(id_, reading)
            )
        self.rows.update(changed)
        for id_ in gone:
            del self.rows[id_]
        self._take_services(reading, answer)
        if reading.since is None:
            self.whole = max(self.whole, number)
        if self.taken is None or self.taken.number < number:
            self.taken = reading
        asked = changed if answer.services is None else self.rows
        homeless = {r.host for r in asked.values() if not self.services.knows(r.host)}
        self.homeless = homeless | (self.homeless if asked is changed else set())

    def _take_services(self, reading: Reading, answer: Answer) -> None:
        services = self.services
        if answer.services is not None and self.listed < reading.number:
            services = services.with_rows(answer.services)
            self.listed = reading.number
            self.services_read_s = reading.moment.monotonic_s
        if self.taken is None or self.taken.number < reading.number:
            services = services.with_unavailable(
                answer.unavailable, reading.moment.window
            )
        if not services.looks_like(self.services):
            self.services_version += 1
        self.services = services


class Nodes:
    """Compute nodes and services by cell; not to be changed by two at once.

    ``changes`` grows whenever the columns change.
    """

    def __init__(self, ratios: Ratios, overlap_s: float) -> None:
        self._ratios = ratios
        self._overlap = datetime.timedelta(seconds=overlap_s)
        self._numbers = itertools.count(1)
        self.cells: dict[str, CellNodes] = {}
        self.hosts = HostColumns()
        self.changes = 0

    def begin(
        self,
        cell_uuid: str,
        moment: Moment,
        *,
        complete: bool = False,
        all_services: bool = False,
    ) -> Reading:
        """Return the question for what changed in a cell since the last answer, or
        for all. Call ``end`` whatever becomes of it."""
        cell = self.cells.setdefault(cell_uuid, CellNodes())
        reading = Reading(
            cell_uuid,
            next(self._numbers),
            moment,
            None if complete else cell.since(moment, self._overlap),
            cell.services,
            None if all_services else cell.looked_for(moment),
        )
        cell.under_way.add(reading.number)
        return reading

    def take(self, reading: Reading, answer: Answer) -> None:
        """Take in an answer; rebuild only hosts whose row differs.

        An answer of a cell that was forgotten meanwhile is dropped.
        """
        uuid, cell = reading.cell_uuid, self.cells.get(reading.cell_uuid)
        if cell is None or reading.number not in cell.under_way:
            return
        would_find = cell.since(reading.moment, self._overlap)
        changed, gone = cell.news(reading, answer)
        if reading.since is None and would_find is not None:
            _warn_of_missed(changed.values(), would_find)
        self._change(
            {(uuid, id_): row for id_, row in changed.items()},
            [(uuid, id_) for id_ in gone],
        )
        cell.take(reading, answer, changed, gone)

    def end(self, reading: Reading) -> None:
        """Say that no answer will come any more."""
        cell = self.cells.get(reading.cell_uuid)
        if cell is not None:
            cell.under_way.discard(reading.number)
            if not cell.under_way:
                cell.seen.clear()

    def asked_at(self) -> dict[str, float]:
        """Return when what is known of each cell was asked for, by uuid."""
        taken = [(uuid, cell.taken) for uuid, cell in list(self.cells.items())]
        return {uuid: last.moment.monotonic_s for uuid, last in taken if last}

    def forget(self, cell_uuids: Collection[str]) -> None:
        """Forget everything about some cells."""
        for uuid in cell_uuids:
            cell = self.cells.pop(uuid, None)
            if cell is not None:
                self._change({}, [(uuid, id_) for id_ in cell.rows])

    def _change(
        self,
        changed: Mapping[tuple[str, int], ComputeNodeRow],
        gone: Collection[tuple[str, int]],
    ) -> None:
        if not changed and not gone:
            return
        values, bad = {}, []
        for key, row in changed.items():
            try:
                values[key] = fitting(host_values(row, self._ratios))
            except MISFITS as problem:
                bad.append(key)
                LOG.warning(
                    'Ignoring compute node %s of host %s in cell %s: %s: %s',
                    row.hypervisor_hostname,
                    row.host,
                    key[0],
                    type(problem).__name__,
                    problem,
                )
        self.hosts.apply(values, [*gone, *bad])
        self.changes += 1

    def named(
        self, cell_uuids: Iterable[str], host: str | None, node: str | None
    ) -> dict[str, list[ComputeNodeRow]]:
        """Return the nodes of a service host and/or of a node name, by id, of each
        cell that has any. The case of a host does not count, that of a node does."""
        folded = None if host is None else host.casefold()
        found = {
            uuid: [
                row
                for row in self.cells[uuid].rows.values()
                if (folded is None or (row.host or '').casefold() == folded)
                and (node is None or row.hypervisor_hostname == node)
            ]
            for uuid in cell_uuids
            if uuid in self.cells
        }
        return {
            uuid: sorted(rows, key=lambda row: row.id)
            for uuid, rows in found.items()
            if rows
        }


def _warn_of_missed(
    changed: Collection[ComputeNodeRow], since: datetime.datetime
) -> None:
    """Tell of rows that a delta would not have shown: their stamps are too old."""
    missed = [
        row
        for row in changed
        if max(filter(None, (row.updated_at, row.created_at)), default=since)
        < since.replace(microsecond=0)
    ]
    if missed:
        LOG.warning(
            '%d compute nodes changed, but their time stamps say that they did not; '
            'one is %s. Do the clocks differ by more than [novasched] '
            'host_state_overlap?',
            len(missed),
            missed[0].hypervisor_hostname,
        )
