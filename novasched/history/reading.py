# SPDX-License-Identifier: Apache-2.0
"""A history, read item by item; memory is bounded by one state of each worker.

``read(path)`` yields the items of all workers by time, ``read_file(path)`` the items of
one file in its order. ``path`` is a directory, a file, or the document of one request.
``read(path, extent(path))`` goes no further than the history went at that time.

The items:

``RecordedRequest``
    One request that ended: ``at`` (seconds since 1970), ``spec`` (primitive of the
    RequestSpec that the driver got), ``instance_uuids``, ``profile`` (``nova_release``
    and ``options`` by group), ``decisions`` (form of docs/reference/shadow-replay.md;
    without any, nothing was decided). ``hosts()`` returns the HostTable that was
    offered, with candidates, in order; ``state.hosts()`` all hosts. ``document()``
    returns the document of this one request. ``line`` has all that was written.
``EndedInstance``
    ``uuid`` left ``host`` (deleted, or moved away): ``at``, ``host``, ``uuid``. Every
    worker hears of it: ends repeat across workers.
``StartedInstance``
    ``uuid`` is known on ``host`` (built, or moved there), with the id of its flavor.
``ProviderChange``
    Providers of the copy of placement that are new or changed, by uuid: ``parent``,
    ``inventories`` by class (``capacity``, ``min_unit``, ``max_unit``, ``step_size``,
    ``used``), ``traits``, ``aggregates``; None for one that is gone. All of them at the
    start of each file; what is ``used`` alone is no change.
``Gap``
    What is not in the history, with its ``text``: requests that were dropped
    (``requests``), a torn end of a file.

A ``RecordedRequest`` is valid until the next item is taken: its state goes on.
"""

from __future__ import annotations

import heapq
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from novasched.cluster.host_columns import KINDS, HostColumns
from novasched.decisions import history
from novasched.decisions.history import Document
from novasched.history import providers
from novasched.history.encoding import FORM, own_candidate
from novasched.history.files import GZIP, SUFFIX, is_in_use
from novasched.history.orders import HostOrder, Line, unpacked
from novasched.runtime.times import time_at
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.columns import Categories
from novasched.scheduler.hosts import HostTable, Rows, Snapshot

READ_BYTES = 1 << 16
MOST_BYTES = 1 << 62
STREAM = re.compile(rb'{"history".*?"stream": ?"(.*?)"')
SERVICE = ('service_disabled', 'service_up')
COMPOSED = ('aggregates', *SERVICE, *history.OF_WEIGHERS)
"""Keys of rows from which the columns are made that HostColumns does not have."""
KILLED = 'its worker was killed: the last requests may be missing'
Wanted = Callable[[int], bool]
"""Whether a request is yielded, by its place in the file; the others are not even
decoded."""
Extent = tuple[tuple[str, int], ...]
"""How far a history went at a time: the names of its files, and their sizes."""


