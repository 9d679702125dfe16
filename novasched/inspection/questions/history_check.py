# SPDX-License-Identifier: Apache-2.0
"""Check of a history: every decision again, until one is another one."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from novasched.history import reading
from novasched.history.reading import Gap, RecordedRequest
from novasched.inspection.questions import replay
from novasched.inspection.questions.replay import Replayer, ReplayReport

FEW_FILES = 4
"""With fewer files for each process, processes share each file."""
SMALL_BYTES = 1 << 20
"""A smaller history is checked before another process has started."""
LOOK_S = 0.2
CONTEXT = multiprocessing.get_context('spawn')
MOST_PLACES = 1 << 40
Progress = Callable[[float, int], None]
"""Gets the fraction that was read, and the number of requests that were checked."""


@dataclass
class HistoryReport:
    """What a check has found. ``difference`` is the first decision that is another one,
    if there is any; ``file`` has it."""

    requests: int = 0
    decisions: int = 0
    refused: int = 0  # of the requests: nothing was decided
    gaps: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)  # plugins that may ask elsewhere
    difference: ReplayReport | None = None
    file: str = ''

    @property
    def is_equal(self) -> bool:
        return self.difference is None


class _Share(NamedTuple):
    """The requests of a file that one process checks: each ``step``-th."""

    number: int  # of the file
    path: Path
    start: int
    step: int


class _Shared:
    """What the processes know of each other."""

    def __init__(self, trusted: Collection[str]) -> None:
        self.trusted = trusted
        self.bytes = CONTEXT.Value('q', 0)
        self.requests = CONTEXT.Value('q', 0)
        self.first = CONTEXT.Value('q', 1 << 62)
        """Place of the first difference in all files."""

    def add(self, read_bytes: int, requests: int = 0) -> None:
        with self.bytes.get_lock():
            self.bytes.value += read_bytes
            self.requests.value += requests

    def differs(self, place: int) -> None:
        with self.first.get_lock():
            self.first.value = min(self.first.value, place)


def check(
    path: Path, jobs: int | None, progress: Progress, trusted: Collection[str] = ()
) -> HistoryReport:
    """Decide all requests of a history again, in ``jobs`` processes.

    Without ``jobs``, each CPU has one. Only classes of ours are loaded, and those that
    are ``trusted``. Raises OSError and ValueError for what is no history, and
    errors.NovaschedError where a decision cannot be made.
    """
    files = reading.files_of(path)
    stored = sum(file.stat().st_size for file in files)
    if jobs is None:
        jobs = 1 if stored < SMALL_BYTES else len(os.sched_getaffinity(0))
    step = jobs if len(files) < FEW_FILES * jobs else 1
    shares = [
        _Share(number, file, start, step)
        for number, file in enumerate(files)
        for start in range(step)
    ]
    total = max(stored * step, 1)
    shared, parts = _Shared(trusted), []
    for part in _parts(shares, jobs, shared):
        if part is not None:
            parts.append(part)
        read = shared.bytes.value / total
        progress(min(read, 1.0), shared.requests.value)
    return _merged(parts)


def _parts(
    shares: Sequence[_Share], jobs: int, shared: _Shared
) -> Iterator[tuple[int, HistoryReport] | None]:
    """Yield the report of each share, and None now and then."""
    if jobs == 1:
        for share in shares:
            yield _checked(share, shared)
        return
    with ProcessPoolExecutor(jobs, CONTEXT, _begin, (shared,)) as executor:
        waiting = {executor.submit(_check_share, share) for share in shares}
        try:
            while waiting:
                ended, waiting = wait(waiting, LOOK_S, FIRST_COMPLETED)
                yield None
                yield from (each.result() for each in ended)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


_shared: _Shared


def _begin(shared: _Shared) -> None:
    global _shared
    _shared = shared


def _check_share(share: _Share) -> tuple[int, HistoryReport]:
    try:
        return _checked(share, _shared)
    except FileNotFoundError:  # it was there: a scheduler makes room for new ones
        removed = HistoryReport(gaps=[f'{share.path}: it was removed'])
        return share.number * MOST_PLACES, removed


def _checked(share: _Share, shared: _Shared) -> tuple[int, HistoryReport]:
    """Return the report of a share, and where its difference is in all files."""
    found, first = HistoryReport(file=str(share.path)), share.number * MOST_PLACES
    replayers: dict[str, Replayer] = {}
    place = first + share.start

    def wanted(request: int) -> bool:
        return request % share.step == share.start

    for item in reading.read_file(share.path, wanted, shared.add):
        if place > shared.first.value:
            break
        if isinstance(item, Gap):
            found.gaps.append(item.text)
        if not isinstance(item, RecordedRequest):
            continue
        found.requests += 1
        shared.add(0, 1)
        if item.is_decided:
            found.difference = _difference(item, replayers, found, shared.trusted)
        else:
            found.refused += 1
        if found.difference is not None:
            shared.differs(place)
            break
        place += share.step
    return place, found


def _difference(
    item: RecordedRequest,
    replayers: dict[str, Replayer],
    found: HistoryReport,
    trusted: Collection[str],
) -> ReplayReport | None:
    """Decide a request again; return the comparison if it differs."""
    replayer = replayers.get(item.profile_name)
    if replayer is None:
        foreign = replay.foreign_classes(item.profile)
        replay.check_trusted(found.file, foreign, trusted)
        replayer = replayers[item.profile_name] = Replayer(item.profile)
        found.foreign += item.profile.get('foreign', ())
    request = item.request()
    found.decisions += len(request['decisions'])
    if replayer.is_equal(request, item.hosts()):
        return None
    report = replayer.report(request, item.hosts())
    return None if report.is_equal else report


def _merged(parts: Sequence[tuple[int, HistoryReport]]) -> HistoryReport:
    whole, gaps = HistoryReport(), Counter[str]()
    for _, part in sorted(parts, key=lambda each: each[0]):
        whole.requests += part.requests
        whole.decisions += part.decisions
        whole.refused += part.refused
        gaps |= Counter(part.gaps)  # all shares of a file find the same
        whole.foreign += [each for each in part.foreign if each not in whole.foreign]
        if whole.difference is None and part.difference is not None:
            whole.difference, whole.file = part.difference, part.file
    whole.gaps = [*gaps.elements()]
    return whole
