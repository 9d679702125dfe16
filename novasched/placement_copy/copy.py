# SPDX-License-Identifier: Apache-2.0
"""Keeps the copy of placement: reads it, refreshes it, searches it for candidates."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, KeysView, Mapping, Set
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import numpy as np

from novasched import errors
from novasched.placement_copy import SOURCE_NAMES, PlacementCopy
from novasched.placement_copy.own_claims import OwnClaims
from novasched.placement_copy.refresh import LOAD_EVERY_S, RefreshSchedule
from novasched.placement_copy.verification import CopyVerifier
from novasched.ports import Candidates, ProviderStore
from novasched.providers.by_root import CandidatesByRoot, TableSummaries
from novasched.providers.candidates import search
from novasched.providers.contents import Contents
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.providers.table import Amounts, ProviderTable
from novasched.resources import Query
from novasched.resources.query import VERSION
from novasched.runtime.clock import Clock
from novasched.runtime.executor import BulkheadExecutor
from novasched.runtime.log_once import LogOnce
from novasched.runtime.periodic import PeriodicTask

LOG = logging.getLogger(__name__)

T = TypeVar('T')

PATIENCE_S = 5.0
"""How long a request waits until the copy is up to date. Once that was too short, none
waits until a read has succeeded."""
CATCH_UP_S = 2.0
MOST_OF_ROOT = 32
"""Candidates of one root that are looked at first; all, if none of those fits."""
VERIFIED_AT_ONCE = 4
"""Requests whose picks are verified side by side."""
FALLBACK = 'Falling back to placement for allocation candidates: %s'
LOOK_AGAIN_S = 5.0
"""A compute says that a server has gone, and frees what it had soon after."""

LAG_S = 60.0
"""How long placement is asked for a node that the copy does not show; as long as the
longest pause between two reads."""

NO_NODES: KeysView[str] = dict[str, Any]().keys()


class _Comparison(NamedTuple):
    """Compute nodes and the copy, as they were compared, and nodes that the copy lacks.

    ``began_at`` is the time of the first look, ``new_since`` when each node was noticed
    that registered after it.
    """

    began_at: float
    nodes: Set[str] = frozenset()
    contents: Contents | None = None
    uuids: frozenset[str] = frozenset()
    missing: Set[str] = frozenset()
    new_since: Mapping[str, float] = {}


class CopyKeeper:
    """Keeps a copy of placement in memory. Threads may share it."""

    def __init__(
        self,
        store: ProviderStore,
        clock: Clock,
        max_age_s: float | None = None,
        # uuids of the compute nodes
        nodes: Callable[[], KeysView[str]] = lambda: NO_NODES,
        hints: CloudHints = NO_HINTS,
        measure: Callable[[], contextlib.AbstractContextManager[None]] = (
            contextlib.nullcontext
        ),
        patience_s: float = PATIENCE_S,  # longest wait for a read that is under way
        rng: random.Random | None = None,
        own_claims: OwnClaims | None = None,  # of the process
    ) -> None:
        self.store = store
        self._clock = clock
        self._schedule = RefreshSchedule(
            max_age_s, store.reads_fast, rng or random.Random()
        )
        self._patience_s = patience_s
        self._nodes = nodes
        self._asked: set[str] = set()  # aggregates
        self._hints = hints.naming(self._asked)
        self._measure = measure
        self._reading = threading.Lock()
        self._as_read: PlacementCopy | None = None
        self._copy: PlacementCopy | None = None  # own claims added
        self.own_claims = OwnClaims() if own_claims is None else own_claims
        self._changing = self.own_claims.changing
        self.own_claims.join(self)
        self._recheck_at: dict[str, float] = {}  # by uuid of a provider
        self._wake = threading.Event()
        self._wake.set()
        self._mark: object | None = None
        self._broken = self._late = self._stopped = False
        self._failed_at = float('-inf')
        self._failure = ''
        self._compared: _Comparison | None = None
        self._nested: tuple[object, int, bool] = (None, 0, False)
        self._reader = BulkheadExecutor('placement-copy', 1)
        self._next_read: Future[None] | None = None
        self._verifying = BulkheadExecutor('placement-verify', VERIFIED_AT_ONCE)
        self._logged = LogOnce()
        self._orphans = LogOnce()
        self._defect = float('-inf'), ''
        self.fallbacks: Counter[str] = Counter()  # queries of placement by reason
        # providers that a full read showed to differ though their generation was the
        # same, and picks that placement would no longer offer when they were verified
        self.differences = self.void_picks = 0

    # -- candidates

    def candidates(self, query: Query, fresh: bool = False) -> Candidates | str:
        """Return the candidates of a query and of its fallback; else why placement
        must be asked.

        ``fresh``: the copy is brought up to date first, as it is where there are none.
        """
        try:
            if query.for_ports:
                raise errors.InvalidCandidateQuery('ports ask for resources')
            for up_to_date in (fresh, True):
                found = self._candidates(query, up_to_date)
                if found.requests or up_to_date:
                    break
        except MemoryError:
            raise
        except Exception as problem:  # noqa: BLE001 placement can answer
            return str(self.failed(problem))
        self._log_end()
        return found

    def failed(self, problem: Exception) -> errors.CopyError:
        """Count and log why placement must be asked, and return it.

        A reason is logged once; problems of one query, and any before the first read,
        at DEBUG. A defect is logged with one traceback for each place that it comes
        from.
        """
        if not isinstance(problem, errors.CopyError | errors.StoreFailed):
            text = f'{type(problem).__name__}: {problem}'
            self.fallbacks['defect'] += 1
            self._defect = self._clock.monotonic(), text
            place = str(traceback.extract_tb(problem.__traceback__)[-1])
            with self._changing:
                is_new = self._logged.begins(place)
            if is_new:
                LOG.error(FALLBACK, text, exc_info=problem)
            return errors.CopyError(text)
        why = problem
        if not isinstance(why, errors.CopyError):
            why = errors.CopyError(str(problem))
        self.fallbacks[why.reason] += 1
        level = logging.WARNING
        if why.is_of_query or self._copy is None or not self._begins():
            level = logging.DEBUG
        LOG.log(level, FALLBACK, why)
        return why

    def _begins(self) -> bool:
        with self._changing:
            return not self._stopped and self._logged.begins()

    def _log_end(self) -> None:
        """Say once that what was wrong with the copy has ended, if it has."""
        if not (self._broken or self._late) and self._logged.ends():
            LOG.info('Candidates are computed from the copy of placement again')

    def _candidates(self, query: Query, fresh: bool) -> Candidates:
        if self._schedule.asked(self._clock.monotonic()):
            self._wake.set()
        if fresh:
            self._bring_up_to_date()
        copy = self._knowing(query)
        table = copy.table
        both = [query] if query.fallback is None else [query, query.fallback]
        queries = [each.without_bare_group() for each in both]
        found = CandidatesByRoot(
            [search(each, table) for each in queries],
            None if query.limit is None else MOST_OF_ROOT,
        )
        is_apart = not found.shares and not self._has_nested_nodes(table)
        return Candidates(
            found if is_apart else found.flat(query.limit is None),
            VERSION,
            TableSummaries(table),
            cut=is_apart and not table.is_flat and found.cut,
            copy=copy.number,
            verifier=CopyVerifier(self.store, copy, queries, self, self._clock),
        )

    def _knowing(self, query: Query) -> PlacementCopy:
        """Return the copy, if it knows the aggregates that a query names."""
        copy = self._current()
        aggregates = () if copy.is_exact else query.aggregates()
        if not copy.contents.knows(aggregates):
            self.want(aggregates)
            problem = 'members of an aggregate were not read yet'
            raise errors.InvalidCandidateQuery(problem)
        return copy

    def look(self, read: Callable[[], T]) -> T:
        """Read for a request, in a thread that may hang where this one must not."""
        self._current()
        looking = self._verifying.submit(read)
        try:
            return looking.result(self._patience_s)
        except TimeoutError as problem:
            looking.cancel()
            self._late, self._failed_at = True, self._clock.monotonic()
            raise errors.NoCopy(
                f'placement did not answer within {self._patience_s:g} s'
            ) from problem
        except errors.StoreFailed as problem:
            self._broken, self._failure = True, str(problem)
            self._failed_at = self._clock.monotonic()
            raise

    def changed(self, provider_uuids: Iterable[str], void: int) -> None:
        """Have providers read that are not what the copy says of them."""
        self.void_picks += void
        self.invalidate(provider_uuids)

    def _current(self) -> PlacementCopy:
        """Return the copy, with own claims. Raises errors.NoCopy."""
        copy = self._copy
        why = f': {self._failure}' if self._failure else ''
        if copy is None:
            raise errors.NoCopy(f'the copy of its state was not read yet{why}')
        if self._broken or self._late or self._stopped:
            raise errors.NoCopy(f'the copy cannot be brought up to date{why}')
        if self._is_old(copy.as_of):
            age_s = self._clock.monotonic() - copy.as_of
            raise errors.NoCopy(f'the copy of its state is {age_s:.0f} s old')
        return copy

    def _is_old(self, as_of: float) -> bool:
        return self._clock.monotonic() - as_of > self._schedule.max_age_s

    def _bring_up_to_date(self) -> None:
        """Read what has changed, in a thread that may hang without blocking this one.

        A read that has not begun yet serves all who ask before it begins.
        """
        if not self.store.reads_fast:
            raise errors.InvalidCandidateQuery('its copy by the API has no host for it')
        self._current()
        with self._changing:
            read = self._next_read
            if read is None or read.running() or read.done():
                read = self._reader.submit(lambda: self._read(include_unversioned=True))
                self._next_read = read
        try:
            read.result(self._patience_s)
        except TimeoutError as problem:
            self._late = True
            raise errors.NoCopy(
                f'its database did not answer within {self._patience_s:g} s'
            ) from problem

    def _has_nested_nodes(self, table: ProviderTable) -> bool:
        """Whether a compute node is below another provider: it is no root then."""
        if table.is_flat:
            return False
        nodes = self._nodes()
        uuids, count, nested = self._nested
        if uuids is not table.uuids or count != len(nodes):
            rows = (table.rows_by_uuid.get(uuid) for uuid in list(nodes))
            nested = any(r is not None and table.roots[r] != r for r in rows)
            self._nested = table.uuids, len(nodes), nested
        return nested

    def lacks_nodes(self) -> bool:
        """Return whether placement may have a compute node whose inventory the copy
        lacks, as it has registered since.

        A node is waited for within LAG_S after it was noticed. The age of nodes of the
        first look is unknown: they are waited for until a later copy was read.
        """
        copy = self._copy  # another thread may replace it
        if copy is None:
            return False
        look = self._compare(copy)
        if look.missing and copy.as_of <= look.began_at:
            return True
        now = self._clock.monotonic()
        return any(now - at <= LAG_S for at in look.new_since.values())

    def _compare(self, copy: PlacementCopy) -> _Comparison:
        """Return a comparison of the nodes with a copy, as both are now."""
        nodes, before, contents = self._nodes(), self._compared, copy.contents
        if before is not None and nodes is before.nodes and contents is before.contents:
            return before
        missing = nodes - _shown(copy.table)
        now = self._clock.monotonic()
        self._compared = look = _next(before, nodes, contents, missing, now)
        if look.new_since.keys() - before.new_since if before else missing:
            self.want(())  # it is read at once
        return look

    def aggregates(self, provider_uuid: str) -> frozenset[str]:
        """Return the uuids of a provider's aggregates; raises errors.NoCopy."""
        copy = self._current()
        found = copy.aggregates_of(provider_uuid) if copy.is_exact else None
        if found is None:
            raise errors.NoCopy(f'the aggregates of {provider_uuid} are not known')
        return found

    # -- what is known first-hand

    def assume(self, taken: Mapping[str, Amounts]) -> None:
        """Count own claims that stand: amounts by class by provider by consumer."""
        self.own_claims.add(taken, self._clock.monotonic())

    @property
    def as_of(self) -> float:
        """See own_claims.ShowsClaims."""
        return float('-inf') if self._copy is None else self._copy.as_of

    def take(self, amounts: Amounts) -> None:
        """See own_claims.ShowsClaims."""
        if self._copy is not None:
            self._copy = self._copy.after(amounts)

    def invalidate(self, provider_uuids: Iterable[str], recheck: bool = False) -> None:
        """Read providers at once, whatever their generation is; ``recheck``: and once
        more some seconds later."""
        due_at = self._clock.monotonic() + (LOOK_AGAIN_S if recheck else 0.0)
        with self._changing:
            self._recheck_at.update(dict.fromkeys(provider_uuids, due_at))
        self._wake.set()

    # -- reading

    def periodic_tasks(self) -> list[PeriodicTask]:
        """Return the task that keeps the copy up to date: it waits by itself."""
        return [(0.0, self.keep_up)]

    def keep_up(self) -> None:
        """Wait until it is time to look, or there is news; read what has changed."""
        self._wake.wait(self._schedule.wait_s(self._clock.monotonic()))
        self._wake.clear()
        if not self._stopped:
            with contextlib.suppress(errors.StoreFailed):
                self._read()

    def catch_up(self) -> None:
        """Read what has changed, if that has failed; wait CATCH_UP_S for it at most.
        Whatever keeps it from being read, placement can be asked instead."""
        if self._broken or self._late:
            with contextlib.suppress(Exception):
                self._reader.submit(self._read).result(CATCH_UP_S)

    def stop(self) -> None:
        """Let ``keep_up`` end soon."""
        self._schedule.pause_s, self._stopped = 0.0, True
        self.store.close()
        self._wake.set()
        self.own_claims.leave(self)
        self._reader.close()
        self._verifying.close()

    def _read(self, include_unversioned: bool = False) -> None:
        """Read what has changed, or all.

        Raises errors.StoreFailed, which is logged once until a read succeeds.
        """
        with self._reading:
            began_at = self._clock.monotonic()
            try:
                with self._measure():
                    contents = self._read_changes(began_at, include_unversioned)
                    as_of = began_at - self.store.behind_s
                    copy = PlacementCopy.of(contents, as_of, self._as_read)
            except errors.StoreFailed as problem:
                self._log_failure(problem)
                raise
            except Exception:
                self._broken = True
                raise
            finally:
                self._schedule.read_finished(began_at, self._clock.monotonic())
            self._schedule.succeeded()
            self._show(copy)
            for column in self._orphans.new(copy.table.orphans):
                LOG.warning(
                    "Rows of placement's database are left out of its copy, or mended "
                    'in it: %s: %s',
                    column,
                    copy.table.orphans[column],
                )
            if as_of >= self._failed_at and not self._is_old(as_of):
                self._broken = self._late = False
                self._failure = ''
                self._log_end()

    def _log_failure(self, problem: errors.NovaschedError) -> None:
        self._broken, self._failed_at = True, self._clock.monotonic()
        self._failure = str(problem)
        self._schedule.failed()
        if self._begins():
            LOG.warning(
                'The copy of placement cannot be refreshed; falling back to placement '
                'for allocation candidates once it is too old: %s',
                problem,
            )

    def _read_changes(self, now: float, include_unversioned: bool) -> Contents:
        """Return the current contents of placement."""
        known, mark = self._as_read, self.store.change_token()
        is_quiet = mark is not None and mark == self._mark
        is_due = self._schedule.is_unversioned_due(now)
        with self._changing:
            due = [uuid for uuid, at in self._recheck_at.items() if at <= now]
        recheck = [] if known is None else known.table.ids_of(due).tolist()
        if known is None or self._schedule.must_load(now, self._broken):
            contents = self._load(now)
        elif is_quiet and not (is_due or include_unversioned or recheck):
            return known.contents
        else:
            include_unversioned = include_unversioned or (is_due and not is_quiet)
            contents = self.store.read_since(
                known.contents, include_unversioned, recheck, self._hints
            )
        if not len(contents.providers):
            raise errors.StoreFailed('Placement', 'it has no resource providers')
        if known is None or is_due or include_unversioned:
            self._schedule.unversioned_finished(now, self._clock.monotonic())
        self._mark = mark
        self._rechecked(due, now)
        return contents

    def _rechecked(self, uuids: Iterable[str], now: float) -> None:
        """Forget that providers were to be read, but for those that are once more."""
        with self._changing:
            for uuid in uuids:
                if self._recheck_at.get(uuid, now) <= now:
                    self._recheck_at.pop(uuid, None)

    def _load(self, now: float) -> Contents:
        """Read all; count the providers for which the copy differed."""
        contents = self.store.read(self._hints)
        if self._as_read is not None and not self._broken:
            missed = self._as_read.contents.missed(contents)
            self.differences += missed
            if missed:
                LOG.warning(
                    'The copy of placement differed for %d resource providers; it was '
                    'reloaded.',
                    missed,
                )
        self._schedule.loaded(now, self._clock.monotonic())
        return contents

    def _show(self, copy: PlacementCopy) -> None:
        """Use what was read; what own claims took since then is not in it."""
        with self._changing:
            is_first = self._as_read is None
            self._as_read = copy
            self._copy = copy.after(self.own_claims.since(copy.as_of))
        if is_first:
            LOG.info(
                'The copy of placement is there: %d providers, read from %s',
                len(copy.table),
                SOURCE_NAMES[copy.source],
            )

    # -- what is shown of it

    def current(self, max_age_s: float) -> PlacementCopy | None:
        """Return the copy, with own claims, or None if there is none as young."""
        copy, age_s = self._copy, self.age_s()
        return None if age_s is None or age_s > max_age_s else copy

    def want(self, aggregates: Iterable[str]) -> None:
        """Have the members of these aggregates read, too."""
        self._asked.update(aggregates)
        self._wake.set()

    def age_s(self) -> float | None:
        """Return how old the copy is, or None if there is none."""
        copy = self._copy
        return None if copy is None else self._clock.monotonic() - copy.as_of

    def __len__(self) -> int:
        return 0 if self._copy is None else len(self._copy.table)

    def problem(self) -> str:
        """Return why placement is asked for candidates, or was within LOAD_EVERY_S for
        a defect of the search; empty: it is not."""
        try:
            self._current()
        except errors.NoCopy as problem:
            return str(problem)
        at, text = self._defect
        return text if self._clock.monotonic() - at <= LOAD_EVERY_S else ''

    def state(self) -> dict[str, object]:
        """Return the values for a report."""
        age_s = self.age_s()
        return {
            'read seconds ago': 'never' if age_s is None else round(age_s, 1),
            'providers': len(self),
            'claims assumed': len(self.own_claims),
            'differences found': self.differences,
            'picks that were void': self.void_picks,
            'fallbacks': dict(self.fallbacks),
        }


def _next(
    before: _Comparison | None,
    nodes: Set[str],
    contents: Contents,
    missing: Set[str],
    now: float,
) -> _Comparison:
    """Return the look after another one, or the first one."""
    uuids = frozenset(nodes)
    if before is None:
        return _Comparison(now, nodes, contents, uuids, missing)
    new = dict.fromkeys(missing - before.uuids, now)
    known = {u: at for u, at in before.new_since.items() if u in missing}
    return _Comparison(
        before.began_at, nodes, contents, uuids, missing, {**known, **new}
    )


def _shown(table: ProviderTable) -> Set[str]:
    """Return the uuids of the providers that have inventory."""
    is_shown = np.zeros(len(table), bool)
    for inventory in table.inventories.values():
        is_shown[inventory.rows] = True
    bare = {table.uuids[row] for row in np.flatnonzero(~is_shown).tolist()}
    return table.rows_by_uuid.keys() - bare if bare else table.rows_by_uuid.keys()
