# SPDX-License-Identifier: Apache-2.0
"""The hosts of all cells as columns, changed by row and read as a whole.

Rows are keyed by (cell uuid, compute node id). Every change makes new columns and
leaves the old ones as they were, so that whoever reads them is not disturbed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched.cluster.rows import FLOATS, INTS, OBJECTS, TEXTS, supported_instances
from novasched.scheduler.fit.parse import HostPools, host_topology
from novasched.scheduler.hosts import Categories

LOG = logging.getLogger(__name__)

Key = tuple[str, int]

CATEGORIES = ('cell_uuid', *TEXTS)
DTYPES: dict[str, Any] = {
    **dict.fromkeys(INTS, np.int64),
    **dict.fromkeys(FLOATS, np.float64),
    **dict.fromkeys(OBJECTS, object),
    **dict.fromkeys(CATEGORIES, np.intp),
}


class Encoder:
    """Numbers the distinct values of a column; a number never changes meaning.

    ``values`` is appended to, and replaced when numbers are given anew.
    """

    def __init__(self, parse: Callable[[Any], Any] | None = None) -> None:
        self.values: list[Any] = []
        self._codes: dict[Hashable, int] = {}
        self._parse = parse

    def code(self, value: Hashable) -> int:
        """Return the number of a value; a new one is parsed, and given the next."""
        code = self._codes.get(value)
        if code is None:
            parsed = self._parse(value) if self._parse else value
            code = self._codes[value] = len(self.values)
            self.values.append(parsed)
        return code

    def compacted(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Forget the values that no host has; return the hosts' new numbers."""
        used, renumbered = np.unique(codes, return_inverse=True)
        number = {int(old): new for new, old in enumerate(used)}
        self.values = [self.values[old] for old in used]
        self._codes = {
            value: number[old] for value, old in self._codes.items() if old in number
        }
        return renumbered.astype(np.intp)


def _complain(column: str, text: str, problem: str) -> None:
    LOG.warning('Ignoring %s that cannot be read: %s: %.200r', column, problem, text)


class HostColumns:
    """The columns of all hosts, and where each host stands in them.

    ``members`` grows whenever a place may hold another host than before, or a host
    may belong to another service. ``by_uuid`` gives the place of each node; if
    several hosts have one uuid, the last, and ``twins`` gives all of them.
    """

    def __init__(self) -> None:
        self._position: dict[Key, int] = {}
        self._arrays = {name: np.empty(0, dtype) for name, dtype in DTYPES.items()}
        self._encoders = {name: Encoder() for name in CATEGORIES}
        self._encoders['supported_instances'] = Encoder(supported_instances)
        for name, read in (('numa_topology', host_topology), ('pci_stats', HostPools)):
            complain = functools.partial(_complain, name)
            parse: Callable[[Any], Any] = functools.partial(read, complain=complain)
            self._encoders[name] = Encoder(parse)
        self.members = 0
        self.by_uuid: dict[str, int] = {}
        self.twins: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._position)

    def apply(
        self, changed: Mapping[Key, dict[str, Any]], gone: Iterable[Key] = ()
    ) -> None:
        """Put in new or changed hosts and take out those that are gone.

        The cost is that of the changed rows and one copy of each column. When a
        value does not fit into its column, nothing has changed.
        """
        going = {key for key in gone if key in self._position}
        coming = [key for key in changed if key not in self._position]
        position, arrays = self._without(going)
        if coming:
            position = position | {
                key: place for place, key in enumerate(coming, len(position))
            }
            arrays = {
                name: np.concatenate([array, np.empty(len(coming), array.dtype)])
                for name, array in arrays.items()
            }
        renamed = self._write(changed, position, arrays)
        self._position, self._arrays = position, arrays
        self._compact()
        if going or coming or 'host' in renamed:
            self.members += 1
        if going or coming or 'uuid' in renamed:
            self._index()

    def _without(
        self, going: set[Key]
    ) -> tuple[dict[Key, int], dict[str, NDArray[Any]]]:
        """Return the places and copies of the columns, less some hosts."""
        if not going:
            return self._position, {
                n: array.copy() for n, array in self._arrays.items()
            }
        stay = [key for key in self._position if key not in going]
        places = np.array([self._position[key] for key in stay], np.intp)
        return (
            {key: place for place, key in enumerate(stay)},
            {name: array[places] for name, array in self._arrays.items()},
        )

    def _write(
        self,
        changed: Mapping[Key, dict[str, Any]],
        position: Mapping[Key, int],
        arrays: Mapping[str, NDArray[Any]],
    ) -> set[str]:
        """Write the changed hosts; return which names of hosts are others now."""
        names = {
            name
            for name in ('host', 'uuid')
            if any(arrays[name][position[k]] != v[name] for k, v in changed.items())
        }
        places = [position[key] for key in changed]
        for name, array in arrays.items():
            values = (
                [cell_uuid for cell_uuid, _ in changed]
                if name == 'cell_uuid'
                else [host[name] for host in changed.values()]
            )
            if name in self._encoders:
                values = list(map(self._encoders[name].code, values))
            array[places] = values
        return names

    def _compact(self) -> None:
        limit = len(self) + len(self) // 4 + 64
        for name, encoder in self._encoders.items():
            if len(encoder.values) > limit:
                self._arrays[name] = encoder.compacted(self._arrays[name])

    def _index(self) -> None:
        uuids = self._arrays['uuid'].tolist()
        found = {uuid: place for place, uuid in enumerate(uuids) if uuid}
        self.twins = {}
        if len(found) + uuids.count(None) < len(uuids):
            for place, uuid in enumerate(uuids):
                if uuid and (uuid in self.twins or found[uuid] != place):
                    self.twins.setdefault(uuid, []).append(place)
        self.by_uuid = found

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, as scheduler.hosts declares them."""
        return {
            name: Categories(self._encoders[name].values, array)
            if name in CATEGORIES
            else array
            for name, array in self._arrays.items()
        }
