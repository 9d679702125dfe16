# SPDX-License-Identifier: Apache-2.0
"""The compute nodes and services of all cells, and the columns made of them.

Each question to a cell gets a number when it begins: the answers may come in any order.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Iterable, Mapping

from novasched.cluster.cell_nodes import CellNodes
from novasched.cluster.columns import HostColumns
from novasched.cluster.odd_rows import OddRows
from novasched.cluster.reading import Answer, Moment, Reading
from novasched.cluster.rows import Ratios, host_values
from novasched.cluster.stamps import Stamps
from novasched.ports import ComputeNodeRow


class Nodes:
    """Compute nodes and services by cell; not to be changed by two at once.

    ``changes`` grows whenever the columns change.
    """

    def __init__(self, ratios: Ratios, overlap_s: float) -> None:
        self._ratios = ratios
        self._overlap = datetime.timedelta(seconds=overlap_s)
        self._numbers = itertools.count(1)
        self._odd = OddRows()
        self._stamps = Stamps(self._overlap)
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
            all_services,
            cell.homeless,
            cell.look_for(moment),
            cell.known(),
        )
        cell.under_way.add(reading.number)
        return reading

    def take(self, reading: Reading, answer: Answer) -> bool:
        """Take in an answer; rebuild only hosts whose row differs.

        An answer of a cell that was forgotten meanwhile is dropped. False: an older
        answer was taken meanwhile, so the question is to be put again.
        """
        uuid, cell = reading.cell_uuid, self.cells.get(reading.cell_uuid)
        if cell is None or reading.number not in cell.under_way:
            return True
        self._odd.tell(uuid, answer.odd)
        changed, gone = cell.news(reading, answer)
        self._stamps.look(reading, answer, cell, changed.values())
        self._change(
            {(uuid, id_): row for id_, row in changed.items()},
            [(uuid, id_) for id_ in gone],
        )
        cell.take(reading, answer, changed, gone)
        return not cell.is_in_doubt(reading, answer)

    def end(self, reading: Reading) -> None:
        """Say that no answer will come any more."""
        cell = self.cells.get(reading.cell_uuid)
        if cell is not None:
            cell.under_way.discard(reading.number)
            if not cell.under_way:
                cell.seen.clear()
                cell.heard.clear()

    def asked_at(self) -> dict[str, float]:
        """Return when what is known of each cell was asked for, by uuid."""
        taken = [(uuid, cell.taken) for uuid, cell in list(self.cells.items())]
        return {uuid: last.moment.monotonic_s for uuid, last in taken if last}

    def forget(self, cell_uuids: Collection[str]) -> None:
        """Forget everything about some cells."""
        for uuid in cell_uuids:
            cell = self.cells.pop(uuid, None)
            if cell is not None:
                self._odd.forget(uuid)
                self._stamps.forget(uuid)
                self._change({}, [(uuid, id_) for id_ in cell.rows])

    def _change(
        self,
        changed: Mapping[tuple[str, int], ComputeNodeRow],
        gone: Collection[tuple[str, int]],
    ) -> None:
        if not changed and not gone:
            return
        values, odd = {}, []
        for key, row in changed.items():
            if row.host is None:  # it cannot be used, see odd_rows
                odd.append(key)
            else:
                values[key] = host_values(row, self._ratios)
        self.hosts.apply(values, [*gone, *odd])
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
