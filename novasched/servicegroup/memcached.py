# SPDX-License-Identifier: Apache-2.0
"""Heartbeats in memcached, as nova's driver ``mc`` writes and reads them.

The key is ``<topic>:<host>``, the value the time of the beat. Nova lets no key
expire at the server: the reader judges how old it is.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import functools
import logging
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

import oslo_cache
from oslo_cache import _opts as cache
from oslo_config import cfg

from novasched import errors
from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.cluster.cell_executor import CellExecutor
from novasched.cluster.discovery import ServiceDirectory
from novasched.log_once import LogOnce
from novasched.ports import ServiceRow

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    str(group): list(options) for group, options in cache.list_opts()
}
"""Those of oslo.cache, which ``servicegroup_driver = mc`` needs."""

LOOK_S = 1.0
"""How long what was found counts: a beat holds for much longer."""

NEVER = datetime.datetime(1970, 1, 1)  # noqa: DTZ001

WAIT_S = 0.5
"""How long a request waits for memcached; then what was found before counts."""


class Region(Protocol):
    """What is used of a region of dogpile.cache."""

    def get_multi(self, keys: Sequence[str], *, ignore_expiration: bool) -> Any:
        """Return the value of each key, or a value that is no time."""

    def set(self, key: str, value: Any) -> None:
        """Write a value."""


class Beats:
    """What is known of heartbeats. Satisfies ports.Heartbeats.

    A beat that was seen counts as long as it is young enough, whatever becomes of
    its key meanwhile: memcached forgets, and its servers come and go.
    """

    def __init__(self, region: Region, clock: Clock, within_s: float = WAIT_S) -> None:
        self._region = region
        self._within_s = within_s
        self._clock = clock
        self._executor = CellExecutor('memcached', 1)
        weakref.finalize(self, self._executor.close)
        self._lock = threading.Lock()
        self._look: concurrent.futures.Future[None] | None = None
        self._seen: dict[str, datetime.datetime] = {}
        self._asked_s: dict[str, float] = {}
        self._failing = LogOnce()

    @classmethod
    def from_conf(cls, conf: Any, clock: Clock) -> Self:
        """Read the options. Raises errors.OptionError."""
        return cls(cls.region_from_conf(conf), clock)

    @staticmethod
    def region_from_conf(conf: Any) -> Region:
        """Make what [cache] describes; it connects when it is first used.

        Raises errors.OptionError.
        """
        oslo_cache.configure(conf)
        region = oslo_cache.create_region()
        try:
            region = oslo_cache.configure_cache_region(conf, region)
            _ = region.actual_backend
        except Exception as problem:  # a backend is a plugin
            raise errors.OptionError(
                '[cache] backend',
                f'{conf.cache.backend} cannot be used: {problem}',
                'Correct the options of [cache], and install the client library',
            ) from problem
        return region

    def now(self) -> datetime.datetime:
        """Return the time of day by which beats are judged."""
        return self._clock.utcnow()

    def dated(self, rows: Iterable[ServiceRow]) -> list[ServiceRow]:
        """Return the rows, ``last_seen_up`` the newest beat seen in memcached.

        A beat ahead of our clock is as good as one of now: it is what nova takes.
        """
        rows = list(rows)
        found, now = self.latest([_key(row) for row in rows]), self.now()
        return [
            row._replace(last_seen_up=min(found.get(_key(row), NEVER), now))
            for row in rows
        ]

    def latest(self, keys: Collection[str]) -> Mapping[str, datetime.datetime]:
        """Return the newest beat seen of these keys, and maybe of others.

        Each is looked up once in ``LOOK_S`` at most; who is kept waiting for longer
        than ``within_s`` gets what was known before.
        """
        deadline, looks = SYSTEM_CLOCK.monotonic() + self._within_s, False
        while not looks and (due := self._due(keys)):
            with self._lock:
                # Who waits for the look of another cell has one of his own after it.
                looks = self._look is None or self._look.done()
                if looks:
                    look = functools.partial(self._look_up, due)
                    self._look = self._executor.submit(look)
                waiting = self._look
            left_s = max(0.0, deadline - SYSTEM_CLOCK.monotonic())
            if waiting is None or not concurrent.futures.wait([waiting], left_s).done:
                break
        return self._seen

    def _due(self, keys: Collection[str]) -> list[str]:
        soonest = self._clock.monotonic() - LOOK_S
        return [key for key in keys if self._asked_s.get(key, soonest) <= soonest]

    def _look_up(self, keys: Sequence[str]) -> None:
        asked_s = self._clock.monotonic()
        try:
            found = self._region.get_multi(keys, ignore_expiration=True)
        except Exception as problem:  # noqa: BLE001 a backend is a plugin
            if self._failing.begins():
                LOG.error('Heartbeats cannot be read from memcached: %s', problem)
            return
        if self._failing.ends():
            LOG.info('Heartbeats can be read from memcached again.')
        for key, value in zip(keys, found, strict=True):
            self._asked_s[key] = asked_s
            if isinstance(value, datetime.datetime):
                self._seen[key] = value.replace(tzinfo=None)

    def put(self, key: str) -> None:
        """Write a heartbeat of now, and make sure that it is there.

        Raises errors.StoreFailed.
        """
        now = self.now()
        try:
            self._region.set(key, now)
            (found,) = self._region.get_multi([key], ignore_expiration=True)
        except Exception as problem:  # a backend is a plugin
            raise errors.StoreFailed('memcached', str(problem)) from problem
        if found != now:
            raise errors.StoreFailed('memcached', 'it did not keep a heartbeat')


def _key(row: ServiceRow) -> str:
    return f'{row.topic}:{row.host}'


class MemcachedServices:
    """The services rows of schedulers. Satisfies cluster.discovery.ServiceDirectory.

    Our own heartbeat goes to memcached, and the row stays as it is.
    """

    def __init__(self, inner: ServiceDirectory, beats: Beats) -> None:
        self._inner = inner
        self._beats = beats
        self._keys: dict[int, str] = {}

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self._inner.register(host, binary, topic, version)
        self._keys[row.id] = _key(row)
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        key = self._keys.get(service_id)
        if key is None:
            raise errors.StoreFailed('memcached', 'the service is not registered')
        self._beats.put(key)
        return True

    def of_program(self, binary: str) -> list[ServiceRow]:
        return self._beats.dated(self._inner.of_program(binary))