class HistoryState:
    """All hosts as they were known at a moment; it goes on as the file is read."""

    def __init__(self) -> None:
        self.view = 0
        """Number of the state in its file."""
        self.offered = self.ranked = HostOrder(0)
        """The orders of the candidates and of the ranks in the last request."""
        self._rows: list[dict[str, Any]] = []
        self._own = HostColumns()
        self._aggregates: list[tuple[Aggregate, ...]] = []
        self._composed: dict[str, Any] = {}  # columns that are not in ``_own``

    def __len__(self) -> int:
        return len(self._rows)

    def begin(self, line: Line) -> None:
        """Take in the line of a whole state."""
        self.view = line['state']
        known = [history.aggregate_of(each) for each in line['aggregates']]
        columns = {}
        for name, column in line['columns'].items():
            if isinstance(column, dict):
                values, codes = column['values'], unpacked(column['codes'])
                if name == 'aggregates':
                    values = [tuple(known[n] for n in group) for group in values]
                column = [values[code] for code in codes.tolist()]
            columns[name] = column
        self._aggregates = columns.pop('aggregates')
        values = zip(*columns.values(), strict=True)
        self._rows = [dict(zip(columns, row, strict=True)) for row in values]
        self._own = HostColumns()
        self.offered = self.ranked = HostOrder(len(self._rows))
        self._apply(range(len(self._rows)))
        self._composed = {}

    def change(self, line: Line) -> None:
        """Take in the line of rows that have changed."""
        self.view = line['rows']
        places = []
        for text, changed in line['changed'].items():
            place = int(text)
            if not changed.keys().isdisjoint(COMPOSED):
                self._composed = {}
            if 'aggregates' in changed:
                groups = changed.pop('aggregates')
                self._aggregates[place] = tuple(map(history.aggregate_of, groups))
            self._rows[place].update(changed)
            if not changed.keys().isdisjoint(KINDS):
                places.append(place)
        self._apply(places)

    def change_order(self, line: Line) -> None:
        """Take in the line of orders that have changed."""
        self.offered = self.offered.changed(line['offered'])
        self.ranked = self.ranked.changed(line['ranked'])

    def _apply(self, places: Sequence[int]) -> None:
        rows = [(place, self._rows[place]) for place in places]
        self._own.apply(
            {(row['cell_uuid'], at): history.values_of(row) for at, row in rows}
        )

    def uuid(self, row: int) -> str:
        """Return the uuid of the node in a row."""
        uuid: str = self._rows[row]['uuid']
        return uuid

    def hosts(
        self,
        rows: Rows | None = None,
        candidates: Callable[[int], list[Any]] = lambda place: [],
    ) -> HostTable:
        """Return the hosts in some rows, in order, with the candidates of a row; all
        hosts without any."""
        if not self._composed:
            self._composed = self._compose()
        columns = {
            **self._own.columns(),
            **self._composed,
            **history.columns_read(self._rows),
            **history.columns_of_request(self._rows, candidates),
        }
        return HostTable(Snapshot(columns), rows)

    def _compose(self) -> dict[str, Any]:
        groups = {id(group): group for group in self._aggregates}
        codes = {group: code for code, group in enumerate(groups)}
        of_rows = [codes[id(group)] for group in self._aggregates]
        found: dict[str, Any] = {
            name: np.array([row[name] for row in self._rows], bool) for name in SERVICE
        }
        values = list(groups.values())
        found['aggregates'] = Categories(values, np.array(of_rows, np.intp))
        return found | history.columns_of_weighers(self._rows)


@dataclass(frozen=True)
class RecordedRequest:
    """A request that ended. It is valid until the next item is taken."""

    line: Line = field(repr=False)
    profile: Mapping[str, Any] = field(repr=False)
    state: HistoryState = field(repr=False)

    @property
    def profile_name(self) -> str:
        """A name that the profile has in its file."""
        return str(self.line.get('profile', ''))

    @property
    def at(self) -> float:
        """When it came, in seconds since 1970."""
        at: float = self.line['at']
        return at

    @property
    def ended_at(self) -> float:
        return self.at + float(self.line['took'])

    @property
    def spec(self) -> Mapping[str, Any]:
        """The request as the driver got it, or as it came if it was not decided."""
        spec: Mapping[str, Any] = self.line['spec']
        return spec

    @property
    def instance_uuids(self) -> Sequence[str] | None:
        uuids: Sequence[str] | None = self.line['instance_uuids']
        return uuids

    @property
    def is_decided(self) -> bool:
        return bool(self.line['decisions'])

    @cached_property
    def rows(self) -> Rows:
        """The rows of the state that were offered, in order."""
        if 'offered' in self.line:  # form 1
            return unpacked(self.line['offered']).astype(np.intp)
        rows: Rows = self.state.offered.rows[unpacked(self.line['places'])]
        return rows

    @cached_property
    def decisions(self) -> list[dict[str, Any]]:
        """The decisions; hosts are numbered in the order in which they were offered."""
        return [
            {**made, 'trace': made['trace'] and self._trace(made['trace'])}
            for made in self.line['decisions']
        ]

    def _trace(self, found: Line) -> Line:
        """Return the outcome of each host of a decision, by its place."""
        rejected = [(name, unpacked(places)) for name, places in found['rejected']]
        if 'ranked' in found:  # form 1: rows
            rejected = [(name, self._places[rows]) for name, rows in rejected]
            ranked, starts = unpacked(found['ranked']), unpacked(found['starts'])
            counts = np.diff(starts, append=len(ranked)).astype(np.intp)
            totals = np.repeat(unpacked(found['totals']).astype(float), counts)
        else:
            is_left = np.ones(len(self.rows), bool)
            for places in (unpacked(found['excluded']), *(of for _, of in rejected)):
                is_left[places] = False
            order = self.state.ranked.changed(found.get('changes', {}))
            ranked = order.rows[order.places(self.rows[is_left])]
            totals = order.totals[ranked]
        return {
            'ranked': self._places[ranked].tolist(),
            'totals': history.totals_of(totals),
            'rejected': [[name, places.tolist()] for name, places in rejected],
        }

    @cached_property
    def _places(self) -> Rows:
        """The place of each row that was offered."""
        places = np.zeros(len(self.state), np.intp)
        places[self.rows] = np.arange(len(self.rows))
        return places

    def candidates(self, row: int) -> list[Any]:
        """Return the allocation candidates of a row of the state."""
        found = self.line['candidates']
        if (key := str(row)) in found['others']:
            return list(found['others'][key])
        return [own_candidate(self.state.uuid(row), found['amounts'])]

    def hosts(self) -> HostTable:
        """Return the hosts that were offered, with their candidates, in order."""
        return self.state.hosts(self.rows, self.candidates)

    def request(self) -> dict[str, Any]:
        """Return the request in the form of docs/reference/shadow-replay.md, but for
        the candidates of its hosts."""
        return {
            'nova': [],
            **self.line,
            'candidates': [],
            'decisions': self.decisions,
        }

    def document(self) -> Document:
        """Return the document of this one request."""
        found = {'seq': 1, **self.request()}
        found['candidates'] = [self.candidates(row) for row in self.rows.tolist()]
        for name in ('request', 'view', 'profile', 'offered', 'places'):
            found.pop(name, None)
        kept = {
            'history': history.FORM,
            'novasched': self.profile.get('novasched'),
            'profile': dict(self.profile),
            'state': history.state_of(self.hosts()),
            'requests': [found],
        }
        return history.read(json.dumps(kept, default=history.plain))


