# SPDX-License-Identifier: Apache-2.0
"""The decisions of all schedulers, as if they were in one log."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from novasched import errors
from novasched.decisions import overview
from novasched.decisions.counting import Count, counts_of
from novasched.decisions.overview import SchedulerOverview
from novasched.decisions.primitives import (
    head_of,
    primitive_of,
    unpacked,
)
from novasched.decisions.reading import Criteria, DecisionReader, Mark, whole_id
from novasched.decisions.record import ID_LENGTH, DecisionRecord, Head, Servers
from novasched.inspection.questions.schedulers import OtherSchedulers
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.typed_json import of_json

if TYPE_CHECKING:
    from novasched.inspection.questions.reports import Overview
    from novasched.inspection.questions.shadow import ShadowReport
    from novasched.inspection.session.orders import ShadowOrder
    from novasched.rpc.inspection_client import InspectionReply

PAGE = 500
"""Heads that a scheduler sends at a time."""
MOST_KNOWN = 20_000
"""Decisions of others of which it is remembered where they are kept."""
LATE_US = 10_000_000
"""Microseconds by which a scheduler may write a decision later than another one."""


class OwnLog(NamedTuple):
    """The log of this machine. ``origin`` is what schedulers call it that write it;
    ``host`` returns its name."""

    host: Callable[[], str]
    reader: DecisionReader
    origin: str


class LogRead(NamedTuple):
    """How far another log was read: all before ``since``, in microseconds since 1970,
    and of what it wrote later these decisions."""

    since: int
    ids: frozenset[str] = frozenset()


class FollowMark(NamedTuple):
    """A place in several logs: in our own, and how far others were ``read``, by their
    origin. ``began`` is where one begins that did not answer until now."""

    own: Mark
    began: LogRead
    read: Mapping[str, LogRead]


class AllDecisions:
    """Asks the log of this machine, and the schedulers of the others.

    It answers as decisions.reading.DecisionReader does. ``unanswered`` and
    ``without_log`` name the hosts whose decisions are not seen; ``warnings`` are
    sentences on them.
    """

    def __init__(
        self,
        own: OwnLog | None,
        others: OtherSchedulers,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._own = own
        self._others = others
        self._clock = clock
        self._servers: dict[str, Servers] = {}
        self._kept_by: dict[str, str] = {}

    @property
    def has_own(self) -> bool:
        """True if this machine keeps a log."""
        return self._own is not None

    @property
    def unanswered(self) -> list[str]:
        return self._others.unanswered

    @property
    def without_log(self) -> list[str]:
        return sorted(self._others.without_log)

    @property
    def warnings(self) -> list[str]:
        return self._others.warnings

    def close(self) -> None:
        """Close what was opened to ask the others."""
        self._others.close()

    def _ask(self, method: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Yield answers with their hosts; of schedulers that share a log the first."""
        for reply in self._replies(method, **arguments):
            yield reply.host, reply.answer

    def _replies(self, method: str, **arguments: Any) -> Iterator[InspectionReply]:
        """Yield the first reply of each log."""
        origins = {self._own.origin} if self._own is not None else set()
        for reply in self._others.ask(method, **arguments):
            if reply.origin not in origins:
                origins.add(reply.origin)
                yield reply

    # -- lists

    def find(
        self, criteria: Criteria, limit: int = 50, before: str | None = None
    ) -> list[Head]:
        """Return heads, the newest first; see DecisionReader.find."""
        if before is not None and len(before := whole_id(before)) != ID_LENGTH:
            record = self.read(before)
            if record is None:
                raise errors.DecisionNotFound(before, self.unanswered)
            before = record.head.id
        page = _page(criteria, limit, before)
        lists = [
            self._theirs(host, heads, criteria, limit)
            for host, heads in self._ask('find', **page)
        ]
        if self._own is not None:
            lists.append(self._own.reader.find(criteria, limit, before))
        return _newest(lists, limit)

    def _theirs(
        self, host: str, page: Sequence[Any], criteria: Criteria, limit: int
    ) -> list[Head]:
        """Return the heads of a scheduler that has sent the first page of them."""
        heads = self._heads(host, page)
        while len(page) == PAGE and len(heads) < limit:
            more = _page(criteria, limit - len(heads), heads[-1].id)
            page = next((p for _, p in self._ask('find', only=host, **more)), ())
            heads += self._heads(host, page)
        return heads

    def _heads(self, host: str, page: Iterable[Any]) -> list[Head]:
        """Return heads that the scheduler of a host has sent; remember what else it
        has said of them."""
        heads = []
        for found, hosts in page:
            heads.append(head_of(found))
            servers = Servers(found.get('server_uuids', ()), hosts)
            self._servers[heads[-1].id] = servers
            self._kept_by[heads[-1].id] = host
        for known in (self._servers, self._kept_by):
            for oldest in list(known)[: max(0, len(known) - MOST_KNOWN)]:
                known.pop(oldest, None)
        return heads

    def servers_of(self, ids: Sequence[str]) -> dict[str, Servers]:
        """Return the servers of what was found, by id; see DecisionReader."""
        own = self._own.reader.servers_of(ids) if self._own is not None else {}
        theirs = {one: self._servers[one] for one in ids if one in self._servers}
        return {**theirs, **own}

    def end(self) -> FollowMark:
        """Return the place after the newest record."""
        own = self._own.reader.end() if self._own is not None else Mark()
        mark = FollowMark(own, LogRead(self._late()), {})
        _, read = self._new(Criteria(), mark)
        return mark._replace(read=read)

    def newer(
        self, criteria: Criteria, mark: FollowMark, limit: int = PAGE
    ) -> tuple[list[Head], FollowMark]:
        """Return heads after a place, the oldest first, and the place after them."""
        own: list[Head] = []
        place = mark.own
        if self._own is not None:
            own, place = self._own.reader.newer(criteria, mark.own, limit)
        new, read = self._new(criteria, mark)
        heads = sorted([*own, *new], key=attrgetter('at'))
        return heads, FollowMark(place, mark.began, read)

    def _late(self) -> int:
        return int(self._clock.time() * 1e6) - LATE_US

    def _new(
        self, criteria: Criteria, mark: FollowMark
    ) -> tuple[list[Head], Mapping[str, LogRead]]:
        """Return the new heads of the others, and how far they are read now. One
        that did not answer before is asked again, for all since then."""
        late, new, read = self._late(), [], dict(mark.read)
        since = max((each.since for each in read.values()), default=mark.began.since)
        asked = _page(_later(criteria, since), PAGE, None)
        for reply in self._replies('find', **asked):
            before = read.get(reply.origin, mark.began)
            of_it, page = _later(criteria, before.since), reply.answer
            if before.since < since:
                again = self._ask('find', only=reply.host, **_page(of_it, PAGE, None))
                page = next((answer for _, answer in again), None)
            if page is None:  # it is unanswered again
                continue
            heads = self._theirs(reply.host, page, of_it, MOST_KNOWN)
            new += [head for head in heads if head.id not in before.ids]
            ids = frozenset(head.id for head in heads if head.at >= late)
            read[reply.origin] = LogRead(late, ids)
        return new, read

    # -- single records, counts

    def read(self, id_prefix: str) -> DecisionRecord | None:
        """Return a record by its id, or by the beginning of it; see DecisionReader."""
        is_whole = len(whole_id(id_prefix)) == ID_LENGTH
        found: dict[str, DecisionRecord | None] = {}
        if self._own is not None:
            try:
                record = self._own.reader.read(id_prefix)
            except errors.AmbiguousDecision as problem:
                found.update(dict.fromkeys(problem.found))
            else:
                if record is not None and is_whole:
                    return record
                found.update({} if record is None else {record.head.id: record})
        only = self._kept_by.get(id_prefix)
        for host, answer in self._ask('read', only=only, id=id_prefix):
            found.update(dict.fromkeys(answer['ids']))
            if answer['record'] is not None:
                try:
                    found[answer['ids'][0]] = unpacked(answer['record'])
                except ValueError as problem:
                    self._others.note(host, f'sends what cannot be read: {problem}')
        if len(found) > 1:
            raise errors.AmbiguousDecision(id_prefix, sorted(found))
        return next(iter(found.values()), None)

    def count(self, by: str, criteria: Criteria) -> list[Count]:
        """Count records; see DecisionReader.count."""
        asked = {'by': by, 'criteria': primitive_of(criteria)}
        tallies = [answer for _, answer in self._ask('count', **asked)]
        if self._own is not None:
            tallies.append(self._own.reader.tally(by, criteria))
        return counts_of(by, tallies)

    def oldest_at(self) -> int | None:
        """Return the time of the oldest record."""
        found = [at for _, at in self._ask('oldest_at')]
        if self._own is not None:
            found.append(self._own.reader.oldest_at())
        return min((at for at in found if at is not None), default=None)

    def has_compared(self) -> bool:
        """Return whether a shadow of this machine has compared anything."""
        return self._own is not None and self._own.reader.has_compared()

    def shadow(self, order: ShadowOrder) -> ShadowReport:
        """Return the report of a shadow of this machine: others have none. Raises
        errors.OptionError for a time that is none."""
        from novasched.inspection.questions.shadow import report

        now_s = self._clock.time()
        since = order.since_us(now_s)
        reader = self._own.reader if self._own is not None else None
        compared = reader.compared(since) if reader is not None else ()
        listened = reader.listened(since) if reader is not None else ()
        return report(compared, listened, since, int(now_s * 1e6))

    def overview(self, window_s: float) -> Overview:
        """Return the picture of the last seconds, of all schedulers."""
        # Lists do without the types of reports, whose import takes long.
        from novasched.inspection.questions.overview import merged

        parts = {
            host: of_json(SchedulerOverview, answer)
            for host, answer in self._ask('overview', window_s=window_s)
        }
        if self._own is not None:
            parts[self._own.host()] = overview.summarize(self._own.reader, window_s)
        return merged(parts, window_s, self.unanswered, self.without_log)


def _later(criteria: Criteria, since: int) -> Criteria:
    return replace(criteria, since=max(since, criteria.since or 0))


def _page(criteria: Criteria, limit: int, before: str | None) -> dict[str, Any]:
    """Return the arguments of find()."""
    return {
        'criteria': primitive_of(criteria),
        'limit': min(limit, PAGE),
        'before': before,
    }


def _newest(lists: Sequence[Sequence[Head]], limit: int) -> list[Head]:
    """Merge lists, each in the order of its log, by time; no id twice."""
    found: dict[str, Head] = {}
    for head in heapq.merge(*lists, key=attrgetter('at'), reverse=True):
        found.setdefault(head.id, head)
        if len(found) == limit:
            break
    return list(found.values())
