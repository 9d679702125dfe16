# SPDX-License-Identifier: Apache-2.0
"""What a request reads of the instances on its hosts: one query per cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from novasched import errors
from novasched.cluster.cells import Cells
from novasched.ports import CellStore, ImageRow, InstanceRow
from novasched.scheduler.hosts import HostTable, Objects

Row = TypeVar('Row')


class Guests:
    """Reads from the cells what says nothing of whether a cell is usable.

    No decision is made without them, so a request waits for a late cell as long as
    where no cell answers. ``timeout_s`` is for what no request waits for.
    """

    def __init__(self, cells: Cells, timeout_s: float | None = None) -> None:
        self._cells = cells
        self._timeout_s = cells.patience_s if timeout_s is None else timeout_s

    def instances(
        self, hosts: Mapping[str, list[str]]
    ) -> Mapping[str, list[InstanceRow]]:
        """Return the instances on hosts, both by cell uuid.

        Raises errors.StoreFailed if a cell does not tell.
        """
        return self._ask(
            hosts, lambda store, names: store.instances_on(names), 'instances'
        )

    def images(self, table: HostTable) -> Objects:
        """Return the image properties of the instances on each host of a table.

        Instances whose images have the same properties share them. Raises
        errors.StoreFailed if a cell does not tell.
        """
        cells, names = table.cell_uuid.tolist(), table.host.tolist()
        hosts = list(zip(cells, names, strict=True))
        found: dict[tuple[str, str], dict[str, Mapping[str, str]]] = {}
        asked: dict[str, list[str]] = {}
        for cell, host in dict.fromkeys(hosts):
            found[cell, host] = {}
            asked.setdefault(cell, []).append(host)
        images: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
        for cell, rows in self._ask(asked, _image_rows, 'images of instances').items():
            for row in rows:
                # MySQL finds names in any case; only the very name is meant.
                if (cell, row.host) in found:
                    key = frozenset(row.properties.items())
                    image = images.setdefault(key, row.properties)
                    found[cell, row.host][row.uuid] = image
        column: Objects = np.empty(len(table.snapshot), object)
        for place, key_of_host in zip(table.rows.tolist(), hosts, strict=True):
            column[place] = found[key_of_host]
        return column

    def _ask(
        self,
        hosts: Mapping[str, list[str]],
        question: Callable[[CellStore, Sequence[str]], list[Row]],
        what: str,
    ) -> Mapping[str, list[Row]]:
        answers = self._cells.ask(
            lambda cell, store: question(store, hosts[cell.uuid]),
            [cell for cell in self._cells.all() if cell.uuid in hosts],
            even_left_out=True,
            timeout_s=self._timeout_s,
            what=what,
            judges=False,
        )
        missing = hosts.keys() - answers.keys()
        if missing:
            raise errors.StoreFailed(
                f'cell {", ".join(sorted(missing))}', f'no list of its {what}'
            )
        return answers


def _image_rows(store: CellStore, hosts: Sequence[str]) -> list[ImageRow]:
    return store.images_on(hosts)
