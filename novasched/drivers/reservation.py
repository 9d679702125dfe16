# SPDX-License-Identifier: Apache-2.0
"""Reserves the picks of one request, and detects those of concurrent requests.

Without AssumedInstances, all of this does nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from novasched.cluster.assumed import (
    AssumedInstances,
    HostKey,
    HostView,
    Pick,
    group_of,
)
from novasched.drivers import ScheduleRequest
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Caller
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.hosts import HostState, HostTable, consume

LOG = logging.getLogger(__name__)

TURN_WITHIN_S = 60.0
"""Longest wait for another request of the same server group; nova's callers wait as
long for a scheduler that sends no heartbeat."""

MOST_CONFLICTS = 64
"""Most new decisions for one instance after picks by concurrent requests. By default no
more requests than that are served at once."""


class GroupTurns:
    """Lets requests of one server group in one after the other."""

    def __init__(self, within_s: float = TURN_WITHIN_S) -> None:
        self._within_s = within_s
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Semaphore] = (
            WeakValueDictionary()
        )

    @contextlib.contextmanager
    def of(self, group: str | None, caller: Caller | None = None) -> Iterator[None]:
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
            with caller.resting() if caller else contextlib.nullcontext():
                entered = turn.acquire(timeout=self._within_s)
        if not entered:
            LOG.warning(
                'Another request of server group %s has not ended for %d s; proceeding '
                'without its turn',
                group,
                self._within_s,
            )
        try:
            if caller and not at_once:
                caller.check()
            yield
        finally:
            if entered:
                turn.release()


class Reservation:
    """Picks of one request, seen by concurrent requests, and theirs, seen by this one.

    A pick is reserved before it is claimed. If another request picked the same host
    since this one looked, that is a conflict: ``rebased`` takes its pick in, and this
    request decides again.
    """

    def __init__(self, assumed: AssumedInstances | None, work: ScheduleRequest) -> None:
        self._assumed = assumed if work.claims is not None else None
        self._sees = assumed
        self._work = work
        self._mine: list[Pick] = []
        self._host_view: HostView | None = None
        self._rebased_to: dict[HostKey, int] = {}
        self._conflict: HostState | None = None
        self._conflicts = 0

    @property
    def turn_of(self) -> str | None:
        """The group whose requests are served one after the other, if that matters."""
        return None if self._assumed is None else group_of(self._work.request)

    @contextlib.contextmanager
    def picking(self) -> Iterator[None]:
        """Pick within this: when it fails, or the claims are undone, all is forgotten.

        What was picked for its instances before is forgotten, too: it is over.
        """
        if self._assumed is None or self._work.claims is None:
            yield
            return
        self._work.claims.if_undone.append(self.forget)
        self._assumed.remove_instances(self._work.instance_uuids or ())
        try:
            yield
        except BaseException:
            self.forget()
            raise

    def hosts(self, take: Callable[[], HostTable]) -> HostTable:
        """Return hosts with all that was picked, but by this request so far."""
        if self._sees is None:
            return take()
        self.forget()
        self._rebased_to.clear()
        self._host_view = self._sees.see(take)
        return self._host_view.hosts

    def request(self, request: RequestSpec) -> RequestSpec:
        """Return the request, its group grown by the members picked of late."""
        group = request.instance_group if 'instance_group' in request else None
        uuid = group_of(request)
        picks = self._sees.in_group(uuid) if uuid and self._sees is not None else []
        if group is None or not picks:
            return request
        members = list(group.members or ()) if 'members' in group else []
        hosts = list(group.hosts or ()) if 'hosts' in group else []
        group = group.replaced(
            members=list(dict.fromkeys([*members, *(pick.uuid for pick in picks)])),
            hosts=list(dict.fromkeys([*hosts, *(pick.host for pick in picks)])),
        )
        return request.replaced(instance_group=group)

    def reserve(self, host: HostState, request: RequestSpec) -> bool:
        """Let others see that the instance of the request takes the host.

        ``request`` has the providers of the instance. False: another pick conflicts.
        """
        if self._assumed is None or self._host_view is None:
            return True
        seen = self._rebased_to.get((host.cell_uuid, host.uuid), self._host_view.number)
        after = None if self._conflicts >= MOST_CONFLICTS else seen
        pick = self._assumed.add(host, self._host_view.base, request, after, self._mine)
        if pick is None:
            self._conflict = host
            self._conflicts += 1
            return False
        self._mine.append(pick)
        return True

    def release(self) -> None:
        """Take back what was reserved last: it could not be claimed."""
        if self._assumed is not None and self._mine:
            self._assumed.remove([self._mine.pop()])

    def forget(self) -> None:
        """Take back all that was reserved."""
        if self._assumed is not None:
            self._assumed.remove(self._mine)
        self._mine = []

    def rebased(self, hosts: HostTable, fitting: Fitting) -> HostTable | None:
        """Return the hosts less what others picked meanwhile; None: no conflict."""
        host, self._conflict = self._conflict, None
        if host is None or self._assumed is None or self._host_view is None:
            self._conflicts = 0
            return None
        key = host.cell_uuid, host.uuid
        seen = self._rebased_to.get(key, self._host_view.number)
        for pick in self._assumed.later(key, seen):
            self._rebased_to[key] = pick.number
            if pick not in self._mine:
                hosts = consume(hosts, host._row, pick.request)
                hosts = book(hosts, host._row, pick.request, fitting).hosts
        LOG.debug('Another request picked %s meanwhile; selecting again.', host)
        return hosts
