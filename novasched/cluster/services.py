# SPDX-License-Identifier: Apache-2.0
"""What is known of the compute services: few are unusable, so those are asked for.

All rows are read at the start and now and then; before a request, only those
that are disabled, forced down or silent. A service that is in neither answer is
enabled and was heard from in time.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

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
            choices=['db'],
            help='How services say that they are alive. Only the database is known.',
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


class Unavailable(NamedTuple):
    """Why a service must not be used; ``up`` was judged when it was read."""

    row: ServiceRow
    up: bool

    def state(self) -> tuple[Any, ...]:
        return self.up, self.row.disabled, self.row.disabled_reason


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


class Services:
    """The compute services of one cell, by host; ``version`` grows with changes."""

    def __init__(self) -> None:
        self._rows: dict[str, ServiceRow] = {}
        self._unavailable: dict[str, Unavailable] = {}
        self.version = 0

    def __contains__(self, host: str | None) -> bool:
        return host in self._rows

    def replace(self, rows: Iterable[ServiceRow]) -> None:
        """Take all live rows of the cell as they are now."""
        by_host = {row.host: row for row in rows}
        if by_host.keys() != self._rows.keys():
            self.version += 1
        self._rows = by_host

    def set_unavailable(self, rows: Iterable[ServiceRow], window: Window) -> None:
        """Take the rows that must not be used, as they are now."""
        unavailable = {
            row.host: Unavailable(row, not row.forced_down and window.holds(row))
            for row in rows
        }
        before = {host: u.state() for host, u in self._unavailable.items()}
        if before != {host: u.state() for host, u in unavailable.items()}:
            self.version += 1
        self._unavailable = unavailable

    def is_disabled(self, host: str) -> bool:
        found = self._unavailable.get(host)
        return found is not None and bool(found.row.disabled)

    def is_up(self, host: str) -> bool:
        """Say whether the service was heard from in time when last asked."""
        found = self._unavailable.get(host)
        return found is None or found.up

    def describe(self, host: str, window: Window) -> Mapping[str, Any]:
        """Return the service as filters see it, read-only.

        A service that was not among the unavailable ones is at least as alive as
        the oldest heartbeat that counts.
        """
        found = self._unavailable.get(host)
        if found is not None:
            return MappingProxyType(found.row._asdict())
        row = self._rows[host]
        heartbeat = row.last_seen_up
        return MappingProxyType(
            row._replace(
                disabled=False,
                disabled_reason=None,
                forced_down=False,
                last_seen_up=max(heartbeat, window.oldest) if heartbeat else None,
            )._asdict()
        )
