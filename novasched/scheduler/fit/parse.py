# SPDX-License-Identifier: Apache-2.0
"""Parsed ``numa_topology`` and ``pci_stats`` columns of a host.

Text is parsed when it is first read, and a view keeps one value per distinct text, for
all hosts and all requests. A compute may report anything: text that cannot be read
counts as nothing, with a ``problem``: what is wrong with it, else ''."""

from __future__ import annotations

import abc
import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Generic, Self, TypeVar

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.parsing import NamedCPUs, parse_json
from novasched.scheduler.fit.pci import (
    Pool,
    Pools,
    ProviderMapping,
    Tags,
    devices_by_cell,
    requests_of,
)
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.topology import Cpus, HostCell, Networks, Pages

LARGEST = 2**53
"""A number from here on may be another one as a float."""


class Unreadable(ValueError):
    """Text of an unexpected form; the message names the first error."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Raise Unreadable for any error in reading JSON of an unknown shape."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise Unreadable(f'{type(error).__name__}: {error!s:.100}') from error


def number(value: Any, least: int = 1 - LARGEST, most: int = LARGEST - 1) -> int:
    """Return a whole number; text and fractions become one.

    Raises ValueError for one that is out of bounds, with which nothing could be
    reckoned; OverflowError, TypeError or ValueError for what is no number.
    """
    made = int(value)
    if not least <= made <= most:
        raise ValueError(f'a number is below {least} or above {most}')
    return made


T = TypeVar('T')
Complain = Callable[[str, str], None]
"""Called once for each unreadable text, with the text and the problem."""


NAME, DATA = 'nova_object.name', 'nova_object.data'


def host_cells(text: str | None) -> tuple[HostCell, ...]:
    """Return the cells of a numa_topology column, in their order.

    None for a host without cells. Computes of before 2015 wrote it in a form of its
    own, without pages and cores. Raises Unreadable for what is no topology.
    """
    if not text or text == 'null':
        return ()
    with reading():
        topology = parse_json(text)
        if NAME in topology:
            cells = tuple(_cell(cell[DATA]) for cell in topology[DATA]['cells'])
        else:
            cells = tuple(_old_cell(cell) for cell in topology['cells'])
        if len({cell.id for cell in cells}) < len(cells):
            raise ValueError('two nodes have one id')
        return cells


def text_of_cells(cells: tuple[HostCell, ...]) -> str:
    """Return a numa_topology column that host_cells() reads as these cells."""
    primitive = {NAME: 'NUMATopology', DATA: {'cells': list(map(_of_cell, cells))}}
    return json.dumps(primitive, default=sorted)


def _of_cell(cell: HostCell) -> dict[str, Any]:
    values = {each.name: getattr(cell, each.name) for each in fields(cell)}
    values['mempages'] = [{DATA: pages._asdict()} for pages in cell.mempages]
    if cell.network_metadata is not None:
        values['network_metadata'] = {DATA: cell.network_metadata._asdict()}
    return {DATA: values}


def text_of_pools(pools: Pools) -> str:
    """Return a pci_stats column that parse_pools() reads as these pools."""
    return json.dumps([pool.flat() for pool in pools])


def _cell(cell: Mapping[str, Any]) -> HostCell:
    pcpuset = cell.get('pcpuset')
    metadata = cell.get('network_metadata')
    return HostCell(
        id=number(cell['id']),
        cpuset=_same_cpus(_cpus(cell['cpuset'])),
        pcpuset=None if pcpuset is None else _same_cpus(_cpus(pcpuset)),
        memory=number(cell['memory']),
        cpu_usage=number(cell.get('cpu_usage', 0)),
        memory_usage=number(cell.get('memory_usage', 0)),
        pinned_cpus=_cpus(cell.get('pinned_cpus', ())),
        siblings=_cores(cell.get('siblings', ())),
        mempages=tuple(_pages(pages[DATA]) for pages in cell.get('mempages', ())),
        network_metadata=None if metadata is None else _networks(metadata[DATA]),
        socket=_or_none(cell.get('socket')),
    )


def _cores(siblings: Any) -> tuple[Cpus, ...]:
    """Read cores; a CPU that is on two of them could be given away twice."""
    cores = tuple(_same_cpus(_cpus(core)) for core in siblings)
    if sum(map(len, cores)) > len(frozenset().union(*cores)):
        raise ValueError('a CPU is on two cores')
    return cores


def _cpus(numbers: Any) -> Cpus:
    cpus = frozenset(map(int, numbers))
    for outermost in (min(cpus, default=0), max(cpus, default=0)):
        number(outermost)
    return cpus


@functools.lru_cache(maxsize=16384)
def _same_cpus(cpus: Cpus) -> Cpus:
    """Return the set that an earlier cell has, if equal: hosts are much alike."""
    return cpus


def _or_none(value: Any) -> int | None:
    return None if value is None else number(value)


def _pages(pages: Mapping[str, Any]) -> Pages:
    return Pages(
        number(pages['size_kb']),
        number(pages['total']),
        number(pages.get('used', 0)),
        number(pages.get('reserved', 0)),
    )


def _networks(metadata: Mapping[str, Any]) -> Networks:
    physnets = frozenset(map(str, metadata.get('physnets') or ()))
    return Networks(physnets, bool(metadata.get('tunneled')))


def _old_cell(cell: Mapping[str, Any]) -> HostCell:
    """Read a cell in the old form; whatever CPUs it has may be shared only."""
    memory = cell.get('mem', {})
    return HostCell(
        id=number(cell['id']),
        cpuset=_listed_cpus(cell.get('cpus', '')),
        pcpuset=frozenset(),
        memory=number(memory.get('total', 0)),
        cpu_usage=number(cell.get('cpu_usage', 0)),
        memory_usage=number(memory.get('used', 0)),
    )


def _listed_cpus(text: str) -> Cpus:
    """Read '0-3,^2,8': ranges, and after '^' what is not meant."""
    meant, left_out = NamedCPUs().read(text, _ends)
    return frozenset(meant - left_out)


def _ends(part: str) -> tuple[int, int]:
    first, _, last = part.removeprefix('^').partition('-')
    return number(first), number(last or first)


PRODUCT = ('vendor_id', 'product_id')
FIXED = frozenset({*PRODUCT, 'numa_node', 'count'})
MOST_DEVICES = 2**31 - 1


def parse_pools(text: str | None) -> Pools:
    """Return the pools in the text of a pci_stats column.

    It is a list of pools in nova's object form, or, before that, one pool or a list of
    them as plain dicts. Raises Unreadable for text that is anything else.
    """
    with reading():
        made = _pools(parse_json(text or '[]') or [])
    return tuple(sorted(made, key=lambda pool: len(pool.keys)))


def _pools(primitive: Any) -> list[Pool]:
    if not isinstance(primitive, dict):
        return [_plain(flat) for flat in primitive]
    if 'nova_object.name' not in primitive:
        return [_plain(primitive)]
    objects = primitive['nova_object.data']['objects']
    made = [pool['nova_object.data'] for pool in objects]
    return [_pool(pool, pool.get('tags', {})) for pool in made]


def _plain(flat: Mapping[str, Any]) -> Pool:
    return _pool(flat, {key: flat[key] for key in flat if key not in FIXED})


def _pool(fixed: Mapping[str, Any], tags: Mapping[str, Any]) -> Pool:
    product = [(key, fixed[key]) for key in PRODUCT]
    if any(value is None for _, value in product):
        raise TypeError('a pool has no vendor or no product')
    keys = [(key, _text(value)) for key, value in (*product, *tags.items())]
    rp_uuid = _text(tags.get('rp_uuid'))
    if rp_uuid is not None:
        keys.remove(('rp_uuid', rp_uuid))
    cell = fixed.get('numa_node')
    return Pool(
        tags=_same_tags(frozenset(keys)),
        numa_node=None if cell is None else number(cell),
        count=number(fixed['count'], 0, MOST_DEVICES),
        rp_uuid=rp_uuid,
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f'a tag of a pool is no text: {value!r:.100}')


@functools.lru_cache(maxsize=4096)
def _same_tags(tags: Tags) -> Tags:
    """Return the tags that an earlier pool has, if equal: hosts are much alike."""
    return tags


class _ParsedColumn(abc.ABC, Generic[T]):
    """Items parsed once from text; ``complain`` is called if that fails.

    Equal if the items are.
    """

    @staticmethod
    @abc.abstractmethod
    def _parse(text: str | None) -> tuple[T, ...]:
        """Return the items of a text. Raises Unreadable."""

    def __init__(
        self, text: str | None = None, complain: Complain | None = None
    ) -> None:
        self._text = text
        self._complain = complain
        self._problem = ''

    @classmethod
    def of(cls, items: tuple[T, ...]) -> Self:
        """Make one of items instead of text."""
        made = cls()
        made.__dict__['_items'] = items
        return made

    @functools.cached_property
    def _items(self) -> tuple[T, ...]:
        try:
            return self._parse(self._text)
        except Unreadable as problem:
            self._problem = str(problem)
            if self._complain:
                self._complain(self._text or '', self._problem)
            return ()

    @staticmethod
    @abc.abstractmethod
    def _write(items: tuple[T, ...], /) -> str:
        """Return a text from which the same items are parsed."""

    @property
    def text(self) -> str | None:
        """The text that it is parsed from; if it is made of items, one of them."""
        if self._text is None and self.__dict__.get('_items'):
            self._text = self._write(self._items)
        return self._text

    @property
    def problem(self) -> str:
        """What is wrong with the text; '' if it can be read."""
        return self._problem if not self._items else ''

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self is other or (
            self._hash == other._hash and self._items == other._items
        )


class HostTopology(_ParsedColumn[HostCell]):
    """The NUMA cells of a host; false if it has none."""

    _parse = staticmethod(host_cells)
    _write = staticmethod(text_of_cells)

    @functools.cached_property
    def cells(self) -> tuple[HostCell, ...]:
        """The cells, in the order of the host; none if the text is nonsense."""
        return self._items

    @functools.cached_property
    def threads_per_core(self) -> int:
        """CPUs of the largest core of all cells; 0 without cores."""
        return max((cell.threads_per_core for cell in self.cells), default=0)

    @functools.cached_property
    def sockets(self) -> Mapping[int, int | None]:
        """The socket of each cell; None if it is unknown, or there are several."""
        return {cell.id: cell.socket for cell in self.cells}

    @property
    def has_threads(self) -> bool:
        """Some core has several CPUs."""
        return self.threads_per_core > 1

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f'HostTopology(cells={self.cells!r})'


class HostPools(_ParsedColumn[Pool]):
    """The free PCI devices of a host."""

    _parse = staticmethod(parse_pools)
    _write = staticmethod(text_of_pools)

    @functools.cached_property
    def free(self) -> Pools:
        """The pools, in the order in which devices are taken."""
        return self._items

    @property
    def pools(self) -> list[dict[str, str | int | None]]:
        """The pools as plain dicts, as nova has them; new ones."""
        return [pool.flat() for pool in self.free]

    def __iter__(self) -> Iterator[dict[str, str | int | None]]:
        return iter(self.pools)

    def support_requests(
        self,
        requests: Iterable[InstancePCIRequest],
        provider_mapping: ProviderMapping | None = None,
        numa_cells: Iterable[Any] | None = None,
    ) -> bool:
        """Return whether devices that match all requests are free, near to the cells.

        Nova: pci/stats.py, support_requests; the sockets of cells are not known here.
        """
        wanted = requests_of(InstancePCIRequests(requests=list(requests)))
        devices = HostDevices(self.free, wanted, provider_mapping, {})
        return devices.supports(frozenset(cell.id for cell in numa_cells or ()))

    @functools.cached_property
    def devices(self) -> int:
        """Free devices of all pools."""
        return sum(pool.count for pool in self.free)

    @functools.cached_property
    def by_cell(self) -> Mapping[int | None, int]:
        """Free devices by cell; those near to none are under None."""
        return devices_by_cell(self.free)

    def __repr__(self) -> str:
        return f'HostPools(pools={self.pools!r})'


NOWHERE = HostTopology()


def host_topology(
    text: str | None, complain: Complain | None = None
) -> HostTopology | None:
    """Parse a numa_topology column; None if it is empty."""
    return HostTopology(text, complain) if text else None
