# SPDX-License-Identifier: Apache-2.0
"""What is known of the compute services: few are unusable, so those are asked for.

All rows are read at the start and now and then; before a request, only those
that are disabled, forced down or silent. A service that is in neither answer is
enabled and was heard from in time.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
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
            'memcached. This service can only do db.',
        ),
    ]
}


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
        heartbeat = row.last_seen_up or row.created_at
        return heartbeat is not None and self.oldest <= heartbeat <= self.newest


def down_time(service_down_time: int, report_interval: int) -> tuple[int, str | None]:
    """Return the seconds after which a service is down, and nova's warning if the
    option was too small for the report interval and had to be raised."""
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

    def state(self) -> tuple[Any, ...]:
        return self.up, self.row.disabled, self.row.disabled_reason


class Services(NamedTuple):
    """The compute services of one cell by host, as they were at a moment."""

    rows: Mapping[str, ServiceRow] = {}
    unavailable: Mapping[str, Unavailable] = {}

    def knows(self, host: str | None) -> bool:
        return host in self.rows or host in self.unavailable

    def with_rows(self, rows: Iterable[ServiceRow]) -> Services:
        """Take all live rows of the cell as they are now."""
        return self._replace(rows={row.host: row for row in rows})

    def with_unavailable(self, rows: Iterable[ServiceRow], window: Window) -> Services:
        """Take the rows that must not be used, as they are now."""
        return self._replace(
            unavailable={
                row.host: Unavailable(row, not row.forced_down and window.holds(row))
                for row in rows
            }
        )

    def looks_like(self, other: Services) -> bool:
        """Say whether filters would see the same services, all in the same state."""
        same_hosts = self.rows is other.rows or self.rows.keys() == other.rows.keys()
        return same_hosts and _states(self) == _states(other)

    def is_disabled(self, host: str) -> bool:
        found = self.unavailable.get(host)
        return found is not None and bool(found.row.disabled)

    def is_up(self, host: str) -> bool:
        """Say whether the service was heard from in time when last asked."""
        found = self.unavailable.get(host)
        return found is None or found.up

    def describe(self, host: str, window: Window) -> Mapping[str, Any]:
        """Return the row of a known service as filters see it; its times are aware.

        A service that was not among the unavailable ones is at least as alive as
        the oldest heartbeat that counts.
        """
        found = self.unavailable.get(host)
        row = found.row if found is not None else self._alive(host, window)
        return ReadOnly(
            row._replace(
                last_seen_up=aware(row.last_seen_up),
                created_at=aware(row.created_at),
                updated_at=aware(row.updated_at),
            )._asdict()
        )

    def _alive(self, host: str, window: Window) -> ServiceRow:
        row = self.rows[host]
        seen = row.last_seen_up
        if not window.holds(row):
            seen = window.oldest
        return row._replace(
            disabled=False, disabled_reason=None, forced_down=False, last_seen_up=seen
        )


def _states(services: Services) -> dict[str, tuple[Any, ...]]:
    return {host: found.state() for host, found in services.unavailable.items()}


def aware(moment: datetime.datetime | None) -> datetime.datetime | None:
    """Give a time of the database, UTC without a zone, its zone."""
    return None if moment is None else moment.replace(tzinfo=datetime.UTC)