@dataclass(frozen=True)
class DocumentedRequest(RecordedRequest):
    """The request of a document."""

    kept: Document = field(repr=False)

    @property
    def decisions(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = self.line['decisions']
        return made

    def hosts(self) -> HostTable:
        return history.hosts_of(self.kept)

    def request(self) -> dict[str, Any]:
        return {'nova': [], **self.line}

    def document(self) -> Document:
        return self.kept


class EndedInstance(NamedTuple):
    """An instance left a host."""

    at: float
    host: str
    uuid: str


class StartedInstance(NamedTuple):
    """An instance is on a host, with the id of its flavor, if that is known."""

    at: float
    host: str
    uuid: str
    flavor: int | None


class ProviderChange(NamedTuple):
    """Providers that are new or changed, by uuid; None for one that is gone."""

    at: float
    providers: Mapping[str, Mapping[str, Any] | None]


class Gap(NamedTuple):
    """What is not in the history, or cannot be read."""

    text: str
    requests: int = 0
    at: float = 0.0


Item = RecordedRequest | EndedInstance | StartedInstance | ProviderChange | Gap


def files_of(path: Path) -> list[Path]:
    """Return the files of a history, each after the file before it of its worker.
    Raises OSError."""
    return sorted(path.glob(f'*{SUFFIX}')) if path.is_dir() else [path]


def extent(path: Path) -> Extent:
    """Return how far a history goes now. Raises OSError."""
    return tuple((file.name, file.stat().st_size) for file in files_of(path))


def sized_files(path: Path, until: Extent | None = None) -> list[tuple[Path, int]]:
    """Return the files of an extent, by default all, with their sizes."""
    found = extent(path) if until is None else until
    return [(path / name if path.is_dir() else path, size) for name, size in found]


def read(path: Path, until: Extent | None = None) -> Iterator[Item]:
    """Yield the items of all workers, by time; with an extent the same each time,
    though workers go on. Raises OSError, and ValueError for what is no history."""
    streams: dict[str, list[_Part]] = {}
    for file, size in sized_files(path, until):
        for stream, part in _parts(file, size):
            streams.setdefault(stream, []).append(part)
    yield from heapq.merge(*map(_following, streams.values()), key=_time)


class _Part(NamedTuple):
    """Bytes of a file that one worker wrote."""

    path: Path
    start: int
    end: int


def _parts(path: Path, size: int) -> Iterator[tuple[str, _Part]]:
    """Yield the parts of a file, with their streams: an export has the streams of all
    workers, each in gzip of its own."""
    lines, starts = Lines(path, end=size), dict[int, str]()
    for text in lines:
        if found := STREAM.match(text):
            starts.setdefault(lines.start if starts else 0, found[1].decode())
            if path.name.startswith(f'{found[1].decode()}-'):
                break  # the worker's own file
    ends = [*[*starts][1:], size]
    for (start, stream), end in zip(starts.items() or [(0, '')], ends, strict=True):
        yield stream, _Part(path, start, end)


def _following(parts: Sequence[_Part]) -> Iterator[Item]:
    for part in parts:
        yield from read_file(part.path, start=part.start, end=part.end)


def _time(item: Item) -> float:
    return item.ended_at if isinstance(item, RecordedRequest) else item.at


def read_file(
    path: Path,
    wanted: Wanted = lambda place: True,
    progress: Callable[[int], None] = lambda read_bytes: None,
    start: int = 0,
    end: int = MOST_BYTES,
) -> Iterator[Item]:
    """Yield the items of a file, or of a document, from ``start`` to ``end``.
    ``progress`` gets the number of bytes each time that some are read. Raises as read()
    does."""
    with path.open('rb') as file:
        if file.read(1) == b'{':
            if wanted(0):
                yield _documented(b'{' + file.read())
            return
    yield from _LineReader(path, wanted).items(Lines(path, progress, start, end))


def _documented(text: bytes) -> DocumentedRequest:
    kept = history.read(text)
    try:
        line = {'took': 0.0, **kept['requests'][0]}
        line.setdefault('at', time_at(line['time']) / 1e6)
        return DocumentedRequest(line, kept['profile'], HistoryState(), kept)
    except (LookupError, TypeError) as problem:
        raise ValueError(f'it is no history of a request: {problem!r}') from problem


class Lines:
    """The whole lines of a file; ``problem`` says then how it ends, if it is torn."""

    def __init__(
        self,
        path: Path,
        progress: Callable[[int], None] = lambda read_bytes: None,
        start: int = 0,
        end: int = MOST_BYTES,
    ) -> None:
        self._path = path
        self._progress = progress
        self._end = end
        self._is_ended = self._goes_on = False
        self.start = start
        """Where the gzip stream begins that is read now."""
        self.problem = ''

    def __iter__(self) -> Iterator[bytes]:
        rest = b''
        for text in self._texts():
            *lines, rest = (rest + text).split(b'\n')
            yield from lines
        if not self._goes_on and (rest or not self._is_ended):
            self.problem = self.problem or KILLED

    def _texts(self) -> Iterator[bytes]:
        decompressor = zlib.decompressobj(GZIP)
        with self._path.open('rb') as file:
            file.seek(self.start)
            while stored := file.read(min(READ_BYTES, self._end - file.tell())):
                self._progress(len(stored))
                while stored:
                    try:
                        yield decompressor.decompress(stored)
                    except zlib.error as problem:
                        self.problem = f'it is broken: {problem}'
                        return
                    stored = decompressor.unused_data
                    self._is_ended = decompressor.eof
                    if self._is_ended:
                        self.start = file.tell() - len(stored)
                        decompressor = zlib.decompressobj(GZIP)
            self._goes_on = bool(file.read(1)) or is_in_use(self._path)


class _LineReader:
    """Reads the lines of a file, one after the other."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self._path = path
        self._wanted = wanted
        self._requests = 0
        self._state = HistoryState()
        self._release = ''
        self._profiles: dict[str, Any] = {}

    def items(self, lines: Lines) -> Iterator[Item]:
        at = 0.0
        for text in lines:
            if text.startswith(b'{"request"'):
                self._requests += 1
                if not self._wanted(self._requests - 1):
                    continue
            try:
                line = json.loads(text)
                found = list(self._read(line))
            except (LookupError, TypeError, AttributeError, ValueError) as problem:
                what = f'{type(problem).__name__}: {problem}'
                yield Gap(f'{self._path}: it cannot be read further: {what}', at=at)
                return
            at = line.get('at', at)
            yield from found
        if lines.problem:
            yield Gap(f'{self._path}: {lines.problem}', at=at)

    def _read(self, line: Line) -> Iterator[Item]:
        kind = next(iter(line))
        if kind == 'history':
            if line['history'] > FORM:
                raise ValueError(
                    f'novasched {line["novasched"]} wrote it, a later form'
                )
            self._state, self._release = HistoryState(), line['novasched']
        elif kind == 'profile':
            self._profiles[line['profile']] = {'novasched': self._release, **line}
        elif kind == 'state':
            self._state.begin(line)
        elif kind == 'rows':
            self._state.change(line)
        elif kind == 'order':
            self._state.change_order(line)
        elif kind == 'request':
            if line['view'] != self._state.view:
                raise ValueError(f'state {line["view"]} is missing')
            yield RecordedRequest(line, self._profiles[line['profile']], self._state)
        elif kind == 'providers':
            yield ProviderChange(line['at'], providers.decoded(line['providers']))
        elif kind == 'instance':
            about = line['at'], line['host'], line['instance']
            is_ended = line.get('ended')
            yield (
                EndedInstance(*about)
                if is_ended
                else StartedInstance(*about, line['flavor'])
            )
        elif kind == 'dropped':
            text = f'{line["dropped"]} requests were dropped while it was recorded'
            yield Gap(f'{self._path}: {text}', line['dropped'], line['at'])
