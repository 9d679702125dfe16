# SPDX-License-Identifier: Apache-2.0
"""Copies of placement that are read when asked for, and answers from them."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.placement_copy import PlacementCopy
from novasched.placement_copy.copy import MOST_OF_ROOT
from novasched.ports import Candidates, Placement, ProviderStore, QueryFailed
from novasched.providers.by_root import CandidatesByRoot, TableSummaries
from novasched.providers.candidates import search
from novasched.providers.contents import Contents
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.resources.query import VERSION, decode
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

JUST_READ_S, FRESH_S = 5.0, 60.0
"""How old the copy of the machine may be for a plan, and for a count."""


@dataclass
class CopyOnDemand:
    """Reads copies of placement that know the members of some aggregates.

    The machine's copy is used while it is young enough, else ``store`` is read. Threads
    may share it. Raises errors.StoreFailed.
    """

    store: ProviderStore
    hints: CloudHints = NO_HINTS
    # returns the copy of this machine's scheduler, if it keeps one as young
    of_machine: Callable[[float], PlacementCopy | None] = lambda max_age_s: None
    change: Callable[[Contents], Contents] | None = None  # made to what was read
    not_before: float = -math.inf  # no copy that was read earlier is used
    max_age_s: float = math.inf  # after which store is read again
    machine_max_age_s: float = JUST_READ_S  # up to which the machine's copy is used
    clock: Clock = SYSTEM_CLOCK
    newest: PlacementCopy | None = None
    """The copy that was returned last."""
    _own: PlacementCopy | None = field(default=None, repr=False)
    _changed: tuple[PlacementCopy | None, PlacementCopy | None] = field(
        default=(None, None), repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(
        self, aggregates: Iterable[str] = (), max_age_s: float | None = None
    ) -> PlacementCopy:
        """Return a copy; none that is older than ``max_age_s``, if that is said."""
        wanted = set(aggregates)
        with self._lock:
            found = self._known(
                wanted, self.max_age_s if max_age_s is None else max_age_s
            )
            if found is None:
                found = self._own = self._read(wanted)
            known, made = self._changed
            if made is None or known is not found:
                made = self._with_change(found)
                self._changed = found, made
            self.newest = made
            return made

    def renew(self) -> None:
        """Use nothing that was read before."""
        self.not_before = self.clock.monotonic()

    def age_s(self) -> float:
        """Return how old the copy is."""
        return self._age_s(self())

    def _age_s(self, copy: PlacementCopy) -> float:
        return self.clock.monotonic() - copy.as_of

    def _with_change(self, copy: PlacementCopy) -> PlacementCopy:
        contents = copy.contents if self.change is None else self.change(copy.contents)
        same = contents is copy.contents
        return copy if same else PlacementCopy.of(contents, copy.as_of)

    def _known(self, wanted: set[str], max_age_s: float) -> PlacementCopy | None:
        """Return the newest fitting copy, if there is one."""
        kept = self.of_machine(self.machine_max_age_s)
        fit = [
            copy
            for copy in (self._own, kept)
            if copy is not None
            and copy.contents.knows(wanted)
            and self._age_s(copy) <= max_age_s
            and copy.as_of >= self.not_before
        ]
        return max(fit, key=lambda copy: copy.as_of, default=None)

    def _read(self, wanted: set[str]) -> PlacementCopy:
        as_of, before = self.clock.monotonic(), self._own
        hints = self.hints.naming(wanted)
        if before is None:
            contents = self.store.read(hints)
        else:
            contents = self.store.read_since(
                before.contents, include_unversioned=True, hints=hints
            )
        return PlacementCopy.of(contents, as_of, before)


class CopiedPlacement:
    """Answers queries from a copy; all else is passed on. For dry runs.

    ``copy`` returns one that knows some aggregates. ``as_it_is``: as a scheduler with a
    copy does, without a limit, and placement is asked where the copy cannot be read.
    """

    def __init__(
        self,
        inner: Placement,
        copy: Callable[[Iterable[str]], PlacementCopy],
        as_it_is: bool = False,
    ) -> None:
        self._inner = inner
        self._copy = copy
        self._as_it_is = as_it_is
        self.claim, self.claim_all = inner.claim, inner.claim_all
        self.undo, self.answers = inner.undo, inner.answers
        self.holders, self.usages = inner.holders, inner.usages

    def candidates(
        self, context: RequestContext, query: str
    ) -> Candidates | QueryFailed:
        """Answer as placement would."""
        try:
            asked = decode(query)
            table = self._copy(asked.aggregates()).table
            searched = search(asked, table)
            if self._as_it_is:
                by_root = CandidatesByRoot([searched], MOST_OF_ROOT)
                found = by_root.flat(asked.limit is None)
            else:
                found = list(itertools.islice(searched, asked.limit))
            return Candidates(found, VERSION, TableSummaries(table))
        except errors.InvalidCandidateQuery as problem:
            return QueryFailed(400, str(problem))
        except errors.StoreFailed as problem:
            if self._as_it_is:
                return self._inner.candidates(context, query)
            return QueryFailed(0, str(problem))

    def aggregates(
        self, context: RequestContext, provider_uuid: str
    ) -> frozenset[str] | QueryFailed:
        """Return the aggregates of a provider, as far as queries have named them."""
        try:
            return self._copy(()).aggregates_of(provider_uuid) or frozenset()
        except errors.StoreFailed as problem:
            return QueryFailed(0, str(problem))
