# SPDX-License-Identifier: Apache-2.0
"""Compute service state. Per request only unusable services are queried.

All rows are read at the start and periodically. Before a request, only services that
are disabled, forced down, silent, new or deleted are read. Any other service is enabled
and was heard from in time.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from oslo_config import cfg

from novasched.ports import ServiceRow

OPTS = {
    'DEFAULT': [
        cfg.IntOpt(
            'service_down_time',
            default=60,
            help='Seconds without a heartbeat after which a service counts as down.',
        ),
        cfg.IntOpt(
            'report_interval',
            default=10,
            help='Seconds between heartbeats of a service; 0 means none.',
        ),
        cfg.StrOpt(
            'servicegroup_driver',
            default='db',
            choices=['db', 'mc'],
            help='How services say that they are alive: db, by the database, or mc, by '
            'memcached. All services of a cloud must do the same; mc needs '
            '``[cache] enabled`` and the same options of [cache] everywhere.',
        ),
    ]
}

NOT_DELETED = {'deleted': False, 'deleted_at': None}
STAMPS = ('last_seen_up', 'created_at', 'updated_at')


class Window(NamedTuple):
    """The heartbeats that count as alive at the time ``now``."""

    now: datetime.datetime
    oldest: datetime.datetime
    newest: datetime.datetime

    @classmethod
    def around(cls, now: datetime.datetime, down_time_s: int) -> Window:
        span = datetime.timedelta(seconds=down_time_s)
        return cls(now, now - span, now + span)

    def holds(self, row: ServiceRow) -> bool:
        heartbeat = _heartbeat(row)
        return heartbeat is not None and self.oldest <= heartbeat <= self.newest

    @property
    def span(self) -> datetime.timedelta:
        """For how long a heartbeat counts."""
        return self.newest - self.now


def _heartbeat(row: ServiceRow) -> datetime.datetime | None:
    return row.last_seen_up or row.created_at


def down_time(service_down_time: int, report_interval: int) -> tuple[int, str | None]:
    """Return the seconds after which a service is down, and nova's warning if the
    option was raised because of the report interval."""
    if service_down_time > report_interval:
        return service_down_time, None
    raised = int(report_interval * 2.5)
    return raised, (
        'Report interval must be less than service down time. Current config: '
        f'<service_down_time: {service_down_time}, report_interval: '
        f'{report_interval}>. Setting service_down_time to: {raised}'
    )


class ReadOnly(dict[str, Any]):
    """A dict that raises TypeError when it is to be changed."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError('this dict is read-only')

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = update = _refuse

    def setdefault(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else self._refuse()


class Unavailable(NamedTuple):
    """Why a service must not be used; ``up`` was judged when it was read."""

    row: ServiceRow
    up: bool


LEAST_COMPUTES = 3
"""From how many on it is no accident that all fall silent at once."""


class SilentComputes(NamedTuple):
    """Computes that were all heard of, and none is any more.

    ``last`` is the newest heartbeat, ``since`` when it ceased to count, ``hosts``
    those that were up then.
    """

    last: datetime.datetime
    since: datetime.datetime
    hosts: frozenset[str]


class Services(NamedTuple):
    """The compute services of one cell by host, as they were at a moment."""

    rows: Mapping[str, ServiceRow] = {}
    newest_id: int = 0  # highest id of a row that was ever among them
    unavailable: Mapping[str, Unavailable] = {}
    silent: SilentComputes | None = None  # set if no compute is heard from any more
    kept: bool = False  # whether the hosts in silent count as up

    def knows(self, host: str | None) -> bool:
        return host in self.rows or host in self.unavailable

    def with_rows(self, rows: Iterable[ServiceRow]) -> Services:
        """Take all live rows of the cell as they are now."""
        return self._with({row.host: row for row in rows})

    def _with(self, rows: Mapping[str, ServiceRow]) -> Services:
        newest_id = max((row.id for row in rows.values()), default=0)
        return self._replace(rows=rows, newest_id=max(self.newest_id, newest_id))

    def with_some(
        self, rows: Iterable[ServiceRow], deleted: Collection[int] = ()
    ) -> Services:
        """Take in live rows that may be new, and forget the rows of these ids."""
        known = self.rows
        new = {
            row.host: row
            for row in rows
            if row.host not in known or known[row.host].id != row.id
        }
        kept = known
        if deleted:
            kept = {host: row for host, row in known.items() if row.id not in deleted}
        if not new and len(kept) == len(known):
            return self
        return self._with({**kept, **new})

    def with_hosts(
        self, hosts: Collection[str], rows: Iterable[ServiceRow], window: Window
    ) -> Services:
        """Take in all live rows of some hosts, as they are now; self, if filters see
        the same."""
        live = {row.host: row for row in rows if row.host in hosts}
        found = _unavailable(live.values(), window)
        if all(
            (host in live) == self.knows(host)
            and _state(found.get(host)) == _state(self.unavailable.get(host))
            for host in hosts
        ):
            return self
        return self._replacing(hosts, live, found)

    def _replacing(
        self,
        hosts: Collection[str],
        rows: Mapping[str, ServiceRow],
        unavailable: Mapping[str, Unavailable],
    ) -> Services:
        """Take these of some hosts in place of what is known of them."""
        known = {h: row for h, row in self.rows.items() if h not in hosts}
        others = {h: each for h, each in self.unavailable.items() if h not in hosts}
        return self._replace(
            rows={**known, **rows}, unavailable={**others, **unavailable}
        )

    def with_those_of(self, other: Services, hosts: Collection[str]) -> Services:
        """Take what another one has of some hosts, as that is newer."""
        differ = {
            host
            for host in hosts
            if self.rows.get(host) != other.rows.get(host)
            or self.unavailable.get(host) != other.unavailable.get(host)
        }
        if not differ:
            return self

        rows, unavailable = other.rows, other.unavailable
        return self._replacing(
            differ,
            {host: rows[host] for host in differ if host in rows},
            {host: unavailable[host] for host in differ if host in unavailable},
        )

    def with_unavailable(self, rows: Iterable[ServiceRow], window: Window) -> Services:
        """Take all that must not be used, as they are now, from among these rows."""
        found = _unavailable(rows, window)
        some_up = any(host not in found for host in self.rows)
        silent = None if some_up else _fallen_silent(found.values(), window)
        return self._replace(unavailable=found, silent=silent)

    def some_is_usable(self) -> bool:
        """Return whether any service is enabled and was heard from in time."""
        return any(host not in self.unavailable for host in self.rows)

    def looks_like(self, other: Services) -> bool:
        """Return whether filters would see the same services, all in the same state."""
        same_hosts = self.rows is other.rows or self.rows.keys() == other.rows.keys()
        same_kept = self.kept_hosts() == other.kept_hosts()
        return same_hosts and same_kept and _states(self) == _states(other)

    def kept_hosts(self) -> frozenset[str]:
        """Return the silent hosts that count as up all the same."""
        return self.silent.hosts if self.kept and self.silent else frozenset()

    def is_disabled(self, host: str) -> bool:
        found = self.unavailable.get(host)
        return found is not None and bool(found.row.disabled)

    def is_up(self, host: str) -> bool:
        """Return whether the service was heard from in time when last asked."""
        found = self.unavailable.get(host)
        if found is None or found.up:
            return True
        return not found.row.forced_down and host in self.kept_hosts()

    def describe(self, host: str, window: Window) -> Mapping[str, Any]:
        """Return the row of a known service as filters see it; its times are aware.

        A service that was not among the unavailable ones is at least as alive as
        the oldest heartbeat that counts.
        """
        found = self.unavailable.get(host)
        row = found.row if found is not None else self._alive(host, window)
        if host in self.kept_hosts():
            row = row._replace(last_seen_up=window.oldest)
        stamps = {name: aware(getattr(row, name)) for name in STAMPS}
        return ReadOnly({**row._asdict(), **stamps, **NOT_DELETED})

    def _alive(self, host: str, window: Window) -> ServiceRow:
        row = self.rows[host]
        seen = row.last_seen_up if window.holds(row) else window.oldest
        return row._replace(
            disabled=False, disabled_reason=None, forced_down=False, last_seen_up=seen
        )


def _unavailable(rows: Iterable[ServiceRow], window: Window) -> dict[str, Unavailable]:
    """Return the services that must not be used, by host."""
    found = {}
    for row in rows:
        up = not row.forced_down and window.holds(row)
        if row.disabled or not up:
            found[row.host] = Unavailable(row, up)
    return found


def _fallen_silent(
    found: Collection[Unavailable], window: Window
) -> SilentComputes | None:
    """Return the state of services that have all fallen silent.

    None if one is heard from, or too few were up together at the last heartbeat.
    """
    if len(found) < LEAST_COMPUTES or any(window.holds(each.row) for each in found):
        return None
    beats = {
        each.row.host: beat
        for each in found
        if (beat := _heartbeat(each.row)) is not None
    }
    if not beats:
        return None
    past = [beat for beat in beats.values() if beat <= window.newest]
    last = max(past or beats.values())
    forced = {each.row.host for each in found if each.row.forced_down}
    were_up = {host for host, beat in beats.items() if abs(last - beat) <= window.span}
    hosts = frozenset(were_up - forced)
    if len(hosts) < LEAST_COMPUTES:
        return None
    return SilentComputes(last, last + window.span, hosts)


def _states(services: Services) -> dict[str, tuple[Any, ...] | None]:
    """Return the states of all services that must not be used."""
    return {host: _state(found) for host, found in services.unavailable.items()}


def _state(found: Unavailable | None) -> tuple[Any, ...] | None:
    """Return the state that filters see of a service that must not be used."""
    if found is None:
        return None
    row = found.row
    return found.up, row.disabled, row.disabled_reason, row.forced_down


def aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Give a time of the database, UTC without a zone, its zone."""
    return None if moment is None else moment.replace(tzinfo=datetime.UTC)
