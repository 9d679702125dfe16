# SPDX-License-Identifier: Apache-2.0
"""Reserves the picks of one request, and detects the picks of concurrent requests.

Without AssumedInstances, and for what it does not count, all of this does nothing.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from weakref import WeakValueDictionary

from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import Retry, ScheduleRequest
from novasched.claiming.verification import Verifier
from novasched.cluster.assumed import AssumedInstances, HostView
from novasched.cluster.host_picks import AssumedPick, HostKey
from novasched.objects.request_spec import RequestSpec
from novasched.ports import NO_CALLER, Caller
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile, decide

LOG = logging.getLogger(__name__)

TURN_WITHIN_S = 60.0
"""Longest wait for another request of the same server group; nova's callers wait as
long for a scheduler that sends no heartbeat."""


class GroupLocks:
    """Lets requests of one server group in one after the other."""

    def __init__(self, within_s: float = TURN_WITHIN_S) -> None:
        self._within_s = within_s
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Semaphore] = (
            WeakValueDictionary()
        )

    @contextlib.contextmanager
    def of(self, group: str | None, caller: Caller = NO_CALLER) -> Iterator[None]:
        """Wait for the turn of a group, and have it; without a group, at once.

        Requests of others are served meanwhile. A request that has waited too long goes
        on as if it had the turn; raises CallerGone if it has for its ``caller``.
        """
        if group is None:
            yield
            return
        with self._lock:
            turn = self._turns.setdefault(group, threading.Semaphore())
        entered = at_once = turn.acquire(blocking=False)
        if not at_once:
            with caller.resting():
                entered = turn.acquire(timeout=self._within_s)
        if not entered:
            LOG.warning(
                'Another request of server group %s has not ended for %d s; proceeding '
                'without its turn',
                group,
                self._within_s,
            )
        try:
            if not at_once:
                caller.check()
            yield
        finally:
            if entered:
                turn.release()


class SeenPicks:
    """Picks of concurrent requests, as a request sees them. Without ``assumed``, it
    sees none."""

    def __init__(
        self, assumed: AssumedInstances | None, request: ScheduleRequest
    ) -> None:
        self._sees = assumed
        self._uuids = frozenset(request.instance_uuids)

    def hosts(self, take: Callable[[], HostTable]) -> HostTable:
        """Return hosts with all that was picked, but for instances of this request."""
        return take() if self._sees is None else self._view(self._sees, take).hosts

    def _view(
        self, assumed: AssumedInstances, take: Callable[[], HostTable]
    ) -> HostView:
        return assumed.see(take, self._uuids)

    def request(self, request: RequestSpec) -> RequestSpec:
        """Return the request, its group grown by the recently picked members."""
        picks = self._sees.in_group(request) if self._sees is not None else []
        others = [pick for pick in picks if pick.uuid not in self._uuids]
        group = request.instance_group if others else None
        if group is None:
            return request
        members = [*(group.if_set('members') or ()), *(pick.uuid for pick in others)]
        hosts = [*(group.if_set('hosts') or ()), *(pick.host for pick in others)]
        group = group.replaced(
            members=list(dict.fromkeys(members)), hosts=list(dict.fromkeys(hosts))
        )
        return request.replaced(instance_group=group)


class Reservation(SeenPicks, Verifier):
    """Picks of one request, seen by concurrent requests, and theirs, seen by this one.

    A pick is reserved before it is claimed. If another request has picked the host
    meanwhile, ``rebased`` counts its pick, and this request decides again. A pick of
    another scheduler may be heard of only after the claim. ``placed`` then finds out
    whether both have room.
    """

    def __init__(
        self,
        assumed: AssumedInstances | None,
        request: ClaimedRequest,
        profile: Profile,
    ) -> None:
        super().__init__(assumed, request)
        counts = assumed is not None and assumed.counts(request.spec)
        self._assumed = assumed if counts else None
        self._claims = request.claims
        self._profile = profile
        self._mine: list[AssumedPick] = []
        self._host_view: HostView | None = None
        self._rebased_to: dict[HostKey, int] = {}
        self._conflict: HostState | None = None
        self._budget = request.budget
        self._counted: list[AssumedPick] = []

    @contextlib.contextmanager
    def picking(self) -> Iterator[None]:
        """Pick within this; a failure, or the undoing of the claims, forgets all."""
        if self._assumed is not None:
            self._claims.if_undone.append(self.forget)
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def _view(
        self, assumed: AssumedInstances, take: Callable[[], HostTable]
    ) -> HostView:
        self.forget()
        self._rebased_to.clear()
        self._host_view = view = super()._view(assumed, take)
        self._counted = [*view.picks]
        return view

    def others(self, take: Callable[[], HostTable]) -> HostTable:
        """Return hosts with all that was picked; what this request has stays."""
        return take() if self._sees is None else self._sees.see(take).hosts

    def reserve(self, host: HostState, request: RequestSpec) -> bool:
        """Show others that the instance takes the host; return False on a conflict.

        ``request`` has the providers of the instance.
        """
        if self._assumed is None or self._host_view is None:
            return True
        seen = self._seen((host.cell_uuid, host.uuid))
        after = None if self._budget.is_spent(Outcome.PICKED_MEANWHILE) else seen
        base = self._host_view.base
        first = self._mine[0].pick.first if self._mine else request.instance_uuid
        pick = self._assumed.add(host, base, request, after, self._uuids, first)
        if pick is None:
            self._conflict = host
            self._budget.spend(Outcome.PICKED_MEANWHILE)
            return False
        self._mine.append(pick)
        return True

    def _seen(self, key: HostKey) -> int:
        """Return the number of the last pick on a host that this request knows."""
        assert self._host_view is not None
        return self._rebased_to.get(key, self._host_view.number)

    def release(self) -> None:
        """Take back what was reserved last: it could not be claimed."""
        if self._assumed is not None and self._mine:
            self._assumed.remove([self._mine.pop()])

    def forget(self) -> None:
        """Take back all that was reserved."""
        if self._assumed is not None:
            self._assumed.remove(self._mine)
        self._mine = []

    def rebased(self, hosts: HostTable) -> HostTable | None:
        """Return the hosts less what others picked meanwhile, or None without a
        conflict.
        """
        host, self._conflict = self._conflict, None
        if host is None or self._assumed is None:
            return None
        key = host.cell_uuid, host.uuid
        later = self._assumed.picks_after(key, self._seen(key))
        numbers = [pick.number for pick in later]
        self._rebased_to[key] = max(numbers, default=self._seen(key))
        others = self._of_others(later)
        self._counted += others
        return self._assumed.less(hosts, host._row, others)

    def _of_others(self, picks: Iterable[AssumedPick]) -> list[AssumedPick]:
        return [each for each in picks if each.pick.uuid not in self._uuids]

    def released(self) -> Retry | None:
        """Return a retry if counted picks have gone, as requests took other hosts."""
        if self._assumed is None or self._budget.is_spent(Outcome.PICKS_RELEASED):
            return None
        retry = self._budget.retry(Outcome.PICKS_RELEASED)
        if not self._assumed.any_forgotten(self._counted):
            return None
        self._claims.abort('picks that have gone since', is_conflict=False)
        return retry

    def placed(self, offered: HostTable, hosts: Sequence[HostState]) -> Retry | None:
        """Return a retry, with all rolled back, if another scheduler's pick has
        priority.

        Of two conflicting requests, the one whose message arrived first keeps its pick;
        without messages, the lower uuid. If each was first on some host, the request
        whose first instance has the lower uuid stays. The first decision chose from the
        ``offered`` hosts.
        """
        if self._sees is not None:
            self._sees.granted(self._uuids, self._mine)
        if self._assumed is None or self._budget.is_spent(Outcome.PICKED_BY_OTHER):
            return None
        self._assumed.wait_for_echo(self._mine)
        rows = {(host.cell_uuid, host.uuid): host._row for host in hosts}
        before, after = self._in_conflict(offered, rows)
        aborting = {other.pick.first for other in after}
        for other in before:
            first = other.pick.first
            if first in aborting and self._mine[0].pick.first < first:
                continue  # it meets this request on another host, and aborts
            text = f'{other.pick.uuid} was picked for {other.pick.host}'
            self._claims.abort(text)
            return self._budget.retry(Outcome.PICKED_BY_OTHER, text)
        return None

    def _in_conflict(
        self, offered: HostTable, rows: Mapping[HostKey, int]
    ) -> tuple[list[AssumedPick], list[AssumedPick]]:
        """Return the conflicting picks of other schedulers: earlier ones, and later
        ones.

        This request did not know them, and the host has no room for both.
        """
        assert self._assumed is not None
        conflicts: tuple[list[AssumedPick], list[AssumedPick]] = [], []
        for key, row in rows.items():
            mine = [own for own in self._mine if own.pick.key == key]
            if self._host_view is None or not mine:
                continue
            seen = self._seen(key)
            later = self._assumed.picks_after(key, self._host_view.number)
            others = self._of_others(later)
            known = [other for other in others if other.number <= seen]
            new = [o for o in others if o.number > seen and o.pick.origin]
            before = [other for other in new if _stays(other, mine)]
            after = [other for other in new if other not in before]
            for picks, of_kind in zip((before, after), conflicts, strict=True):
                if picks and not self._has_room(
                    self._assumed, offered, row, [*known, *picks], mine
                ):
                    of_kind += picks
        return conflicts

    def _has_room(
        self,
        assumed: AssumedInstances,
        offered: HostTable,
        row: int,
        others: Iterable[AssumedPick],
        mine: Iterable[AssumedPick],
    ) -> bool:
        alone = HostTable(offered.snapshot, offered.rows[offered.rows == row])
        alone = assumed.less(alone, row, others)
        for own in mine:
            rng = random.Random(0)
            alone = decide(self._profile, alone, own.pick.request, rng).ranked
            if not len(alone):
                return False
            alone = assumed.less(alone, row, [own])
        return True


def _stays(other: AssumedPick, mine: Iterable[AssumedPick]) -> bool:
    """Return whether the pick of another scheduler precedes the picks of a request."""
    orders = [own.order for own in mine if own.order is not None]
    if other.order is not None and orders:
        return other.order < max(orders)
    return other.pick.uuid < min(own.pick.uuid for own in mine)
